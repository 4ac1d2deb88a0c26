"""The lease of a compaction: kept while a model thinks, given back however it ends, and never what a checkpoint depends on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import pytest
from tests.drafting.replies import SUMMARY
from tests.parity.vocabulary import SPEECHES, of_kind, play

from threadkeep import Thread, Threadkeep
from threadkeep.errors import CompactionRunning, StaleCheckpoint, StoreBusy
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import Holds, ScriptedModel, says
from threadkeep.threads import lease

if TYPE_CHECKING:
    from tests.conftest import ManualClock

    from threadkeep.store.base import FullStore

pytestmark = pytest.mark.anyio

SPEECH = SPEECHES[0]
KEY = "compact:t"


class TroubledStore:
    """A store whose leases go as a test says: `outcomes` by the number of the attempt, 0 for giving back; else as they should."""

    def __init__(self, store: FullStore, outcomes: dict[int, bool | Exception]) -> None:
        self._store = store
        self._outcomes = outcomes
        self._turned = asyncio.Event()
        self.asked = 0
        self.went_wrong = asyncio.Event()

    async def asked_for(self, times: int) -> None:
        while self.asked < times:
            self._turned.clear()
            await self._turned.wait()

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        self.asked += 1
        self._turned.set()
        outcome = self._outcomes.get(self.asked)
        if outcome is None:
            return await self._store.acquire(key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms)
        self.went_wrong.set()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def release(self, key: str, *, holder: str) -> None:
        if isinstance(trouble := self._outcomes.get(0), Exception):
            raise trouble
        await self._store.release(key, holder=holder)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


@pytest.fixture(autouse=True)
def renewed_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWAL_S", 0.0)


@pytest.fixture
async def thread(tk: Threadkeep) -> Thread:
    thread = await tk.thread("t", dialect=SPEECH.dialect)
    await play(thread, SPEECH, 1, 8)
    return thread


def troubled(tk: Threadkeep, outcomes: dict[int, bool | Exception]) -> TroubledStore:
    store = TroubledStore(tk.backend.store, outcomes)
    object.__setattr__(tk.backend, "store", cast("FullStore", store))
    return store


def thinking(until: asyncio.Event) -> ScriptedModel:
    return ScriptedModel([Holds(until=until, then=says(SUMMARY))], dialect=SPEECH.dialect, window_tokens=200_000)


async def is_free(tk: Threadkeep, clock: ManualClock) -> bool:
    return await tk.backend.store.acquire(KEY, holder="next", now_ms=clock.now_ms(), ttl_ms=1)


async def test_a_renewal_that_fails_takes_nothing_back(tk: Threadkeep, thread: Thread, clock: ManualClock) -> None:
    """The compaction is committed and said to be, and the next one finds its place free at once."""
    store = troubled(tk, {2: StoreBusy("t.db")})
    report = await thread.compact(strategy="handoff", model=thinking(store.went_wrong))
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [report.checkpoint]
    assert await is_free(tk, clock)


async def test_a_lease_that_cannot_be_given_back_takes_nothing_back(tk: Threadkeep, thread: Thread) -> None:
    """The checkpoint is durable; the lease runs out by itself."""
    troubled(tk, {0: StoreBusy("t.db")})
    report = await thread.compact()
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [report.checkpoint]


async def test_a_renewal_is_tried_again(tk: Threadkeep, thread: Thread, clock: ManualClock) -> None:
    """A store that was away for a moment renews the lease when it is back: nobody else gets in after the first term."""
    store = troubled(tk, {2: StoreBusy("t.db"), 3: StoreBusy("t.db")})
    done = asyncio.Event()
    task = asyncio.create_task(thread.compact(strategy="handoff", model=thinking(done)))
    await store.went_wrong.wait()
    clock.ms += lease.LEASE_MS - 1
    # Asked twice more, the renewal before is through.
    await store.asked_for(store.asked + 3)
    clock.ms += 2
    with pytest.raises(CompactionRunning):
        await (await tk.thread("t")).compact()
    done.set()
    assert (await task).checkpoint is not None


async def test_a_lost_lease_is_not_asked_for_again(tk: Threadkeep, thread: Thread) -> None:
    """Who finds another in its place leaves it there; a compaction nobody else came before is committed all the same."""
    store = troubled(tk, {2: False})
    report = await thread.compact(strategy="handoff", model=thinking(store.went_wrong))
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [report.checkpoint]
    assert store.asked == 2


async def test_of_two_that_hold_one_thread_who_commits_first_has_compacted(
    tk: Threadkeep, thread: Thread, clock: ManualClock
) -> None:
    """A worker that lost its lease does not write over the checkpoint of the one that got it; it is told so."""
    store = troubled(tk, {2: False})
    asked, go = asyncio.Event(), asyncio.Event()

    def slow(request: object) -> Holds:
        asked.set()
        return Holds(until=go, then=says(SUMMARY))

    model = ScriptedModel([slow], dialect=SPEECH.dialect, window_tokens=200_000)
    late = asyncio.create_task(thread.compact(strategy="handoff", model=model))
    await asked.wait()
    await store.went_wrong.wait()
    clock.ms += lease.LEASE_MS
    first = await (await tk.thread("t")).compact()
    go.set()
    with pytest.raises(StaleCheckpoint):
        await late
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [first.checkpoint]


async def test_a_cancelled_compaction_gives_its_lease_back(tk: Threadkeep, thread: Thread, clock: ManualClock) -> None:
    """Nobody waits for a term to end because somebody pressed Ctrl-C."""
    asked = asyncio.Event()

    def slow(request: object) -> Holds:
        asked.set()
        return Holds(until=asyncio.Event(), then=says(SUMMARY))

    model = ScriptedModel([slow], dialect=SPEECH.dialect, window_tokens=200_000)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=model))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await is_free(tk, clock)
