"""One task that writes, and commits once for everyone who waited: this process's appends arrive in the order they were made."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

import psycopg
from psycopg.errors import DeadlockDetected, InvalidParameterValue, SerializationFailure

from threadkeep.errors import StoreClosed, StoreError, ThreadkeepError
from threadkeep.store.postgres.connections import Connection, Connections, Waiting
from threadkeep.store.postgres.errors import from_postgres, is_lost
from threadkeep.store.postgres.queries import QUERIES

T = TypeVar("T")
W = TypeVar("W")

MAX_BATCH = 256
# Two processes may add the same bodies crosswise; the server then ends one of the transactions, which wrote nothing.
TRIES = 5


# Carries out what several callers want as one piece of work, and returns what became of each.
Together = Callable[[Connection, Sequence[Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What one caller waits for: an operation of its own, or something wanted that goes together with others' of its kind."""

    operation: Callable[[Connection], Awaitable[Any]]
    future: asyncio.Future[Any]
    together: Together | None = None
    wanted: object = None


@dataclass(frozen=True, slots=True)
class _Failed:
    error: ThreadkeepError


class _InDoubt(Exception):
    """The connection was lost while a transaction was being committed."""

    def __init__(self, transaction: str, *, mark: str, outcomes: Sequence[object], lost: psycopg.Error) -> None:
        super().__init__(transaction)
        self.transaction = transaction
        self.mark = mark
        self.outcomes = outcomes
        self.lost = lost


