"""Word of what other processes wrote: `LISTEN` on a connection of its own, and looking by oneself where there can be none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg

from threadkeep.errors import StoreClosed
from threadkeep.store.postgres.connections import soon_told
from threadkeep.store.postgres.queries import QUERIES
from threadkeep.store.watchers import Watcher, Watchers

# A connection nobody uses may be dead for hours before its socket says so.
ALIVE_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
# What is watched by who watches a tenant's every thread.
ANY_THREAD = ""


class _Pooled(Exception):
    """Something stands between us and the server that lends connections out; what is told there arrives nowhere."""


class Listener:
    """Tells who watches what was notified. Connects when somebody first watches, and again whenever the connection is lost.

    Behind a pooler it does not listen: a pooler in transaction mode takes `LISTEN` and never delivers. Then, and while the
    server is away, `Watchers.is_told` is False and everybody looks by themselves.
    """

    def __init__(self, url: str, *, location: str) -> None:
        self._url = url
        self._location = location
        self._watchers = Watchers()
        self._listening: asyncio.Task[None] | None = None
        self._closed = False

    @contextmanager
    def watched(self, *, tenant: int, thread: int | None) -> Iterator[Watcher]:
        """Let somebody watch a thread, or all of a tenant's, inside the block."""
        if self._closed:
            raise StoreClosed(self._location)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        with self._watchers.added((str(tenant), ANY_THREAD if thread is None else str(thread))) as watcher:
            yield watcher

    async def close(self) -> None:
        self._closed = True
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.wait([self._listening])

    async def _listen(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            with suppress(psycopg.Error):
                try:
                    await self._hear()
                except _Pooled:
                    return
                finally:
                    pause = FIRST_PAUSE_SECONDS if self._watchers.is_told else min(2 * pause, LONGEST_PAUSE_SECONDS)
                    self._watchers.is_told = False
                    # Whoever waited to be told waits no longer for that.
                    self._watchers.tell_everyone()
            await asyncio.sleep(pause)

    async def _hear(self) -> None:
        """Listen until the connection is lost, or never."""
        connection = await psycopg.AsyncConnection.connect(soon_told(self._url), autocommit=True, prepare_threshold=None)
        async with connection:
            row = await (await connection.execute(QUERIES["own_process"])).fetchone()
            # A pooler makes up a process for its clients; the server names the one that really answered.
            if row is None or row[0] != connection.info.backend_pid:
                raise _Pooled
            await connection.execute(QUERIES["listen"])
            self._watchers.is_told = True
            while True:
                # What was written before we listened, or while we asked whether anyone is there, was told to nobody.
                self._watchers.tell_everyone()
                async for notice in connection.notifies(timeout=ALIVE_SECONDS):
                    tenant, _, thread = notice.payload.partition(" ")
                    self._watchers.tell((tenant, thread))
                    self._watchers.tell((tenant, ANY_THREAD))
                await connection.execute(QUERIES["own_process"])
