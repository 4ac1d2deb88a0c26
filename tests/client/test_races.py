"""Compactions while others write: the tip may move, the span may not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.histories import RESPONSES, answered, said, turn, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.client import CompactionReport
from threadkeep.dialects.responses.dialect import ResponsesDialect
from threadkeep.errors import CompactionRunning, Conflict, NothingToCompact, OrdinalConflict, StaleCheckpoint
from threadkeep.items import Item
from threadkeep.store import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.base import FullStore

if TYPE_CHECKING:
    from tests.conftest import ManualClock

pytestmark = pytest.mark.anyio


class SlowDialect(ResponsesDialect):
    """The Responses dialect, except that writing the state waits until the test lets it go on."""

    def __init__(self) -> None:
        self.drafting = threading.Event()
        self.go_on = threading.Event()

    def make_user_message(self, text: str) -> Item:
        self.drafting.set()
        assert self.go_on.wait(30)
        return super().make_user_message(text)


async def compact_while(tk: Threadkeep, thread_id: str, meanwhile: Callable[[], Awaitable[object]]) -> CompactionReport:
    """Compact a thread and do something else after it was read and before its checkpoint is written."""
    slow = SlowDialect()
    compaction = asyncio.create_task(Thread(tk.backend, thread_id, dialect=slow).compact())
    try:
        await asyncio.to_thread(slow.drafting.wait, 30)
        await meanwhile()
    finally:
        slow.go_on.set()
    return await compaction


async def started(tk: Threadkeep, *, last: int = 4) -> Thread:
    thread = await tk.thread("t")
    await thread.record(turns(1, last))
    return thread


async def test_a_compaction_commits_although_the_tip_moved(tk: Threadkeep) -> None:
    """What was appended meanwhile stands after the compacted part, untouched."""
    thread = await started(tk)
    dry = await thread.compact(dry_run=True)
    report = await compact_while(tk, "t", lambda: thread.record(turn(5)))
    window = await thread.window()
    assert window.checkpoint == report.checkpoint
    assert list(window)[-5:] == turn(5)
    assert dry.tokens_after + sum(entry.tokens for entry in (await thread.history()).entries[-5:]) == window.tokens
    assert (await tk.verify()).problems == ()


async def test_turns_are_numbered_on_from_the_newest_although_a_compaction_came_in_late(tk: Threadkeep) -> None:
    """A checkpoint computed in turn 4 and written in turn 5 does not turn back the count."""
    thread = await started(tk)
    await compact_while(tk, "t", lambda: thread.record(turn(5)))
    resumed = await tk.thread("t")
    await resumed.record([said("Sixth."), answered("Yes.")])
    numbers = [record.turn for record in await thread.records() if record.kind is RecordKind.TURN]
    assert numbers == [1, 2, 3, 4, 5, 6]


async def test_a_span_rolled_back_meanwhile_makes_the_checkpoint_stale(tk: Threadkeep) -> None:
    """Nothing is written, and the window is what the rollback left."""
    thread = await started(tk)
    with pytest.raises(StaleCheckpoint):
        await compact_while(tk, "t", lambda: thread.rollback(turns=3))
    assert list(await thread.window()) == turn(1)


async def test_a_correction_rolled_back_meanwhile_retires_nothing(tk: Threadkeep) -> None:
    """A draft that heard a turn which then left the path is stale, even if it kept that turn verbatim."""
    thread = await tk.thread("t")
    await thread.record([said("Use port 8080 for staging."), answered("Yes."), *turns(1, 4)])
    await thread.record([said("Actually use port 9090 for staging instead of port 8080.")])
    try:
        await compact_while(tk, "t", lambda: thread.rollback(turns=1))
    except StaleCheckpoint:
        return
    state = await thread.state()
    (entry,) = [entry for entry in state.entries if entry.text == "Use port 8080 for staging."]
    assert (entry.section, entry.claim) == ("objective", None)


async def test_a_checkpoint_on_a_base_undone_meanwhile_is_stale(tk: Threadkeep) -> None:
    """A new state computed from a cancelled one is worth nothing."""
    thread = await started(tk)
    await thread.compact()
    await thread.record(turns(5, 9))
    with pytest.raises(StaleCheckpoint):
        await compact_while(tk, "t", thread.undo)
    assert list(await thread.window()) == turns(1, 9)


async def test_a_second_worker_is_told_that_one_is_at_it(tk: Threadkeep, store_file: Path) -> None:
    """The lease is held in the store, for every process to see."""
    thread = await started(tk)

    async def other_process() -> None:
        same_time = tk.backend.clock
        async with Threadkeep(Config(store=str(store_file), model_context_window=4_000), clock=same_time) as other:
            with pytest.raises(CompactionRunning):
                await (await other.thread("t")).compact()

    await compact_while(tk, "t", other_process)
    assert [record.kind for record in await thread.records()].count(RecordKind.CHECKPOINT) == 1


async def test_a_second_compaction_in_the_same_process_is_refused_as_well(tk: Threadkeep) -> None:
    """One at a time per thread: the second does not draft what the first is drafting."""
    thread = await started(tk)

    async def again() -> None:
        with pytest.raises(CompactionRunning):
            await thread.compact()

    await compact_while(tk, "t", again)


async def test_of_two_compactions_at_once_one_wins(tk: Threadkeep) -> None:
    """However they interleave there is one checkpoint, and the loser is told."""
    thread = await started(tk)
    first, second = await asyncio.gather(thread.compact(), (await tk.thread("t")).compact(), return_exceptions=True)
    failures = [result for result in (first, second) if isinstance(result, BaseException)]
    assert len(failures) == 1
    assert isinstance(failures[0], Conflict | NothingToCompact)
    assert [record.kind for record in await thread.records()].count(RecordKind.CHECKPOINT) == 1


async def test_a_lease_of_a_dead_worker_ends(tk: Threadkeep, clock: ManualClock) -> None:
    """Once its time is up the thread can be compacted again."""
    thread = await started(tk)
    await tk.backend.store.acquire("compact:t", holder="dead", now_ms=clock.now_ms(), ttl_ms=1_000)
    with pytest.raises(CompactionRunning):
        await thread.compact()
    clock.ms += 1_000
    assert (await thread.compact()).checkpoint is not None


async def test_of_two_handles_that_write_one_is_told_to_look_again(tk: Threadkeep) -> None:
    """The loser's next attempt succeeds, and nothing is recorded twice."""
    one, other = await tk.thread("t"), await tk.thread("t")
    await one.record([said("one")])
    await other.record([said("two")])
    with pytest.raises(OrdinalConflict):
        await one.record([said("three")])
    await one.record([said("three")])
    assert list(await one.window()) == [said("one"), said("two"), said("three")]


