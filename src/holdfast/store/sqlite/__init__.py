"""The embedded store: one SQLite file, one writer, readers beside it."""

from __future__ import annotations

from holdfast.store.sqlite.database import SqliteDatabase
from holdfast.store.sqlite.store import SqliteStore

__all__ = ["SqliteDatabase", "SqliteStore"]
