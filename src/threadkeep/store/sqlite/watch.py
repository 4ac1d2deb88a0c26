"""Notice writes to the file: SQLite sends no notice, but the newest record is found cheaply."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.base import Watch
from threadkeep.store.sqlite.sql_files import QUERIES
from threadkeep.store.sqlite.workers import Readers, Writer
from threadkeep.store.watchers import Watchers

LOOK_SECONDS = 0.025
# The file says that it was written, not which thread of it.
FILE = "file"


class FileWatch:
    """Looks for new records while anybody watches."""

    def __init__(self, readers: Readers | Writer) -> None:
        self._readers = readers
        self._watchers = Watchers()
        self._closed = False
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def watch(self) -> AsyncIterator[Watch]:
        """Watch the file inside the block."""
        if self._closed:
            raise StoreClosed(self._readers.location)
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

    def _stop_looking(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        try:
            seen = await self._readers.run(_find_newest)
            self._watchers.are_notified = True
            # Something may have been written between a watcher's last look and this first one.
            self._watchers.notify_all()
            while True:
                await asyncio.sleep(LOOK_SECONDS)
                newest = await self._readers.run(_find_newest)
                if newest != seen:
                    seen = newest
                    self._watchers.notify_all()
        except StoreError:
            # Watchers look by themselves from now on, and meet the error there.
            return
        finally:
            self._watchers.are_notified = False


def _find_newest(connection: sqlite3.Connection) -> int:
    (newest,) = connection.execute(QUERIES["newest_record"]).fetchone()
    return int(newest)
