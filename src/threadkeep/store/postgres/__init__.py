"""Threads in PostgreSQL, for a team whose agents run on many machines; the extra `postgres`."""

from __future__ import annotations

from threadkeep.store.postgres.store import PostgresDatabase, PostgresStore, migrate_database

__all__ = ["PostgresDatabase", "PostgresStore", "migrate_database"]
