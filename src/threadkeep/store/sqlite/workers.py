"""The threads that work on a file: one that writes and commits for everyone who waited, and a few that read beside it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadkeep.errors import StoreBusy, StoreClosed, StoreError
from threadkeep.store.sqlite.errors import from_sqlite, store_errors
from threadkeep.store.sqlite.file import BUSY_SECONDS, Connection, Reading, begin_writing, connect_to_write


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An operation on a connection, and who awaits its result."""

    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a job that raised; any other value is the result of one that did not."""

    error: Exception


def started(work: Callable[..., None], *arguments: object, name: str, location: str) -> threading.Thread:
    """Return a thread that does `work`, once it runs.

    A daemon: a host that never closes its store must still be able to exit; what was acknowledged is durable.

    Raises:
        StoreError: The system gives this process no thread; nothing of the work was begun.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        what_next = "nothing was written; let the process end some, or raise its limit, and try again"
        raise StoreError(location, f"the system gives this process no more threads ({error}); {what_next}") from error
    return thread


def deliver(jobs: Sequence[Job], outcomes: Sequence[object]) -> None:
    """Tell everyone who still waits. Belongs on the event loop."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, Failed):
            job.future.set_exception(outcome.error)
        else:
            job.future.set_result(outcome)


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


# The interpreter runs one thread at a time; more connections than this only cost memory.
THREADS = 4


class Readers:
    """Runs read operations. Each begins after it was asked for, so it sees all that was acknowledged by then.

    Another thread is started only where all there are have something to read: a connection costs as much as many reads do.
    """

    def __init__(self, path: Path, first: Connection) -> None:
        """Read the file at `path`, to begin with through a connection that is there already."""
        self._path = path
        self._first: Connection | None = first
        self.location = str(path)
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._closed = False

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` on a reader's connection and return its result."""
        if self._closed:
            raise StoreClosed(self.location)
        if len(self._threads) < min(self._under_way + 1, THREADS):
            self._start()
        future: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        self._queue.put(Job(operation=operation, future=future))
        return await future

    def refuse(self) -> None:
        """Accept nothing more."""
        self._closed = True

    def join(self) -> None:
        """Wait for reads under way, then close every connection. Blocks; call it off the event loop, after `refuse`."""
        for _ in self._threads:
            self._queue.put(None)
        while self._threads:
            self._threads.pop().join()
        if self._first is not None:
            self._first.close()

    def _start(self) -> None:
        name = f"threadkeep-reader-{len(self._threads)}"
        try:
            thread = started(self._serve, self._first, name=name, location=self.location)
        except StoreError:
            # One thread is enough to read everything, only later.
            if not self._threads:
                raise
            return
        self._first = None
        self._threads.append(thread)

    def _serve(self, first: Connection | None) -> None:
        reading = Reading(self._path, first)
        while (job := self._queue.get()) is not None:
            outcome = self._outcome(reading, job)
            # A closed loop has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, job, outcome)
            # What was read may be large, and the next job a long time away.
            del job, outcome
        reading.close()

    def _outcome(self, reading: Reading, job: Job) -> object:
        """Read until what was read stands: at once, wherever there are locks, and again where a writer came between."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            outcome: object
            try:
                with store_errors(self.location):
                    outcome = job.operation(reading.connection())
            except Exception as error:  # noqa: BLE001  # told to the one who awaits it; raised here, it would end the thread
                outcome = Failed(error)
            if reading.vouches_for(outcome.error if isinstance(outcome, Failed) else None):
                return outcome
            if time.monotonic() > deadline:
                return Failed(StoreBusy(self.location))

    def _deliver(self, job: Job, outcome: object) -> None:
        self._under_way -= 1
        deliver([job], [outcome])
