"""A few threads that read, each with its own connection, beside the writer and never behind it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from holdfast.errors import StoreClosed
from holdfast.store.sqlite.errors import store_errors
from holdfast.store.sqlite.file import connect
from holdfast.store.sqlite.jobs import Failed, Job, deliver

T = TypeVar("T")

# The interpreter runs one thread at a time; more connections than this only cost memory.
THREADS = 4


class Readers:
    """Runs read operations. Each begins after it was asked for, so it sees all that was acknowledged by then.

    Another thread is started only where all there are have something to read: a connection costs as much as many reads do.
    """

    def __init__(self, path: Path, first: sqlite3.Connection) -> None:
        """Read the file at `path`, to begin with through a connection that is there already."""
        self._path = path
        self._first: sqlite3.Connection | None = first
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
        future: asyncio.Future[T] = self._loop.create_future()
        self._under_way += 1
        if len(self._threads) < min(self._under_way, THREADS):
            self._start()
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
        # A daemon: a host that never closes its store must still be able to exit.
        name = f"holdfast-reader-{len(self._threads)}"
        thread = threading.Thread(target=self._serve, args=(self._first,), name=name, daemon=True)
        self._first = None
        self._threads.append(thread)
        thread.start()

    def _serve(self, connection: sqlite3.Connection | None) -> None:
        while (job := self._queue.get()) is not None:
            outcome: object
            try:
                with store_errors(self.location):
                    connection = connection or connect(self._path, read_only=True)
                    outcome = job.operation(connection)
            except Exception as error:  # noqa: BLE001  # told to the one who awaits it; raised here, it would end the thread
                outcome = Failed(error)
            # A closed loop has nobody left to tell.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._deliver, job, outcome)
            # What was read may be large, and the next job a long time away.
            del job, outcome
        if connection is not None:
            connection.close()

    def _deliver(self, job: Job, outcome: object) -> None:
        self._under_way -= 1
        deliver([job], [outcome])
