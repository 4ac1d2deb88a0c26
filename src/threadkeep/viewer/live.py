"""Word to a page that something was written: which thread, which record, never what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from threadkeep.gateway.caller import Caller
from threadkeep.gateway.record_events import ALIVE, OPENING, Silence, Telling, woken
from threadkeep.store import ThreadStore
from threadkeep.viewer.answers import GUARDS

# A list need not move as fast as the work it lists.
LOOK_SECONDS = 1.0


async def follow_threads(store: Telling, *, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event whenever any thread was written, until `stopping` is set."""
    seen = await _newest(store)
    yield OPENING
    silence = Silence()
    async with store.watch() as watch:
        while not stopping.is_set():
            newest = await _newest(store)
            if newest != seen:
                seen = newest
                silence.broken()
                yield b"event: written\ndata: {}\n\n"
            await woken(watch, stopping, within_s=LOOK_SECONDS)
            if silence.is_long():
                yield ALIVE


async def _newest(store: ThreadStore) -> tuple[str, int] | None:
    for row in await store.threads(limit=1):
        return row.id, row.next
    return None


async def stream(caller: Caller, events: AsyncIterator[bytes], *, admitted: Callable[[], bool]) -> None:
    """Write events until they end, the page is closed, or who looks is no longer admitted."""

    async def write() -> None:
        await caller.start(
            200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), *GUARDS]
        )
        async for chunk in events:
            if not admitted():
                break
            await caller.write(chunk)
        await caller.end()

    await caller.stay_for(write())
