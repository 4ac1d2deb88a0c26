"""Notice other processes' writes: `LISTEN` on a connection of its own; where that is impossible, watchers look by themselves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from threadkeep.errors import StoreClosed
from threadkeep.store.postgres.connections import add_timeouts
from threadkeep.store.postgres.sql_files import QUERIES
from threadkeep.store.watchers import Watcher, Watchers

# An unused connection may be dead for hours before its socket notices.
ALIVE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# The key, in place of a thread's number, of watchers of all threads of a tenant.
ANY_THREAD = ""


class _Pooled(Exception):
    """A pooler stands between us and the server; no notification would arrive."""


class Listener:
    """Passes notifications on to watchers. Connects with the first watcher, and again whenever the connection is lost.

    Behind a pooler it does not listen: a pooler in transaction mode accepts `LISTEN` and never delivers. Then, and while the
    server is away, `Watchers.are_notified` is False and watchers look by themselves.
    """

    def __init__(self, url: str, *, location: str) -> None:
        self._url = url
        self._location = location
        self._watchers = Watchers()
        self._listening: asyncio.Task[None] | None = None
        self._closed = False

    @contextmanager
    def watch(self, *, tenant: int, thread: int | None) -> Iterator[Watcher]:
        """Watch a thread, or all of a tenant's, inside the block."""
        if self._closed:
            raise StoreClosed(self._location)
        if self._listening is None:
            self._listening = asyncio.create_task(self._keep_listening())
        with self._watchers.add((str(tenant), ANY_THREAD if thread is None else str(thread))) as watcher:
            yield watcher

    async def close(self) -> None:
        self._closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _keep_listening(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            with suppress(psycopg.Error):
                try:
                    await self._listen()
                except _Pooled:
                    return
                finally:
                    pause = FIRST_PAUSE_SECONDS if self._watchers.are_notified else min(2 * pause, LONGEST_PAUSE_SECONDS)
                    self._watchers.are_notified = False
                    # No notification will come for those who wait for one now.
                    self._watchers.notify_all()
            await asyncio.sleep(pause)

    async def _listen(self) -> None:
        """Listen until the connection is lost."""
        connection = await psycopg.AsyncConnection.connect(add_timeouts(self._url), autocommit=True, prepare_threshold=None)
        async with connection:
            row = await (await connection.execute(QUERIES["backend_pid"])).fetchone()
            # A pooler makes up a process number for its clients; the server gives the one that really answered.
            if row is None or row[0] != connection.info.backend_pid:
                raise _Pooled
            await connection.execute(QUERIES["listen"])
            self._watchers.are_notified = True
            while True:
                # Nobody was notified of writes before `LISTEN`, or during the check below.
                self._watchers.notify_all()
                async for notice in connection.notifies(timeout=ALIVE_SECONDS):
                    tenant, _, thread = notice.payload.partition(" ")
                    self._watchers.notify((tenant, thread))
                    self._watchers.notify((tenant, ANY_THREAD))
                await connection.execute(QUERIES["backend_pid"])
