"""The embedded store: one SQLite file, one writer, readers beside it."""

from __future__ import annotations

from threadkeep.store.sqlite.store import SqliteDatabase, SqliteStore

__all__ = ["SqliteDatabase", "SqliteStore"]
