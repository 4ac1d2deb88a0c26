"""A few threads that read, each with its own connection, beside the writer and never behind it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from holdfast.errors import StoreClosed
from holdfast.store.sqlite.errors import store_errors
from holdfast.store.sqlite.file import connect

T = TypeVar("T")

# The interpreter runs one thread at a time; more connections than this only cost memory.
THREADS = 4


class Readers:
    """Runs read operations. Each begins after it was asked for, so it sees all that was acknowledged by then."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.location = str(path)
        self._closed = False
        self._own = threading.local()
        self._connections: list[sqlite3.Connection] = []
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="holdfast-reader")

    async def run(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Run `operation` on a reader's connection and return its result."""
        if self._closed:
            raise StoreClosed(self.location)
        return await asyncio.get_running_loop().run_in_executor(self._pool, self._perform, operation)

    def refuse(self) -> None:
        """Accept nothing more."""
        self._closed = True

    def join(self) -> None:
        """Wait for reads under way, then close every connection. Blocks; call it off the event loop, after `refuse`."""
        self._pool.shutdown(wait=True)
        while self._connections:
            self._connections.pop().close()

    def _perform(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        with store_errors(self.location):
            return operation(self._connection())

    def _connection(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._own, "connection", None)
        if connection is None:
            connection = self._own.connection = connect(self._path, read_only=True)
            self._connections.append(connection)
        return connection
