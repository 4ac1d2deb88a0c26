"""One task that writes, and commits once for everyone who waits: this process's appends arrive in the order they were made."""

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
from threadkeep.store.postgres.connections import Connection, Connections, Patience
from threadkeep.store.postgres.errors import UNSTORABLE, is_lost, name_postgres_error
from threadkeep.store.postgres.sql_files import QUERIES

T = TypeVar("T")
W = TypeVar("W")

MAX_BATCH = 256
# Two processes may add the same bodies crosswise; the server then ends one of the transactions, which wrote nothing.
TRIES = 5

# Does what several callers want as one piece of work, and returns the outcome of each.
Together = Callable[[Connection, Sequence[Any]], Awaitable[Sequence[Any]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One caller's operation; with `together`, `wanted` may be done in one piece with others of its kind."""

    operation: Callable[[Connection], Awaitable[Any]]
    future: asyncio.Future[Any]
    together: Together | None = None
    wanted: object = None


@dataclass(frozen=True, slots=True)
class _Failed:
    """The outcome of a job that raised; any other value is the result of one that did not."""

    error: ThreadkeepError


class _OnlyJobFailed(Exception):
    """The only operation of a transaction failed; the transaction ends with it."""

    def __init__(self, error: ThreadkeepError) -> None:
        super().__init__(str(error))
        self.error = error


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
    written again on another one; if that happened during the commit, the server is asked first whether it was committed.
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._name = secrets.token_hex(8)
        self._queue: deque[_Job] = deque()
        self._working: asyncio.Task[None] | None = None
        self._closed = False

    async def run(self, operation: Callable[[Connection], Awaitable[T]]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        On any error nothing of it was written. Cancelling the wait does not take it back.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await self._submit(_Job(operation=operation, future=future), future)

    async def run_together(
        self, together: Callable[[Connection, Sequence[W]], Awaitable[Sequence[T | ThreadkeepError]]], wanted: W
    ) -> T:
        """Do the same as `run`, for work that is cheaper done for many callers at once than for each of them."""

        async def run_alone(connection: Connection) -> T:
            (outcome,) = await together(connection, [wanted])
            if isinstance(outcome, ThreadkeepError):
                raise outcome
            return outcome

        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        return await self._submit(_Job(operation=run_alone, future=future, together=together, wanted=wanted), future)

    async def close(self) -> None:
        """Accept nothing more, and wait for what was accepted."""
        if self._closed:
            return
        self._closed = True
        if self._working is not None:
            await asyncio.wait([self._working])
            # If the server is gone, a later writer removes the row.
            await self._connections.try_last_statement(QUERIES["remove_writer"], {"writer": self._name})

    async def _submit(self, job: _Job, future: asyncio.Future[T]) -> T:
        if self._closed:
            raise StoreClosed(self._connections.location)
        self._queue.append(job)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return await future

    async def _work(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
            for job, outcome in zip(batch, await self._write(batch), strict=True):
                if job.future.done():
                    continue
                if isinstance(outcome, _Failed):
                    job.future.set_exception(outcome.error)
                else:
                    job.future.set_result(outcome)

    async def _write(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Return the outcome of each job; a failed commit is the outcome of all of them."""
        patience, tries = Patience(self._connections), TRIES
        failure: ThreadkeepError
        while True:
            try:
                return await self._commit(batch)
            except _InDoubt as doubt:
                fate = await self._find_fate(doubt)
                if fate == "committed":
                    return doubt.outcomes
                if fate != "aborted":
                    failure = self._name_unknown_outcome(doubt.lost)
                    break
            except (DeadlockDetected, SerializationFailure) as error:
                tries -= 1
                if tries == 0:
                    failure = self._name_error(error)
                    break
            except psycopg.Error as error:
                if not is_lost(error) or not await patience.wait():
                    failure = self._name_error(error)
                    break
        return [_Failed(failure) for _ in batch]

    async def _commit(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Write a batch in one transaction, once."""
        transaction, mark = "", secrets.token_hex(8)
        outcomes: list[object] | None = None
        try:
            async with self._connections.borrow() as connection, connection.transaction():
                row = await (await connection.execute(QUERIES["begin_write"], {"writer": self._name, "mark": mark})).fetchone()
                assert row is not None
                transaction = row[1]
                if len(batch) == 1:
                    outcomes = [await self._run_alone(connection, batch[0])]
                else:
                    outcomes = []
                    for together, jobs in groupby(batch, key=lambda job: job.together):
                        outcomes += await self._run_group(connection, together, list(jobs))
        except psycopg.OperationalError as error:
            if outcomes is not None and is_lost(error):
                raise _InDoubt(transaction, mark=mark, outcomes=outcomes, lost=error) from error
            raise
        except _OnlyJobFailed as failed:
            return [_Failed(failed.error)]
        return outcomes

    async def _run_alone(self, connection: Connection, job: _Job) -> object:
        """Run the only operation of a transaction; its failure ends the transaction."""
        try:
            return await job.operation(connection)
        except (ThreadkeepError, ValueError, psycopg.Error) as error:
            if self._ends_batch(connection, error):
                raise
            raise _OnlyJobFailed(self._name_error(error)) from error

    async def _run_group(self, connection: Connection, together: Together | None, jobs: Sequence[_Job]) -> Sequence[object]:
        """Run consecutive jobs of one kind: as one piece of work if possible, else one by one."""
        if together is not None and len(jobs) > 1:
            try:
                async with connection.transaction():
                    outcomes = await together(connection, [job.wanted for job in jobs])
                return [_Failed(outcome) if isinstance(outcome, ThreadkeepError) else outcome for outcome in outcomes]
            except ValueError:
                # The driver cannot encode a text of one of them; one by one shows which.
                pass
            except psycopg.Error as error:
                if self._ends_batch(connection, error):
                    raise
        return [await self._run_apart(connection, job) for job in jobs]

    async def _run_apart(self, connection: Connection, job: _Job) -> object:
        """Run one operation so that its failure does not undo its neighbours."""
        try:
            async with connection.transaction():
                return await job.operation(connection)
        except (ThreadkeepError, ValueError, psycopg.Error) as error:
            if self._ends_batch(connection, error):
                raise
            return _Failed(self._name_error(error))

    def _ends_batch(self, connection: Connection, error: Exception) -> bool:
        return isinstance(error, psycopg.Error) and (
            connection.broken or is_lost(error) or isinstance(error, (DeadlockDetected, SerializationFailure))
        )

    async def _find_fate(self, doubt: _InDoubt) -> str | None:
        """Return whether a transaction was `committed` or `aborted`; None where no server can tell."""
        patience = Patience(self._connections)

        async def read_status(connection: Connection) -> str | None:
            row = await (await connection.execute(QUERIES["transaction_status"], {"transaction": doubt.transaction})).fetchone()
            return None if row is None else row[0]

        async def has_mark(connection: Connection) -> bool:
            row = await (await connection.execute(QUERIES["has_mark"], {"writer": self._name, "mark": doubt.mark})).fetchone()
            return row is not None and bool(row[0])

        try:
            # Its old backend may still be at it, waiting for a standby.
            while await self._connections.attempt(read_status) == "in progress":
                if not await patience.wait():
                    return None
        except InvalidParameterValue:
            # The number is beyond the last one of a standby that took over: it never received the transaction.
            return "aborted"
        except psycopg.Error:
            return None
        try:
            return "committed" if await self._connections.attempt(has_mark) else "aborted"
        except psycopg.Error:
            return None

    def _name_error(self, error: ThreadkeepError | ValueError | psycopg.Error) -> ThreadkeepError:
        if isinstance(error, ThreadkeepError):
            return error
        if isinstance(error, psycopg.Error):
            return name_postgres_error(error, location=self._connections.location)
        return StoreError(self._connections.location, UNSTORABLE)

    def _name_unknown_outcome(self, lost: psycopg.Error) -> StoreError:
        named = StoreError(
            self._connections.location,
            "the connection was lost during a commit and its outcome cannot be learned; reload the thread before appending again",
        )
        named.__cause__ = lost
        return named
