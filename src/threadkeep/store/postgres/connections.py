"""The connections to one database, and how to go on when they are lost: a server restarts, or another takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from threadkeep.errors import StoreError, StoreUnreachable
from threadkeep.store.postgres.errors import is_lost, name_postgres_error, translate_errors

T = TypeVar("T")

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
POOL_SIZE = 8
# A failover takes seconds; after this long the server counts as unreachable.
PATIENCE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
REASON_CHARS = 200
# A machine that vanished sends no notice. The system's own limits are minutes, or a quarter of an hour with something in flight;
# a failover must reach the next host within our patience.
TIMEOUTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
OLDEST_SERVER = 140_000
LAST_STATEMENT_SECONDS = 1.0


class Connections:
    """A pool of connections. Any number of processes may have one; a pooler in transaction mode may stand in between."""

    def __init__(self, url: str, *, location: str) -> None:
        self.location = location
        self._url = url
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            add_timeouts(url),
            min_size=1,
            max_size=POOL_SIZE,
            timeout=PATIENCE_SECONDS,
            open=False,
            # A pooler in transaction mode hands the next transaction to another server connection, which has prepared nothing.
            kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": tuple_row},
        )

    async def open(self) -> None:
        """Connect; raises as `check_server` does."""
        # The pool would retry for as long as it is patient, and a mistyped address would take that long to fail.
        await check_server(self._url, location=self.location)
        with translate_errors(self.location):
            await self._pool.open(wait=True, timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        await self._pool.close()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in a transaction of its own and return what it returns.

        A connection that is lost meanwhile is replaced and the work repeated: doing it twice must be the same as doing it once.
        """
        with translate_errors(self.location):
            return await self.attempt(work)

    async def attempt(self, work: Callable[[Connection], Awaitable[T]], *, pipeline: bool = False) -> T:
        """Do the same as `run`, but raise the driver's own errors."""
        patience = Patience(self)
        while True:
            try:
                async with (
                    self._pool.connection() as connection,
                    connection.pipeline() if pipeline else nullcontext(),
                    connection.transaction(),
                ):
                    return await work(connection)
            except psycopg.Error as error:
                if not is_lost(error) or not await patience.wait():
                    raise

    async def query(
        self, entering: bytes, entering_values: Mapping[str, object], query: bytes, values: Mapping[str, object]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one query in a transaction that `entering` begins; all of it goes out in one message."""

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            await connection.execute(entering, entering_values)
            return await (await connection.execute(query, values)).fetchall()

        with translate_errors(self.location):
            return await self.attempt(work, pipeline=True)

    async def run_outside_transactions(self, statement: bytes) -> None:
        """Run one statement that no transaction may hold."""
        with translate_errors(self.location):
            async with self._pool.connection() as connection:
                await connection.execute(statement)

    async def try_last_statement(self, statement: bytes, values: Mapping[str, object]) -> None:
        """Run one statement if a server is reachable at once; nothing depends on it."""
        with suppress(psycopg.Error):
            async with self._pool.connection(timeout=LAST_STATEMENT_SECONDS) as connection:
                await connection.execute(statement, values)

    def borrow(self) -> AbstractAsyncContextManager[Connection]:
        """Return a connection as a context manager; whether it is lost is the borrower's concern."""
        return self._pool.connection()

    async def renew(self) -> None:
        """Discard lost connections; others replace them as they become available."""
        await self._pool.check()


class Patience:
    """The pauses while a server is away: short at first, and not for ever."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    async def wait(self) -> bool:
        """Wait a little and return True; False once patience has run out."""
        if asyncio.get_running_loop().time() > self._until:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        await self._connections.renew()
        return True


def add_timeouts(url: str) -> str:
    """Return an address with our timeouts, except where it sets its own."""
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in TIMEOUTS.items() if name not in given})


async def check_server(url: str, *, location: str) -> None:
    """Connect once and disconnect.

    Raises:
        StoreUnreachable: That failed; the reason is in the server's or the driver's own words.
        StoreError: Its server is too old, or its database has another encoding than UTF-8.
    """
    try:
        async with await psycopg.AsyncConnection.connect(add_timeouts(url)) as connection:
            info = connection.info
            reason = why_unusable(version=info.server_version, encoding=info.parameter_status("server_encoding"))
    except psycopg.OperationalError as error:
        raise StoreUnreachable(location, " ".join(str(error).split())[:REASON_CHARS]) from error
    except psycopg.Error as error:
        raise name_postgres_error(error, location=location) from error
    if reason is not None:
        raise StoreError(location, reason)


def why_unusable(*, version: int, encoding: str | None) -> str | None:
    """Return why a database cannot be used; None if it can."""
    if version < OLDEST_SERVER:
        return f"its server is PostgreSQL {version // 10_000}; threadkeep needs {OLDEST_SERVER // 10_000} or newer"
    if encoding != "UTF8":
        return f"its encoding is {encoding}; create it with ENCODING 'UTF8', which holds every text"
    return None