class Writer:
    """Runs write operations in order, as many as are waiting in one transaction.

    There is no timer: whatever was queued while the last commit ran forms the next batch. A batch whose connection is lost is
    written again on another one; if that happened during the commit, the server is asked first what became of it.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._name = secrets.token_hex(8)
        self._waiting: deque[_Job] = deque()
        self._working: asyncio.Task[None] | None = None
        self._closed = False

    async def run(self, operation: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        On any error nothing of it was written. Cancelling the wait does not take it back.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await self._done(_Job(operation=operation, future=future), future)

    async def run_together(
        self, together: Callable[[Connection, Sequence[W]], Awaitable[Sequence[T | ThreadkeepError]]], wanted: W
    ) -> T:
        """`run`, for work that is cheaper done for many callers at once than for each of them."""

        async def alone(connection: Connection) -> T:
            (outcome,) = await together(connection, [wanted])
            if isinstance(outcome, ThreadkeepError):
                raise outcome
            return outcome

        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await self._done(_Job(operation=alone, future=future, together=together, wanted=wanted), future)

    async def _done(self, job: _Job, future: asyncio.Future[T]) -> T:
        if self._closed:
            raise StoreClosed(self._connections.location)
        self._waiting.append(job)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await asyncio.shield(future)

    async def close(self) -> None:
        """Accept nothing more, and wait for what was accepted."""
        if self._closed:
            return
        self._closed = True
        if self._working is not None:
            await asyncio.wait([self._working])
            # Should no server answer any more, a later writer takes the row away.
            await self._connections.say_at_last(QUERIES["forget_writer"], {"writer": self._name})

    async def _work(self) -> None:
        while self._waiting:
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, len(self._waiting)))]
            for job, outcome in zip(batch, await self._outcomes(batch), strict=True):
                if job.future.done():
                    continue
                if isinstance(outcome, _Failed):
                    job.future.set_exception(outcome.error)
                else:
                    job.future.set_result(outcome)

    async def _outcomes(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Return what became of each job; a failed commit is everybody's failure."""
        waiting, tries = Waiting(self._connections), TRIES
        while True:
            try:
                return await self._committed(batch)
            except _InDoubt as doubt:
                fate = await self._fate(doubt)
                if fate == "committed":
                    return doubt.outcomes
                if fate != "aborted":
                    return self._everyone(batch, self._unknown(doubt.lost))
            except (DeadlockDetected, SerializationFailure) as error:
                tries -= 1
                if tries == 0:
                    return self._everyone(batch, self._named(error))
            except psycopg.Error as error:
                if not is_lost(error) or not await waiting.again():
                    return self._everyone(batch, self._named(error))

    async def _committed(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Carry a batch out once."""
        transaction, mark = "", secrets.token_hex(8)
        outcomes: list[object] | None = None
        try:
            async with self._connections.borrowed() as connection, connection.transaction():
                (_, transaction) = await (
                    await connection.execute(QUERIES["write"], {"writer": self._name, "mark": mark})
                ).fetchone()
                if len(batch) == 1:
                    outcomes = [await self._alone(connection, batch[0])]
                else:
                    outcomes = []
                    for together, jobs in groupby(batch, key=lambda job: job.together):
                        outcomes += await self._group(connection, together, list(jobs))
        except psycopg.OperationalError as error:
            if outcomes is not None and is_lost(error):
                raise _InDoubt(transaction, mark=mark, outcomes=outcomes, lost=error) from error
            raise
        except _Alone as failed:
            return [_Failed(failed.error)]
        return outcomes

    async def _alone(self, connection: Connection, job: _Job) -> object:
        """Run the only operation of a transaction, whose failure ends it."""
        try:
            return await job.operation(connection)
        except (ThreadkeepError, ValueError) as error:
            raise _Alone(self._of_ours(error)) from error
        except psycopg.Error as error:
            if self._ends_the_batch(connection, error):
                raise
            raise _Alone(self._named(error)) from error

    async def _group(self, connection: Connection, together: Together | None, jobs: Sequence[_Job]) -> Sequence[object]:
        """Carry out jobs that follow one another: as one piece of work if they are of a kind, one by one where that fails."""
        if together is not None and len(jobs) > 1:
            try:
                async with connection.transaction():
                    outcomes = await together(connection, [job.wanted for job in jobs])
                return [_Failed(outcome) if isinstance(outcome, ThreadkeepError) else outcome for outcome in outcomes]
            except ValueError:
                # A text of one of them that the driver cannot encode; which one shows when each is done by itself.
                pass
            except psycopg.Error as error:
                if self._ends_the_batch(connection, error):
                    raise
        return [await self._among_others(connection, job) for job in jobs]

    def _ends_the_batch(self, connection: Connection, error: psycopg.Error) -> bool:
        return connection.broken or is_lost(error) or isinstance(error, (DeadlockDetected, SerializationFailure))

    async def _among_others(self, connection: Connection, job: _Job) -> object:
        """Run one operation so that its failure does not undo its neighbours."""
        try:
            async with connection.transaction():
                return await job.operation(connection)
        except (ThreadkeepError, ValueError) as error:
            return _Failed(self._of_ours(error))
        except psycopg.Error as error:
            if self._ends_the_batch(connection, error):
                raise
            return _Failed(self._named(error))

    async def _fate(self, doubt: _InDoubt) -> str | None:
        """Return what became of a transaction: `committed`, `aborted`, or None where nobody is left to tell."""
        waiting = Waiting(self._connections)

        async def ask(connection: Connection) -> str | None:
            row = await (await connection.execute(QUERIES["status_of"], {"transaction": doubt.transaction})).fetchone()
            return None if row is None else row[0]

        async def look(connection: Connection) -> bool:
            row = await (await connection.execute(QUERIES["has_mark"], {"writer": self._name, "mark": doubt.mark})).fetchone()
            return row is not None and bool(row[0])

        try:
            # Its old backend may still be at it, waiting for a standby.
            while await self._connections.attempt(ask) == "in progress":
                if not await waiting.again():
                    return None
        except InvalidParameterValue:
            # A server that took over and has not come as far never heard of it.
            return "aborted"
        except psycopg.Error:
            return None
        try:
            return "committed" if await self._connections.attempt(look) else "aborted"
        except psycopg.Error:
            return None

    def _everyone(self, batch: Sequence[_Job], error: StoreError) -> Sequence[object]:
        return [_Failed(error) for _ in batch]

    def _named(self, error: psycopg.Error) -> StoreError:
        return from_postgres(error, location=self._connections.location)

    def _of_ours(self, error: ThreadkeepError | ValueError) -> ThreadkeepError:
        if isinstance(error, ThreadkeepError):
            return error
        return StoreError(self._connections.location, "a text in it is no text PostgreSQL could hold; nothing was written")

    def _unknown(self, lost: psycopg.Error) -> StoreError:
        named = StoreError(
            self._connections.location,
            "the connection was lost during a commit and its outcome cannot be learned; reload the thread before appending again",
        )
        named.__cause__ = lost
        return named


class _Alone(Exception):
    """The only operation of a transaction failed; the transaction ends with it."""

    def __init__(self, error: ThreadkeepError) -> None:
        super().__init__(str(error))
        self.error = error
