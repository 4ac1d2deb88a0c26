"""A compaction that asked a model and came to nothing leaves one record of what that cost, and changes nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from tests.drafting.replies import SUMMARY
from tests.drafting.test_what_was_paid import HUGE, PRICED, ROOM, Thinking, long_thread
from tests.parity.vocabulary import Speech, config, of_kind, play, seen

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.fallback import VainAttempts
from threadkeep.erasure.erase import plan_erasure
from threadkeep.errors import NothingToCompact, OrdinalConflict, StaleCheckpoint, StoreError, StoreFull
from threadkeep.store import NewRecord, Record, RecordKind
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import Attempt, ReplyBody, decode_body, is_failed_attempt

if TYPE_CHECKING:
    from threadkeep.store.base import FullStore

pytestmark = pytest.mark.anyio

HANDOFF = Attempt(
    strategy="handoff",
    outcome="nothing_to_compact",
    model="scripted:model",
    calls=1,
    input_tokens=50_000,
    output_tokens=900,
    cached_tokens=40_000,
    cost_micro_usd=200_000,
)
UNAIDED = Attempt(strategy="extractive", outcome="nothing_to_compact")


async def unshrinkable(tk: Threadkeep, speech: Speech) -> Thread:
    """A thread of which no draft makes less."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    await thread.record([speech.said(HUGE)])
    return thread


async def compact_in_vain(thread: Thread, *, dry_run: bool = False) -> None:
    async with ScriptedModel([PRICED], dialect=thread.dialect.name, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact):
            await thread.compact(strategy="handoff", model=model, dry_run=dry_run)


def unlearn(tk: Threadkeep) -> None:
    """Forget which drafts gained nothing, as another process never knew it."""
    tk.backend.policy.breaker.futility = VainAttempts()


async def stale(tk: Threadkeep, thread: Thread, speech: Speech) -> None:
    """Compact a thread and roll it back while the model thinks."""
    thinking = Thinking(speech, PRICED)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=thinking.model))
    await thinking.asked.wait()
    await (await tk.thread("t")).rollback(turns=3)
    thinking.go_on.set()
    with pytest.raises(StaleCheckpoint):
        await task


def told(record: Record) -> tuple[int, int | None, bytes | None, ReplyBody]:
    body = decode_body(record.body, ReplyBody)
    return record.turn, record.target, record.chain, msgspec.structs.replace(body, compaction=None)


def bill(outcome: str, *attempts: Attempt) -> ReplyBody:
    return ReplyBody(items=[], outcome=outcome, estimated_tokens=0, attempts=list(attempts))


class Troubled:
    """A store whose appends of what was paid in vain first meet some trouble each."""

    def __init__(self, store: FullStore, *troubles: StoreError | OrdinalConflict) -> None:
        self._store = store
        self._troubles = list(troubles)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        if any(map(is_failed_attempt, records)) and self._troubles:
            raise self._troubles.pop(0)
        return await self._store.append(thread_id, records, expected=expected)

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)


def meeting(tk: Threadkeep, *troubles: StoreError | OrdinalConflict) -> None:
    object.__setattr__(tk.backend, "store", cast("FullStore", Troubled(tk.backend.store, *troubles)))


async def test_what_a_useless_draft_cost_is_one_record_beside_the_history(tk: Threadkeep, speech: Speech) -> None:
    """Every rung with its figures, the error's code, the turn; no link of the chain, no item, no usage."""
    thread = await unshrinkable(tk, speech)
    records, window = await thread.records(), await seen(thread)
    await compact_in_vain(thread)
    (*before, added) = await thread.records()
    assert before == records
    assert (added.kind, added.tokens) == (RecordKind.REPLY, 0)
    assert told(added) == (2, 0, None, bill("nothing_to_compact", HANDOFF, UNAIDED))
    assert await seen(thread) == window


async def test_what_a_stale_draft_cost_stands_behind_what_made_it_stale(tk: Threadkeep, speech: Speech) -> None:
    """The draft was good and paid for; it names the checkpoint that counts, and goes on the path there is."""
    thread = await long_thread(tk, speech)
    checkpoint = (await thread.compact(strategy="extractive")).checkpoint
    await play(thread, speech, 9, 16)
    await stale(tk, thread, speech)
    rollback, added = (await thread.records())[-2:]
    assert rollback.kind is RecordKind.ROLLBACK
    taken = msgspec.structs.replace(HANDOFF, outcome="taken")
    assert told(added) == (13, checkpoint, None, bill("stale_checkpoint", taken))
    await play(thread, speech, 20, 27)
    assert (await thread.compact(strategy="extractive")).checkpoint is not None