class InterruptedStore:
    """A store that lets another writer in right after the window was read for the first time."""

    def __init__(self, store: FullStore, interrupt: Callable[[], Awaitable[object]]) -> None:
        self._store = store
        self._interrupt: Callable[[], Awaitable[object]] | None = interrupt

    @property
    def tenant(self) -> Tenant:
        return self._store.tenant

    async def read(
        self,
        span: Span,
        *,
        kinds: object = None,
        ordinals: object = None,
        turn: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        bodies: bool = True,
    ) -> list[Record]:
        found = await self._store.read(
            span,
            kinds=kinds,  # type: ignore[arg-type]  # passed on as it came
            ordinals=ordinals,  # type: ignore[arg-type]  # passed on as it came
            turn=turn,
            newest_first=newest_first,
            limit=limit,
            bodies=bodies,
        )
        if kinds == {RecordKind.ITEM} and (interrupt := self._interrupt):
            self._interrupt = None
            await interrupt()
        return found

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        await self._store.create(thread, records)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        return await self._store.append(thread_id, records, expected=expected)

    async def get(self, thread_id: str) -> ThreadRow:
        return await self._store.get(thread_id)

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return await self._store.threads(prefix=prefix, limit=limit)

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        return await self._store.lookup(chains)

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        return await self._store.erase(thread_id, ordinals, at_ms=at_ms)

    async def close(self) -> None:
        await self._store.close()

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        return await self._store.search(spans, query, limit=limit)

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        return await self._store.acquire(key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms)

    async def release(self, key: str, *, holder: str) -> None:
        await self._store.release(key, holder=holder)

    def watch(self, thread_id: str | None = None) -> AbstractAsyncContextManager[Watch]:
        return self._store.watch(thread_id)


async def test_what_is_appended_while_a_compaction_reads_stays_in_the_window(tk: Threadkeep) -> None:
    """A cut never falls behind items that the compaction has not seen."""
    thread = await started(tk)
    request = [said("Also never delete the cache.")]
    store = InterruptedStore(tk.backend.store, lambda: thread.record(request))
    await Thread(replace(tk.backend, store=store), "t", dialect=RESPONSES).compact(target="1")
    assert list(await thread.window())[-1:] == request
