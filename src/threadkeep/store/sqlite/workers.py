"""The threads that work on a file: one that writes and commits for everyone who waits, and a few that read beside it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.sqlite.errors import UNSTORABLE, name_sqlite_error, translate_errors
from threadkeep.store.sqlite.file import Reader, begin_writing

T = TypeVar("T")

MAX_BATCH = 256
# The interpreter runs one thread at a time; more connections than this only cost memory.
READER_THREADS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """An operation on a connection, and the future of its result."""

    operation: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]


@dataclass(frozen=True, slots=True)
class _Failed:
    """The outcome of a job that raised; any other value is the result of one that did not."""

    error: Exception


class _Workers:
    """Threads that take jobs from one queue."""

    def __init__(self, location: str) -> None:
        self.location = location
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def refuse(self) -> None:
        """Accept nothing more."""
        if not self._closed:
            self._closed = True
            for _ in self._threads:
                self._queue.put(None)

    def join(self) -> None:
        """Wait for what was accepted. Blocks; call it off the event loop, after `refuse`."""
        for thread in self._threads:
            thread.join()

    def _submit(self, operation: Callable[[sqlite3.Connection], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._queue.put(_Job(operation=operation, future=future))
        return future

    def _require_open(self) -> None:
        if self._closed:
            raise StoreClosed(self.location)


class Writer(_Workers):
    """Runs write operations in order, as many as are waiting in one transaction; one that fails is undone alone.

    There is no timer: whatever was queued while the last commit ran forms the next batch, so a lone append waits for nobody and
    sixty-four share one fsync. The thread and its connection are made with the first write.
    """

    def __init__(self, location: str, *, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(location)
        self._connect = connect
        self._connection: sqlite3.Connection | None = None

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` in a transaction and return its result once that is durable.

        It may run twice, the first time in vain, because a neighbour failed. On any error nothing of it was written.
        Cancelling the wait does not take it back.
        """
        self._require_open()
        if not self._threads:
            self._threads.append(_start_thread(self._serve, name="threadkeep-writer", location=self.location))
        return await self._submit(operation)

    def join(self) -> None:
        """Wait for what was accepted, then close the connection; see `_Workers.join`."""
        super().join()
        if self._connection is not None:
            self._connection.close()

    def _serve(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = [first]
            is_last = False
            while len(batch) < MAX_BATCH:
                try:
                    job = self._queue.get_nowait()
                except Empty:
                    break
                if job is None:
                    is_last = True
                    break
                batch.append(job)
            outcomes = self._write(batch)
            # A closed loop has no task left that waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(_deliver, batch, outcomes)
            if is_last:
                return

    def _write(self, batch: Sequence[_Job]) -> Sequence[object]:
        """Return the outcome of each job; a failed commit is the outcome of all of them."""
        try:
            with translate_errors(self.location):
                self._connection = self._connection or self._connect()
                return self._commit(self._connection, batch)
        except StoreError as error:
            return [_Failed(error) for _ in batch]

    def _commit(self, connection: sqlite3.Connection, batch: Sequence[_Job]) -> list[object]:
        try:
            begin_writing(connection)
            outcomes = self._run_together(connection, batch)
            if isinstance(outcomes[-1], _Failed):
                connection.execute("ROLLBACK")
                begin_writing(connection)
                outcomes = [self._run_apart(connection, job) for job in batch]
            connection.execute("COMMIT")
        except sqlite3.Error:
            # Some failures roll back on their own, and a second ROLLBACK then fails; the first error is the one to report.
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        return outcomes

    def _run_together(self, connection: sqlite3.Connection, batch: Sequence[_Job]) -> list[object]:
        """Run operations one after another up to the first that fails; with a failure nothing of this may be committed."""
        outcomes: list[object] = []
        for job in batch:
            outcomes.append(self._run_job(connection, job))
            if isinstance(outcomes[-1], _Failed):
                break
        return outcomes

    def _run_apart(self, connection: sqlite3.Connection, job: _Job) -> object:
        """Run one operation so that its failure does not undo its neighbours.

        Only after a failure: SQLite keeps a copy of every page that is written within a savepoint.
        """
        connection.execute("SAVEPOINT job")
        outcome = self._run_job(connection, job)
        if isinstance(outcome, _Failed):
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return outcome

    def _run_job(self, connection: sqlite3.Connection, job: _Job) -> object:
        try:
            return job.operation(connection)
        except Exception as error:
            # Every kind goes to the task that awaits it: raised here, it would end all later appends instead.
            if not connection.in_transaction and isinstance(error, sqlite3.Error):
                raise
            if isinstance(error, (sqlite3.Error, *UNSTORABLE)):
                return _Failed(name_sqlite_error(error, location=self.location))
            return _Failed(error)


class Readers(_Workers):
    """Runs read operations. Each begins after it was asked for, so it sees everything acknowledged by then.

    Another thread is started only where all others are busy: a connection costs as much as many reads. The first thread makes the
    file a store if it is not one yet.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._running = 0

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` on a reader's connection and return its result."""
        self._require_open()
        if len(self._threads) < min(self._running + 1, READER_THREADS):
            self._start_reader()
        self._running += 1
        return await self._submit(operation)

    def _start_reader(self) -> None:
        reader = Reader(self._path, creates=not self._threads)
        name = f"threadkeep-reader-{len(self._threads)}"
        try:
            self._threads.append(_start_thread(self._serve, reader, name=name, location=self.location))
        except StoreError:
            # One thread is enough to read everything, only later.
            if not self._threads:
                raise

    def _serve(self, reader: Reader) -> None:
        while (job := self._queue.get()) is not None:
            outcome: object
            try:
                outcome = reader.read(job.operation)
            except Exception as error:  # noqa: BLE001  # goes to the task that awaits it; raised here, it would end the thread
                outcome = _Failed(error)
            # A closed loop has no task left that waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._finish, job, outcome)
            # What was read may be large, and the next job a long time away.
            del job, outcome
        reader.close()

    def _finish(self, job: _Job, outcome: object) -> None:
        self._running -= 1
        _deliver([job], [outcome])


def _start_thread(work: Callable[..., None], *arguments: object, name: str, location: str) -> threading.Thread:
    """Return a running daemon thread: a host that never closes its store must still exit; what was acknowledged is durable.

    Raises:
        StoreError: The system gives this process no more threads.
    """
    thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as error:
        what_next = "nothing was written; let the process end some, or raise its limit, and try again"
        raise StoreError(location, f"the system gives this process no more threads ({error}); {what_next}") from error
    return thread


def _deliver(jobs: Sequence[_Job], outcomes: Sequence[object]) -> None:
    """Resolve the futures that are still awaited. Belongs on the event loop."""
    for job, outcome in zip(jobs, outcomes, strict=True):
        if job.future.done():
            continue
        if isinstance(outcome, _Failed):
            job.future.set_exception(outcome.error)
        else:
            job.future.set_result(outcome)