async def test_where_nobody_was_asked_nothing_is_written(tk: Threadkeep, speech: Speech) -> None:
    """Nor by a rehearsal, which writes nothing whatever it costs."""
    thread = await unshrinkable(tk, speech)
    records = await thread.records()
    await compact_in_vain(thread, dry_run=True)
    with pytest.raises(NothingToCompact):
        await thread.compact(strategy="extractive")
    assert await thread.records() == records


async def test_a_draft_that_is_known_to_be_useless_is_not_paid_for_again(tk: Threadkeep, speech: Speech) -> None:
    """The record does not count as growth: nobody is asked a second time, and so nothing more is written."""
    thread = await unshrinkable(tk, speech)
    await compact_in_vain(thread)
    records = await thread.records()
    async with ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact):
            await thread.compact(strategy="handoff", model=model)
    assert await thread.records() == records


async def test_what_real_usage_taught_is_not_forgotten(tk: Threadkeep, speech: Speech) -> None:
    """However often nothing came of it: the newest answer is still the one that a turn got."""
    thread = await unshrinkable(tk, speech)
    await thread.record_usage(input_tokens=30_000, output_tokens=9)
    pressure = (await thread.window()).pressure
    uncorrected = (await thread.history()).tokens
    for _ in range(3):
        unlearn(tk)
        await compact_in_vain(thread)
    assert len([record for record in await thread.records() if is_failed_attempt(record)]) == 3
    assert (await thread.window()).pressure == pressure
    assert pressure.tokens > uncorrected


async def test_the_prefix_that_a_scope_leaves_uncharged_is_that_of_the_first_answer(store_file: Path, speech: Speech) -> None:
    """Nine compactions in vain before it take nothing of that away."""
    scoped = replace(config(store_file), model_auto_compact_token_limit_scope="body_after_prefix")
    async with Threadkeep(scoped) as tk:
        thread = await unshrinkable(tk, speech)
        for _ in range(9):
            unlearn(tk)
            await compact_in_vain(thread)
        await thread.record_usage(input_tokens=3_000, output_tokens=9)
        assert (await thread.window()).pressure.uncharged == 3_000


async def test_a_store_that_cannot_take_it_hides_no_error(tk: Threadkeep, speech: Speech) -> None:
    """What the caller is told is what happened to the compaction; the attempts are on it."""
    thread = await unshrinkable(tk, speech)
    records = await thread.records()
    meeting(tk, StoreFull("t.db"))
    async with ScriptedModel([PRICED], dialect=speech.dialect, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact) as nothing:
            await thread.compact(strategy="handoff", model=model)
    assert (nothing.value.attempts, await thread.records()) == ((HANDOFF, UNAIDED), records)


async def test_who_writes_at_the_same_time_is_not_in_its_way(tk: Threadkeep, speech: Speech) -> None:
    """Whatever came first, it is as true after it."""
    thread = await unshrinkable(tk, speech)
    other = await tk.thread("t")
    await other.note("Mind the gap.")
    actual = len(await thread.records())
    meeting(tk, OrdinalConflict("t", expected=actual - 1, actual=actual))
    await compact_in_vain(thread)
    assert [record.kind for record in await thread.records()][-2:] == [RecordKind.NOTE, RecordKind.REPLY]
    await thread.record([speech.said("And now?")])
    assert (await seen(thread))[-1] == speech.said("And now?")


async def test_it_quotes_nobody_and_outlives_an_erasure_in_its_turn(tk: Threadkeep, speech: Speech) -> None:
    """An answer of the same turn goes with what is erased; a bill says nothing of it."""
    thread = await unshrinkable(tk, speech)
    await thread.record_usage(input_tokens=30_000, output_tokens=9)
    await compact_in_vain(thread)
    answer, paid = await of_kind(thread, RecordKind.REPLY)
    (huge,) = [record for record in await of_kind(thread, RecordKind.ITEM) if b"lorem" in record.body]
    plan = await plan_erasure(tk.backend, "t", [huge.ordinal])
    assert huge.ordinal in plan.ordinals
    assert answer.ordinal in plan.ordinals
    assert paid.ordinal not in plan.ordinals


async def test_a_fork_and_a_rollback_go_on_as_if_it_were_not_there(tk: Threadkeep, speech: Speech) -> None:
    """It is beside the history: what a host sent before and after is the same chain."""
    thread = await unshrinkable(tk, speech)
    await compact_in_vain(thread)
    fork = await thread.fork()
    assert await seen(fork) == await seen(thread)
    await thread.rollback(turns=1)
    await play(thread, speech, 2, 8)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        assert (await thread.compact(strategy="handoff", model=model)).strategy == "handoff"
    assert (await tk.verify()).ok
