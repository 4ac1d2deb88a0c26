"""One thread that writes, and commits once for everyone who waited."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.sqlite.errors import from_sqlite, store_errors
from threadkeep.store.sqlite.file import begin_writing, connect_to_write
from threadkeep.store.sqlite.jobs import Failed, Job, deliver, started

T = TypeVar("T")

MAX_BATCH = 256


class Writer:
    """Runs write operations in order, as many as are waiting in one transaction; one that fails is undone alone.

    There is no timer: whatever was queued while the last commit ran forms the next batch, so a lone writer waits for
    nobody and sixty-four share one fsync. Who never writes pays for no connection that could.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._location = str(path)
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self._thread: threading.Thread | None = None

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        It may be run twice, the first time in vain, because a neighbour failed. On any error nothing of it was written.
        Cancelling the wait does not take it back.
        """
        if self._closed:
            raise StoreClosed(self._location)
        if self._thread is None:
            self._thread = started(self._run, name="threadkeep-writer", location=self._location)
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(Job(operation=operation, future=future))
        return await future

    def refuse(self) -> None:
        """Accept nothing more."""
        if not self._closed:
            self._closed = True
            self._queue.put(None)

    def join(self) -> None:
        """Wait for what was accepted, then close the connection. Blocks; call it off the event loop, after `refuse`."""
        if self._thread is not None:
            self._thread.join()
        if self._connection is not None:
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
                self._loop.call_soon_threadsafe(deliver, batch, outcomes)
            if last:
                return

    def _commit(self, batch: Sequence[Job]) -> Sequence[object]:
        try:
            with store_errors(self._location):
                self._connection = self._connection or connect_to_write(self._path)
                return self._committed(self._connection, batch)
        except StoreError as error:
            return [Failed(error) for _ in batch]

    def _committed(self, connection: sqlite3.Connection, batch: Sequence[Job]) -> list[object]:
        try:
            begin_writing(connection)
            outcomes = self._together(connection, batch)
            if isinstance(outcomes[-1], Failed):
                connection.execute("ROLLBACK")
                begin_writing(connection)
                outcomes = [self._apart(connection, job) for job in batch]
            connection.execute("COMMIT")
        except sqlite3.Error:
            # Some failures roll back on their own, and a second ROLLBACK then fails; the first error is the one to tell.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return outcomes

    def _together(self, connection: sqlite3.Connection, batch: Sequence[Job]) -> list[object]:
        """Run operations one after another, up to the first that fails; what was done by then is not to be committed."""
        outcomes: list[object] = []
        for job in batch:
            outcomes.append(self._outcome(connection, job))
            if isinstance(outcomes[-1], Failed):
                break
        return outcomes

    def _apart(self, connection: sqlite3.Connection, job: Job) -> object:
        """Run one operation so that its failure does not undo its neighbours.

        Not the usual way: SQLite keeps a copy of every page that is written within a savepoint.
        """
        connection.execute("SAVEPOINT job")
        outcome = self._outcome(connection, job)
        if isinstance(outcome, Failed):
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return outcome

    def _outcome(self, connection: sqlite3.Connection, job: Job) -> object:
        try:
            return job.operation(connection)
        except Exception as error:
            # Every kind is carried to the one who awaits it: raised here, it would end all later appends instead.
            if not connection.in_transaction and isinstance(error, sqlite3.Error):
                raise
            return Failed(from_sqlite(error, location=self._location) if isinstance(error, sqlite3.Error) else error)
