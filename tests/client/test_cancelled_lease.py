"""Who is cancelled while a lease is being taken leaves none behind, whatever the store had done by then."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, cast

import pytest
from tests.parity.vocabulary import SPEECHES, play

from threadkeep import Thread, Threadkeep
from threadkeep.errors import StoreBusy, StoreUnreachable
from threadkeep.threads.lease import Lease

if TYPE_CHECKING:
    from tests.conftest import ManualClock

    from threadkeep.store.base import FullStore

pytestmark = pytest.mark.anyio

SPEECH = SPEECHES[0]


class SlowToAnswer:
    """A store that commits what is asked of a lease, and answers when the test lets it; `trouble` is what it answers then."""

    def __init__(self, store: FullStore, *, trouble: Exception | None = None) -> None:
        self._store = store
        self.trouble = trouble
        self.committed = asyncio.Event()
        self.answers = asyncio.Event()
        self.released = 0

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        taken = await self._store.acquire(key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms)
        self.committed.set()
        await self.answers.wait()
        if self.trouble is not None:
            raise self.trouble
        return taken

    async def release(self, key: str, *, holder: str) -> None:
        self.released += 1
        await self._store.release(key, holder=holder)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def slowed(tk: Threadkeep, *, trouble: Exception | None = None) -> SlowToAnswer:
    store = SlowToAnswer(tk.backend.store, trouble=trouble)
    object.__setattr__(tk.backend, "store", cast("FullStore", store))
    return store


async def is_free(tk: Threadkeep, key: str, clock: ManualClock) -> bool:
    return await tk.backend.store.acquire(key, holder="next", now_ms=clock.now_ms(), ttl_ms=1)


async def compacting(thread: Thread) -> None:
    await thread.compact(strategy="extractive")


async def taking_a_turn(thread: Thread) -> None:
    async with thread.turn([SPEECH.said("Go on.")], model="m"):
        pass


WORK = [("compact:t", compacting), ("turn:t", taking_a_turn)]
Work = Callable[[Thread], Awaitable[None]]


@pytest.fixture
async def thread(tk: Threadkeep) -> Thread:
    thread = await tk.thread("t", dialect=SPEECH.dialect)
    await play(thread, SPEECH, 1, 8)
    return thread


@pytest.mark.parametrize(("key", "work"), WORK, ids=["compaction", "turn"])
async def test_cancelled_while_the_lease_is_taken_nobody_has_it(
    tk: Threadkeep, thread: Thread, clock: ManualClock, key: str, work: Work
) -> None:
    """The store had given it and the caller had not heard: it is given back once the answer is there, before the caller goes."""
    store = slowed(tk)
    task = asyncio.ensure_future(work(thread))
    await store.committed.wait()
    task.cancel()
    asyncio.get_running_loop().call_soon(store.answers.set)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.released == 1
    assert await is_free(tk, key, clock)


@pytest.mark.parametrize(("key", "work"), WORK, ids=["compaction", "turn"])
async def test_a_store_that_gave_it_and_broke_off_is_told_to_take_it_back(
    tk: Threadkeep, thread: Thread, clock: ManualClock, key: str, work: Work
) -> None:
    """An answer that was lost on the way says nothing about the lease, so it is given back all the same."""
    store = slowed(tk, trouble=StoreUnreachable("db", reason="it closed the connection"))
    store.answers.set()
    with pytest.raises(StoreUnreachable):
        await work(thread)
    store.trouble = None
    assert await is_free(tk, key, clock)


async def test_a_lease_another_has_is_not_given_back(tk: Threadkeep) -> None:
    """Who never had it has nothing to tell the store."""
    store = slowed(tk)
    store.answers.set()
    first, second = Lease(tk.backend, "k"), Lease(tk.backend, "k")
    assert (await first.take(), await second.take()) == (True, False)
    await second.give_back()
    assert store.released == 0
    await first.give_back()
    assert store.released == 1


async def test_a_store_that_was_too_busy_to_give_it_is_not_asked_to_take_it_back(tk: Threadkeep) -> None:
    """Waiting for the write lock once more would only make the error come later."""
    store = slowed(tk, trouble=StoreBusy("t.db"))
    store.answers.set()
    lease = Lease(tk.backend, "k")
    with pytest.raises(StoreBusy):
        await lease.take()
    await lease.give_back()
    assert store.released == 0
