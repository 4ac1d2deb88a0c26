"""What every backend of the `Notify` port must do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from threadkeep.errors import StoreClosed, ThreadNotFound
from threadkeep.store.base import Notify, RecordKind, ThreadStore, Watch
from threadkeep.testing.store_facts import StoreMaker, expect, new, opened, refuses, thread

# Long enough for any machine; nothing waits for it to pass.
PATIENCE_SECONDS = 30.0


class TellingStore(ThreadStore, Notify, Protocol):
    """A store that tells of what is written."""


NotifyMaker = StoreMaker[TellingStore]


async def told(watch: Watch) -> str:
    """Wait to be told, looking away as often as the store asks to look."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await watch.changed(within_s=PATIENCE_SECONDS):
                pass
    except TimeoutError:
        return "never told"
    return "told"


async def settled(watch: Watch) -> None:
    """Hear out what a watch has to tell of its beginning."""
    while await watch.changed(within_s=0.05):
        pass


async def mail_and_checkpoints_of_others_are_told(make: NotifyMaker) -> None:
    """Whoever watches a thread, or all of them, is told what another opener of the store wrote to it."""
    async with opened(make) as store:
        await store.create(thread("t"), [])
        beside = await make(beside=store)
        try:
            for ordinal, kind in enumerate((RecordKind.MAIL, RecordKind.CHECKPOINT)):
                async with store.watch("t") as one, store.watch() as every:
                    await settled(one)
                    await settled(every)
                    await beside.append("t", [new(b"{}", kind=kind)], expected=ordinal)
                    expect([await told(one), await told(every)], ["told", "told"], f"a {kind} is told")
            async with store.watch() as every:
                await settled(every)
                await beside.create(thread("u"), [new(b"{}", kind=RecordKind.MAIL)])
                expect(await told(every), "told", "so is what a new thread begins with")
        finally:
            await beside.close()


async def what_happens_between_two_looks_is_told(make: NotifyMaker) -> None:
    """Mail that comes while nobody waits, but inside the block, is told to the next who does."""
    async with opened(make) as store:
        await store.create(thread("t"), [])
        async with store.watch("t") as watch:
            await settled(watch)
            await store.append("t", [new(b"{}", kind=RecordKind.MAIL)], expected=0)
            expect(await told(watch), "told", "word waits for who waits for it")


async def a_watch_needs_a_thread_and_an_open_store(make: NotifyMaker) -> None:
    """Watching what is not there raises `ThreadNotFound`, watching a closed store `StoreClosed`."""
    store = await make()
    with refuses(ThreadNotFound, "an unknown thread cannot be watched"):
        async with store.watch("nobody"):
            pass
    await store.close()
    with refuses(StoreClosed, "a closed store tells nothing"):
        async with store.watch():
            pass


NOTIFY_CHECKS: tuple[Callable[[NotifyMaker], Awaitable[None]], ...] = (
    mail_and_checkpoints_of_others_are_told,
    what_happens_between_two_looks_is_told,
    a_watch_needs_a_thread_and_an_open_store,
)
