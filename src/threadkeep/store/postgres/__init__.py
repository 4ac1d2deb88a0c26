"""Threads in PostgreSQL, for a team whose agents run on many machines; the extra `postgres`."""

from __future__ import annotations

from threadkeep.store.postgres.database import PostgresDatabase, migrate_database
from threadkeep.store.postgres.store import PostgresStore

__all__ = ["PostgresDatabase", "PostgresStore", "migrate_database"]
