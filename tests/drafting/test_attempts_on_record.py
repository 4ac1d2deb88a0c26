"""Every attempt to compact is on record: how it ended, why it was made, how large the window was and how long it took."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import msgspec
import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import ROOM, Speech, checkpoints, of_kind, play, seen

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.errors import CompactionStopped, StaleCheckpoint
from threadkeep.hooks import Facts, FunctionHook, HookEvent, HookReply, Hooks
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import Holds, ScriptedModel, Step, says
from threadkeep.threads import read_failed_attempts
from threadkeep.threads.records import FailedCompaction

pytestmark = pytest.mark.anyio

AUTO = Order(strategy="session", trigger="auto", phase="mid_turn", reason="context_limit")


async def long_thread(tk: Threadkeep, speech: Speech) -> Thread:
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    return thread


async def read_failure(thread: Thread) -> tuple[int, str, FailedCompaction]:
    """Return the turn of the newest failed attempt, its error code, and how it ended."""
    record = (await of_kind(thread, RecordKind.REPLY))[-1]
    body = read_failed_attempts(record)
    assert body is not None
    assert body.compaction is not None
    assert body.compaction.duration_ms >= 0
    return record.turn, body.outcome, msgspec.structs.replace(body.compaction, duration_ms=0)


async def describe(thread: Thread, *, status: str, error: str, model: str | None) -> FailedCompaction:
    tokens = (await thread.history()).tokens
    return FailedCompaction(
        status=status,
        error=error,
        trigger="auto",
        phase="mid_turn",
        reason="context_limit",
        strategy="session" if model else "extractive",
        tokens_before=tokens,
        tokens_after=tokens,
        duration_ms=0,
        model=model,
    )


async def test_one_that_was_cancelled_is_interrupted(tk: Threadkeep, speech: Speech) -> None:
    """While the model thinks: the window is as it was, and the record says so."""
    thread = await long_thread(tk, speech)
    window = await seen(thread)
    asked, never = asyncio.Event(), asyncio.Event()

    def think(request: object) -> Step:
        asked.set()
        return Holds(until=never, then=says(SUMMARY))

    model = ScriptedModel([think], dialect=speech.dialect, window_tokens=ROOM)
    task = asyncio.create_task(thread.carry_out(replace(AUTO, model=model)))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    expected = await describe(thread, status="interrupted", error="CancelledError", model=model.name)
    assert await read_failure(thread) == (8, "cancelled", expected)
    assert await seen(thread) == window


async def test_one_that_a_hook_stopped_says_which(tk: Threadkeep, speech: Speech) -> None:
    """No model was asked."""
    thread = await long_thread(tk, speech)

    async def stop(facts: Facts) -> HookReply:
        return HookReply(stop=True, reason="not now")

    hooks = Hooks().on(HookEvent.PRE_COMPACT, FunctionHook(function=stop))
    object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, hooks=hooks))
    with pytest.raises(CompactionStopped) as stopped:
        await thread.carry_out(replace(AUTO, strategy="extractive"))
    assert "not now" in str(stopped.value)
    expected = await describe(thread, status="stopped", error=str(stopped.value), model=None)
    assert await read_failure(thread) == (8, "compaction_stopped", expected)


async def test_one_that_failed_says_why(tk: Threadkeep, speech: Speech) -> None:
    """The span left the path meanwhile."""
    thread = await long_thread(tk, speech)
    tokens = (await thread.history()).tokens
    asked, go = asyncio.Event(), asyncio.Event()

    def think(request: object) -> Step:
        asked.set()
        return Holds(until=go, then=says(block(handoff="go on")))

    model = ScriptedModel([think], dialect=speech.dialect, window_tokens=ROOM)
    task = asyncio.create_task(thread.carry_out(replace(AUTO, model=model)))
    await asked.wait()
    await (await tk.thread("t")).rollback(turns=3)
    go.set()
    with pytest.raises(StaleCheckpoint) as stale:
        await task
    _, code, failed = await read_failure(thread)
    assert (code, failed.status, failed.error) == ("stale_checkpoint", "failed", str(stale.value))
    assert (failed.tokens_before, failed.tokens_after, failed.model) == (tokens, tokens, model.name)


async def test_one_that_was_completed_is_its_checkpoint(tk: Threadkeep, speech: Speech) -> None:
    """Trigger, phase, reason, turn, model, sizes and time are in the record that the window rests on."""
    thread = await long_thread(tk, speech)
    tokens = (await thread.history()).tokens
    async with ScriptedModel([says(block(handoff="go on"))], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.carry_out(replace(AUTO, model=model))
    (made,) = await checkpoints(thread)
    (record,) = await of_kind(thread, RecordKind.CHECKPOINT)
    assert (made.trigger, made.phase, made.reason, record.turn) == ("auto", "mid_turn", "context_limit", 8)
    assert (made.model, made.attempts[-1].outcome) == (model.name, "taken")
    assert (made.figures["tokens_before"], made.figures["tokens_after"]) == (tokens, report.tokens_after)
    assert made.figures["took_ms"] >= 0
