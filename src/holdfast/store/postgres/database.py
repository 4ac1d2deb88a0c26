"""One PostgreSQL database and the connections to it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from urllib.parse import urlsplit

from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from holdfast.errors import StoreError, StoreTooNew
from holdfast.store.base import Tenant
from holdfast.store.postgres.errors import store_errors
from holdfast.store.postgres.queries import QUERIES, migrations
from holdfast.store.postgres.store import PostgresStore
from holdfast.store.postgres.writer import Connection, Writer

_KEY_BYTES = 32
POOL_SIZE = 8
PATIENCE_SECONDS = 30.0
SCHEMA = "holdfast"
# Row-level security binds no superuser; whoever connects as one works as this role instead.
ROLE = "holdfast_tenant"
# Any number, the same in every process: of several that open a new database at once, one migrates and the others wait.
_MIGRATION_LOCK = 0x686C6466


class PostgresDatabase:
    """An open database. Any number of processes may have it open; a pooler in transaction mode may stand in between."""

    def __init__(self, pool: AsyncConnectionPool[Connection], *, location: str, searchable: Callable[[str, bytes], str]) -> None:
        self._pool = pool
        self._writer = Writer(pool, location=location)
        self._location = location
        self._searchable = searchable
        self._role: str | None = None

    @classmethod
    async def open(cls, url: str, *, searchable: Callable[[str, bytes], str]) -> PostgresDatabase:
        """Connect to the database that `url` names and bring its schema up to date.

        Everything lies in the schema `holdfast`, which is made if it is not there.

        Args:
            searchable: Given a dialect and an item's bytes, returns the text to index. Must not raise, whatever the bytes.

        Raises:
            StoreTooNew: A newer holdfast migrated it.
            StoreError: It cannot be reached, or not be migrated.
        """
        location = shown(url)
        pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=POOL_SIZE,
            timeout=PATIENCE_SECONDS,
            open=False,
            # A pooler in transaction mode hands the next transaction to another server connection.
            kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": tuple_row},
        )
        database = cls(pool, location=location, searchable=searchable)
        try:
            with store_errors(location):
                await pool.open(wait=True, timeout=PATIENCE_SECONDS)
                await database._prepare()
        except BaseException:
            await pool.close()
            raise
        return database

    async def tenant(self, name: str = "local") -> PostgresStore:
        """Return the store of the tenant called `name`; it and its random key are made when it is first asked for."""
        with store_errors(self._location):
            async with self._pool.connection() as connection, connection.transaction():
                await connection.execute(QUERIES["enter"], {"tenant": "", "schema": SCHEMA})
                asked = {"name": name, "key": secrets.token_bytes(_KEY_BYTES)}
                row = await (await connection.execute(QUERIES["find_tenant"], asked)).fetchone()
                if row is None:
                    await connection.execute(QUERIES["add_tenant"], asked)
                    row = await (await connection.execute(QUERIES["find_tenant"], asked)).fetchone()
        assert row is not None
        return PostgresStore(
            number=row[0],
            tenant=Tenant(name=name, key=row[1]),
            pool=self._pool,
            writer=self._writer,
            location=self._location,
            role=self._role,
            schema=SCHEMA,
            searchable=self._searchable,
            close=self.close,
        )

    async def close(self) -> None:
        """Finish what was accepted and close every connection, for every tenant's store. Closing twice is no error."""
        await self._writer.close()
        await self._pool.close()

    async def _prepare(self) -> None:
        async with self._pool.connection() as connection:
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
                await self._migrate(connection)
            self._role = await _role_for(connection)

    async def _migrate(self, connection: Connection) -> None:
        """Run the migrations that are missing, all in the transaction this is called in."""
        steps = migrations()
        await connection.execute(b"CREATE SCHEMA IF NOT EXISTS holdfast")
        await connection.execute(b"SET LOCAL search_path TO holdfast")
        await connection.execute(b"CREATE TABLE IF NOT EXISTS migration (version integer PRIMARY KEY)")
        row = await (await connection.execute(b"SELECT coalesce(max(version), 0) FROM migration")).fetchone()
        found = int(row[0]) if row else 0
        if found > max(steps):
            raise StoreTooNew(self._location, found=found, known=max(steps))
        for version in range(found + 1, max(steps) + 1):
            await connection.execute(steps[version])
            await connection.execute("INSERT INTO migration (version) VALUES (%s)", (version,))


async def _role_for(connection: Connection) -> str | None:
    """Return the role to work as: none where row-level security binds whoever connected, else one that it binds."""
    asked = await connection.execute("SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user")
    row = await asked.fetchone()
    if row is None or not row[0]:
        return None
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_MIGRATION_LOCK,))
        there = await (await connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (ROLE,))).fetchone()
        if there is None:
            await connection.execute(b"CREATE ROLE holdfast_tenant NOLOGIN")
        await connection.execute(b"GRANT USAGE ON SCHEMA holdfast TO holdfast_tenant")
        await connection.execute(b"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA holdfast TO holdfast_tenant")
    return ROLE


def shown(url: str) -> str:
    """Return a database's address as it may be told: without its password."""
    try:
        parts = urlsplit(url)
        host, database = parts.hostname or "local", parts.path.lstrip("/")
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise StoreError("postgresql://…", f"its address cannot be read ({error})") from error
    return f"postgresql://{host}{port}/{database}"
