"""One task that writes, and commits once for everyone who waited: this process's appends arrive in the order they were made."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg_pool import AsyncConnectionPool

from holdfast.errors import HoldfastError, StoreClosed
from holdfast.store.postgres.errors import from_postgres

T = TypeVar("T")

Connection = psycopg.AsyncConnection[tuple[Any, ...]]
MAX_BATCH = 256
# Two processes may add the same bodies crosswise; the server then ends one of the transactions, which wrote nothing.
TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    operation: Callable[[Connection], Awaitable[Any]]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    error: HoldfastError


class Writer:
    """Runs write operations in order, as many as are waiting in one transaction.

    There is no timer: whatever was queued while the last commit ran forms the next batch.
    """

    def __init__(self, pool: AsyncConnectionPool[Connection], *, location: str) -> None:
        self._pool = pool
        self._location = location
        self._waiting: deque[_Job] = deque()
        self._working: asyncio.Task[None] | None = None
        self._closed = False

    async def run(self, operation: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        On any error nothing of it was written. Cancelling the wait does not take it back.
        """
        if self._closed:
            raise StoreClosed(self._location)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Job(operation=operation, future=future))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Accept nothing more, and wait for what was accepted."""
        self._closed = True
        if self._working is not None:
            await asyncio.wait([self._working])

    async def _work(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            for job, outcome in zip(batch, await self._committed(batch), strict=True):
                if job.future.done():
                    continue
                if isinstance(outcome, _Failed):
                    job.future.set_exception(outcome.error)
                else:
                    job.future.set_result(outcome)

    async def _committed(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Return what became of each job; a failed commit is everybody's failure."""
        for attempt in range(1, TRIES + 1):
            try:
                async with self._pool.connection() as connection, connection.transaction():
                    return [await self._attempted(connection, job) for job in batch]
            except (DeadlockDetected, SerializationFailure) as error:
                if attempt == TRIES:
                    return [_Failed(from_postgres(error, location=self._location)) for _ in batch]
            except psycopg.Error as error:
                return [_Failed(from_postgres(error, location=self._location)) for _ in batch]
        raise AssertionError("the last try returns")

    async def _attempted(self, connection: Connection, job: _Job) -> object:
        """Run one operation so that its failure does not undo its neighbours."""
        try:
            async with connection.transaction():
                return await job.operation(connection)
        except HoldfastError as error:
            return _Failed(error)
        except (DeadlockDetected, SerializationFailure):
            raise
        except psycopg.Error as error:
            if connection.broken:
                raise
            return _Failed(from_postgres(error, location=self._location))
