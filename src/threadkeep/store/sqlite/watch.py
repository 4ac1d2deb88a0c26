"""Word that a file was written: SQLite tells nobody, but says cheaply whether another connection wrote since one last asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.base import Watch
from threadkeep.store.sqlite.errors import store_errors
from threadkeep.store.sqlite.file import Reading
from threadkeep.store.watchers import Watchers

LOOK_SECONDS = 0.025
# The file says that it was written, not which thread of it.
FILE = "file"


class Changes:
    """Looks at a file's `data_version` for as long as anybody watches, from a thread and a connection of its own.

    That connection never writes, so this process's own commits are told like anybody's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._watchers = Watchers()
        self._closed = False
        self._looking: asyncio.Task[None] | None = None
        self._reading = Reading(path)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="threadkeep-watcher")

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watch]:
        """Watch the file inside the block."""
        if self._closed:
            raise StoreClosed(str(self._path))
        try:
            with self._watchers.added(FILE) as watcher:
                if self._looking is None or self._looking.done():
                    self._looking = asyncio.create_task(self._look())
                yield watcher
        finally:
            if not self._watchers:
                self._rest()

    def refuse(self) -> None:
        """Accept nobody more, and leave those who still watch to look by themselves."""
        self._closed = True
        self._rest()

    def join(self) -> None:
        """Let go of the file. Blocks; call it off the event loop, after `refuse`."""
        self._thread.shutdown(wait=True)
        self._reading.close()

    def _rest(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            seen = await loop.run_in_executor(self._thread, self._version)
            self._watchers.is_told = True
            # What was written between somebody's last look and the first version may be news.
            self._watchers.tell_everyone()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                version = await loop.run_in_executor(self._thread, self._version)
                if version != seen:
                    seen = version
                    self._watchers.tell_everyone()
        except StoreError:
            # Whoever watches looks by themselves from now on, and is told there what is wrong with the file.
            return
        finally:
            self._watchers.is_told = False

    def _version(self) -> tuple[int, int]:
        """Return what differs once the file was written; versions of one connection cannot be compared with another's."""
        with store_errors(str(self._path)):
            (version,) = self._reading.connection().execute("PRAGMA data_version").fetchone()
        return self._reading.times_overtaken, int(version)
