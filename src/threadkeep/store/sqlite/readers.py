"""A few threads that read, each with its own connection, beside the writer and never behind it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from threadkeep.errors import StoreBusy, StoreClosed, StoreError
from threadkeep.store.sqlite.errors import store_errors
from threadkeep.store.sqlite.file import BUSY_SECONDS
from threadkeep.store.sqlite.jobs import Failed, Job, deliver, started
from threadkeep.store.sqlite.reading import Reading
from threadkeep.store.sqlite.state import Connection

T = TypeVar("T")

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
