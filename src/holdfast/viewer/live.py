"""Word to a page that something was written: which thread, which record, never what it says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from holdfast.gateway.caller import Caller
from holdfast.gateway.record_events import ALIVE, ALIVE_SECONDS, OPENING
from holdfast.store import ThreadStore
from holdfast.viewer.answers import GUARDS

# A list need not move as fast as the work it lists.
LOOK_SECONDS = 1.0


async def follow_threads(store: ThreadStore, *, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event whenever any thread was written, until `stopping` is set."""
    seen = await _newest(store)
    yield OPENING
    quiet = 0.0
    while not stopping.is_set():
        newest = await _newest(store)
        if newest != seen:
            seen, quiet = newest, 0.0
            yield b"event: written\ndata: {}\n\n"
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await stopping.wait()
        except TimeoutError:
            quiet += LOOK_SECONDS
        if quiet >= ALIVE_SECONDS:
            quiet = 0.0
            yield ALIVE


async def _newest(store: ThreadStore) -> tuple[str, int] | None:
    for row in await store.threads(limit=1):
        return row.id, row.next
    return None


async def stream(caller: Caller, events: AsyncIterator[bytes]) -> None:
    """Write events until they end or the page is closed."""

    async def write() -> None:
        await caller.start(
            200, [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"), *GUARDS]
        )
        async for chunk in events:
            await caller.write(chunk)
        await caller.end()

    await caller.stay_for(write())
