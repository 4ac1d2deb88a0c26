"""Notice writes to the file: SQLite sends no notice, but tells cheaply whether another connection wrote since the last look."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.base import Watch
from threadkeep.store.sqlite.file import Reader
from threadkeep.store.watchers import Watchers

LOOK_SECONDS = 0.025
# The file says that it was written, not which thread of it.
FILE = "file"


class FileWatch:
    """Looks at a file's `data_version` while anybody watches, from a thread and a connection of its own.

    That connection never writes, so this process's own commits are noticed like anybody's.
    """

    def __init__(self, path: Path) -> None:
        self._location = str(path)
        self._watchers = Watchers()
        self._closed = False
        self._looking: asyncio.Task[None] | None = None
        self._reader = Reader(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="threadkeep-watcher")

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watch]:
        """Watch the file inside the block."""
        if self._closed:
            raise StoreClosed(self._location)
        try:
            with self._watchers.add(FILE) as watcher:
                if self._looking is None or self._looking.done():
                    self._looking = asyncio.create_task(self._look())
                yield watcher
        finally:
            if not self._watchers:
                self._stop_looking()

    def refuse(self) -> None:
        """Accept no more watchers; those who still watch get no more notice and look by themselves."""
        self._closed = True
        self._stop_looking()

    def join(self) -> None:
        """Close the connection. Blocks; call it off the event loop, after `refuse`."""
        self._thread.shutdown(wait=True)
        self._reader.close()

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            seen = await loop.run_in_executor(self._thread, self._read_version)
            self._watchers.are_notified = True
            # Something may have been written between a watcher's last look and this first version.
            self._watchers.notify_all()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                version = await loop.run_in_executor(self._thread, self._read_version)
                if version != seen:
                    seen = version
                    self._watchers.notify_all()
        except StoreError:
            # Watchers look by themselves from now on, and meet the error there.
            return
        finally:
            self._watchers.are_notified = False

    def _read_version(self) -> tuple[int, int]:
        """Return a value that differs once the file was written; versions of two connections cannot be compared."""
        version = self._reader.read(lambda connection: int(connection.execute("PRAGMA data_version").fetchone()[0]))
        return self._reader.times_reconnected, version
