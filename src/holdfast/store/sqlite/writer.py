"""One thread that writes, and commits once for everyone who waited."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from holdfast.errors import StoreClosed
from holdfast.store.sqlite.errors import from_sqlite
from holdfast.store.sqlite.file import begin_writing

T = TypeVar("T")

MAX_BATCH = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    error: Exception


class Writer:
    """Runs write operations in order, as many as are waiting in one transaction.

    There is no timer: whatever was queued while the last commit ran forms the next batch, so a lone writer waits for
    nobody and sixty-four share one fsync.
    """

    def __init__(self, connection: sqlite3.Connection, *, location: str) -> None:
        self._connection = connection
        self._location = location
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        # A daemon: a host that never closes its store must still be able to exit; what was acknowledged is durable.
        self._thread = threading.Thread(target=self._run, name="holdfast-writer", daemon=True)
        self._thread.start()

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        On any error nothing of it was written. Cancelling the wait does not take it back.
        """
        if self._closed:
            raise StoreClosed(self._location)
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(operation=operation, future=future))
        return await future

    def refuse(self) -> None:
        """Accept nothing more."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    def join(self) -> None:
        """Wait for what was accepted, then close the connection. Blocks; call it off the event loop, after `refuse`."""
        self._thread.join()
        self._connection.close()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            last = False
            while len(batch) < MAX_BATCH:
                try:
                    job = self._queue.get_nowait()
                except Empty:
                    break
                if job is None:
                    last = True
                    break
                batch.append(job)
            outcomes = self._commit(batch)
            # A closed loop has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_deliver, batch, outcomes)
            if last:
                return

    def _commit(self, batch: Sequence[_Job]) -> Sequence[object]:
        try:
            begin_writing(self._connection)
            outcomes = [self._attempt(job) for job in batch]
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            # Some failures roll back on their own, and a second ROLLBACK then fails; the first error is the one to tell.
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            return [_Failed(from_sqlite(error, location=self._location)) for _ in batch]
        return outcomes

    def _attempt(self, job: _Job) -> object:
        """Run one operation so that its failure does not undo its neighbours."""
        self._connection.execute("SAVEPOINT job")
        try:
            result = job.operation(self._connection)
        except Exception as error:
            # Every kind is carried to the one who awaits it: raised here, it would end all later appends instead.
            if not self._connection.in_transaction and isinstance(error, sqlite3.Error):
                raise
            self._connection.execute("ROLLBACK TO job")
            self._connection.execute("RELEASE job")
            return _Failed(from_sqlite(error, location=self._location) if isinstance(error, sqlite3.Error) else error)
        self._connection.execute("RELEASE job")
        return result


def _deliver(batch: Sequence[_Job], outcomes: Sequence[object]) -> None:
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, _Failed):
            job.future.set_exception(outcome.error)
        else:
            job.future.set_result(outcome)
