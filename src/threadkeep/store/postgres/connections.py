"""The connections to one database, and what is done when they are lost: a server restarts, or another takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext, suppress
from typing import Any, TypeVar

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool

from threadkeep.errors import StoreError, StoreUnreachable
from threadkeep.store.postgres.errors import from_postgres, is_lost, store_errors

T = TypeVar("T")

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
POOL_SIZE = 8
# A failover takes seconds; who waits for longer is told that nobody answers.
PATIENCE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 1.0
REASON_CHARS = 200
# A machine that vanished sends no word of it. The system's own limits are minutes, a quarter of an hour where something is under
# way; the next host of a failover is to be had within our patience.
DEFAULTS = {
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
OLDEST_SERVER = 140_000
LAST_WORDS_SECONDS = 1.0


class Connections:
    """A pool of connections. Any number of processes may have one; a pooler in transaction mode may stand in between."""

    def __init__(self, url: str, *, location: str) -> None:
        self.location = location
        self._url = url
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            soon_told(url),
            min_size=1,
            max_size=POOL_SIZE,
            timeout=PATIENCE_SECONDS,
            open=False,
            # A pooler in transaction mode hands the next transaction to another server connection, which has prepared nothing.
            kwargs={"autocommit": True, "prepare_threshold": None, "row_factory": tuple_row},
        )

    async def open(self) -> None:
        """Connect.

        Raises:
            StoreUnreachable: The first attempt failed; why, in the server's or the driver's own words.
            StoreError: The server, or the database in it, is none we can work with.
        """
        # A pool would try for as long as it is patient, and a mistyped address would take that long to be told.
        await reach(self._url, location=self.location)
        with store_errors(self.location):
            await self._pool.open(wait=True, timeout=PATIENCE_SECONDS)

    async def close(self) -> None:
        await self._pool.close()

    async def run(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `work` in a transaction of its own and return what it returns.

        A connection that is lost under it is replaced and the work begun again: doing it twice must be doing it once.
        """
        with store_errors(self.location):
            return await self.attempt(work)

    async def attempt(self, work: Callable[[Connection], Awaitable[T]], *, pipeline: bool = False) -> T:
        """`run`, with the driver's own errors."""
        waiting = Waiting(self)
        while True:
            try:
                async with (
                    self._pool.connection() as connection,
                    connection.pipeline() if pipeline else nullcontext(),
                    connection.transaction(),
                ):
                    return await work(connection)
            except psycopg.Error as error:
                if not is_lost(error) or not await waiting.again():
                    raise

    async def ask(
        self, entering: bytes, as_whom: Mapping[str, Any], question: bytes, values: Mapping[str, Any]
    ) -> list[tuple[Any, ...]]:
        """Return the rows of one question, asked in a transaction that was entered first; all of it goes in one message."""

        async def work(connection: Connection) -> list[tuple[Any, ...]]:
            await connection.execute(entering, as_whom)
            return await (await connection.execute(question, values)).fetchall()

        with store_errors(self.location):
            return await self.attempt(work, pipeline=True)

    async def outside_transactions(self, statement: bytes) -> None:
        """Run one statement that no transaction may hold."""
        with store_errors(self.location):
            async with self._pool.connection() as connection:
                await connection.execute(statement)

    async def say_at_last(self, statement: bytes, values: Mapping[str, Any]) -> None:
        """Run one statement if a server is there to hear it; done for order's sake, it waits for none to come back."""
        with suppress(psycopg.Error):
            async with self._pool.connection(timeout=LAST_WORDS_SECONDS) as connection:
                await connection.execute(statement, values)

    def borrowed(self) -> Any:
        """Return a connection as a context manager; what happens to it there is the borrower's affair."""
        return self._pool.connection()

    async def renew(self) -> None:
        """Throw away the connections that are lost; others take their place as they can be had."""
        await self._pool.check()


def soon_told(url: str) -> str:
    """Return an address with what it does not say itself about waiting for machines that do not answer."""
    given = conninfo_to_dict(url)
    return make_conninfo(url, **{name: value for name, value in DEFAULTS.items() if name not in given})


def unfit(*, version: int, encoding: str | None) -> str | None:
    """Return why a database cannot be worked with, if it cannot."""
    if version < OLDEST_SERVER:
        return f"its server is PostgreSQL {version // 10_000}; threadkeep needs {OLDEST_SERVER // 10_000} or newer"
    if encoding != "UTF8":
        return f"its encoding is {encoding}; create it with ENCODING 'UTF8', which holds every text"
    return None


async def reach(url: str, *, location: str) -> None:
    """Connect once and let go again.

    Raises:
        StoreUnreachable: That failed; why, in the server's or the driver's own words.
        StoreError: The server, or the database in it, is none we can work with.
    """
    try:
        async with await psycopg.AsyncConnection.connect(soon_told(url)) as connection:
            info = connection.info
            reason = unfit(version=info.server_version, encoding=info.parameter_status("server_encoding"))
    except psycopg.OperationalError as error:
        raise StoreUnreachable(location, " ".join(str(error).split())[:REASON_CHARS]) from error
    except psycopg.Error as error:
        raise from_postgres(error, location=location) from error
    if reason is not None:
        raise StoreError(location, reason)


class Waiting:
    """The pauses of one who waits for a server to come back: short at first, and not for ever."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._until = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    async def again(self) -> bool:
        """Wait a little and return True; False once patience is at its end."""
        if asyncio.get_running_loop().time() > self._until:
            return False
        await asyncio.sleep(self._pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE_SECONDS)
        await self._connections.renew()
        return True
