"""Down the ladder: a model that fails, in whatever way, costs a record of the attempt and nothing else."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import STATE, Speech, of_kind, play, seen, turn, turns

from threadkeep import Config, Head, Thread, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.compaction.strategies import find_strategy
from threadkeep.compaction.strategies.requests import estimate_request
from threadkeep.dialects import Request
from threadkeep.errors import BadInput, CompactionRunning, StaleCheckpoint, UnknownStrategy
from threadkeep.llm import RetryPolicy
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import (
    Calls,
    Compacts,
    Holds,
    Overflows,
    Rejected,
    ScriptedModel,
    ScriptedRemoteModel,
    Step,
    Unavailable,
    refuses,
    runs_out,
    says,
)
from threadkeep.threads import Checkpoint, decode_body, is_failed_attempt

pytestmark = pytest.mark.anyio

# The model takes more than the thread holds, so that its own prefix fits.
ROOM = 200_000
ENDLESS = "- the same line again and again\n" * 200
OVERLONG = block(handoff=" ".join(f"word{number}" for number in range(20_000)))


async def at_once(seconds: float) -> None:
    """Where a test must not wait."""


async def long_thread(tk: Threadkeep, speech: Speech) -> Thread:
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    return thread


async def checkpoint(thread: Thread) -> Checkpoint:
    (record,) = await of_kind(thread, RecordKind.CHECKPOINT)
    return decode_body(record.body, Checkpoint)


def impatient(tk: Threadkeep) -> None:
    """Let no test wait between attempts."""
    backend = tk.backend
    policy = replace(backend.policy, patience=RetryPolicy(attempts=3, sleep=at_once))
    object.__setattr__(backend, "policy", policy)


def test_every_ladder_ends_without_a_model() -> None:
    """Whatever is asked for, the last rung needs nobody."""

    def order(name: str, *, model: bool = True) -> list[str]:
        return [strategy.name for strategy in find_strategy(name, model=model).chain]

    assert order("remote") == ["remote", "session", "extractive"]
    assert order("session") == order("default") == ["session", "extractive"]
    assert order("handoff") == ["handoff", "extractive"]
    assert order("extractive") == order("default", model=False) == ["extractive"]


def test_an_unknown_strategy_is_named() -> None:
    """The error says which there are."""
    with pytest.raises(UnknownStrategy, match="default, session, handoff, remote, extractive"):
        find_strategy("magic", model=True)


@pytest.mark.parametrize("strategy", ["session", "handoff"])
@pytest.mark.parametrize(
    ("step", "outcome"),
    [
        (says(""), "empty"),
        (says("   \n"), "empty"),
        (refuses(), "refused"),
        (Calls(tool="shell", arguments={"cmd": "ls"}), "called_tools"),
        (says(ENDLESS), "looping"),
        (says(OVERLONG), "oversized"),
        (Rejected(), "model_rejected"),
    ],
    ids=["empty", "blank", "refusal", "tool call", "loop", "oversized", "rejected"],
)
async def test_a_reply_that_is_no_draft_is_recorded_and_the_model_free_one_is_taken(
    tk: Threadkeep, speech: Speech, strategy: str, step: Step, outcome: str
) -> None:
    """One question, one attempt with its reason, and the checkpoint that needs no model."""
    thread = await long_thread(tk, speech)
    async with ScriptedModel([step], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy=strategy, model=model)
    assert (report.strategy, report.fell_back_from) == ("extractive", strategy)
    made = await checkpoint(thread)
    assert [(attempt.strategy, attempt.outcome, attempt.calls) for attempt in made.attempts] == [
        (strategy, outcome, 1),
        ("extractive", "taken", 0),
    ]
    assert (made.strategy, made.fell_back_from, made.figures["model_calls"]) == ("extractive", strategy, 1)


async def test_a_bad_draft_changes_nothing_that_the_model_free_one_would_not(
    tk: Threadkeep, speech: Speech, tmp_path: Path
) -> None:
    """After a rejected draft the window is byte for byte the one without a model."""
    thread = await long_thread(tk, speech)
    async with ScriptedModel([refuses()], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="session", model=model)
    async with Threadkeep(Config(store=str(tmp_path / "other.db"), model_context_window=4_000)) as other:
        plain = await long_thread(other, speech)
        await plain.compact(strategy="extractive")
        assert list(await plain.window()) == list(await thread.window())


@pytest.mark.parametrize("words", [2_000, 60_000])
async def test_a_state_of_one_word_over_and_over_is_none(tk: Threadkeep, speech: Speech, words: int) -> None:
    """A model that is stuck goes down the ladder, also where it never ends the line; none of it stands in the state."""
    thread = await long_thread(tk, speech)
    async with ScriptedModel([says("y " * words)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="session", model=model)
    assert [attempt.outcome for attempt in report.attempts] == ["oversized" if words > 20_000 else "looping", "taken"]
    assert [entry for entry in (await thread.state()).entries if "y y" in entry.text] == []


async def test_an_oversized_summary_is_none(tk: Threadkeep, speech: Speech) -> None:
    """A hand-off several times what was asked for goes down the ladder."""
    thread = await long_thread(tk, speech)
    words = " ".join(f"word{number}" for number in range(20_000))
    async with ScriptedModel([says(words)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert [attempt.outcome for attempt in report.attempts] == ["oversized", "taken"]


async def test_a_summary_that_does_not_shrink_the_window_is_not_taken(tk: Threadkeep, speech: Speech) -> None:
    """A draft that gains nothing is replaced by the strategy without a model."""
    thread = await long_thread(tk, speech)
    words = " ".join(f"word{number}" for number in range(3_600))
    async with ScriptedModel([says(words)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert [attempt.outcome for attempt in report.attempts] == ["nothing_to_compact", "taken"]
    assert report.tokens_after < report.tokens_before


async def test_a_reply_cut_short_still_counts_for_what_it_says(tk: Threadkeep, speech: Speech) -> None:
    """Operations of an unfinished block are weighed like any; what it did not come to is retained."""
    thread = await long_thread(tk, speech)
    told = block(objective="Read the parser (#1)", active="Decision: keep the lexer (#4)").split("Current Handoff")[0]
    async with ScriptedModel([runs_out(told)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="session", model=model)
    assert report.strategy == "session"
    texts = [entry.text for entry in (await thread.state()).entries]
    assert "Decision: keep the lexer" in texts
    assert "Please look into part 1 of the parser." in texts


@pytest.mark.parametrize("failure", [Unavailable(), Unavailable(reason="cut off")], ids=["overloaded", "dropped stream"])
async def test_what_may_pass_is_asked_again(tk: Threadkeep, speech: Speech, failure: Unavailable) -> None:
    """The answer to the third attempt is taken as if it had been the first; the others left nothing."""
    impatient(tk)
    thread = await long_thread(tk, speech)
    records = len(await thread.records())
    async with ScriptedModel([failure, failure, says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert report.strategy == "handoff"
    assert model.requests[0] == model.requests[1] == model.requests[2]
    assert len(await thread.records()) == records + 1


async def test_after_the_last_attempt_the_next_strategy_is_taken(tk: Threadkeep, speech: Speech) -> None:
    """Three times overloaded is enough; the compaction happens without the model."""
    impatient(tk)
    thread = await long_thread(tk, speech)
    async with ScriptedModel([Unavailable()] * 3, dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="session", model=model)
    assert [attempt.outcome for attempt in report.attempts] == ["model_unavailable", "taken"]


async def test_a_strategy_that_keeps_failing_rests_and_gets_another_chance(
    tk: Threadkeep, clock: ManualClock, speech: Speech
) -> None:
    """After three failures in a row nobody is asked for five minutes; then somebody is."""
    thread = await long_thread(tk, speech)
    async with ScriptedModel([Rejected()] * 3 + [says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        outcomes: list[str] = []
        for number in range(5):
            if number == 4:
                clock.ms += 300_000
            report = await thread.compact(strategy="handoff", model=model, target="1")
            outcomes.append(report.attempts[0].outcome)
            await play(thread, speech, 10 * number + 10, 10 * number + 16)
    assert outcomes == ["model_rejected", "model_rejected", "model_rejected", "resting", "taken"]


async def test_a_provider_that_says_too_large_is_believed_once(tk: Threadkeep, speech: Speech) -> None:
    """After the warm prefix overflows, the span goes out as a transcript within the limit that was named."""
    thread = await long_thread(tk, speech)
    steps: list[Step] = [Overflows(limit_tokens=4_000), says(block(handoff="go on"))]
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="session", model=model, head=Head())
    assert report.strategy == "session"
    assert [len(request.items) for request in model.requests[1:]] == [1]
    assert all(estimate_request(request) < 4_000 for request in model.requests[1:])


async def test_overflows_are_bounded_by_a_small_constant(tk: Threadkeep, speech: Speech) -> None:
    """A provider that refuses everything is asked a few times, each time for half at most, and not once per item."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 40)
    async with ScriptedModel([Overflows()] * 3, dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="session", model=model, head=Head())
    assert [attempt.outcome for attempt in report.attempts] == ["model_overflow", "taken"]
    sizes = [estimate_request(request) for request in model.requests]
    assert all(2 * smaller < larger for larger, smaller in itertools.pairwise(sizes))


async def test_a_draft_that_overflows_goes_on_in_parts_until_they_fit(tk: Threadkeep, speech: Speech) -> None:
    """A provider takes far less than expected: what it has read counts, and the rest comes in smaller parts."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 120)
    read: list[str] = []

    def answer(request: Request) -> Step:
        if estimate_request(request) > 5_000:
            return Overflows()
        read.append(str(request))
        return says(block(active=f"Finding {len(read)} (#1)", handoff=f"part {len(read)} read"))

    model = ScriptedModel([answer] * 40, dialect=speech.dialect, window_tokens=ROOM)
    report = await thread.compact(strategy="session", model=model, head=Head())
    assert [attempt.outcome for attempt in report.attempts] == ["taken"]
    assert len(model.requests) - len(read) <= 4
    for number in range(1, 121):
        assert any(f"Please look into part {number} of the parser." in part for part in read)
    texts = [entry.text for entry in (await thread.state()).entries]
    assert all(f"Finding {number}" in texts for number in range(1, len(read) + 1))


async def test_a_span_larger_than_the_model_is_told_in_parts_and_nothing_is_left_out(tk: Threadkeep, speech: Speech) -> None:
    """Each part is asked with the state as the parts before left it; every user message is in one of them."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 30)
    seen_parts: list[str] = []

    def told(request: object) -> str:
        seen_parts.append(str(request))
        return block(active=f"Finding {len(seen_parts)} (#1)", handoff=f"part {len(seen_parts)} read")

    model = ScriptedModel([told] * 40, dialect=speech.dialect, window_tokens=6_000)
    report = await thread.compact(strategy="session", model=model)
    assert report.strategy == "session"
    assert len(seen_parts) > 1
    for number in range(1, 31):
        assert any(f"Please look into part {number} of the parser." in part for part in seen_parts)
    assert "Finding 1" in seen_parts[1]
    texts = [entry.text for entry in (await thread.state()).entries]
    assert all(f"Finding {number}" in texts for number in range(1, len(seen_parts) + 1))


async def test_a_strategy_that_needs_a_model_says_so_where_there_is_none(tk: Threadkeep, speech: Speech) -> None:
    """A person who asks for it gets an error that says what to do; nothing is recorded."""
    thread = await long_thread(tk, speech)
    records = await thread.records()
    with pytest.raises(BadInput, match="needs a model; name one"):
        await thread.compact(strategy="session")
    assert await thread.records() == records


async def test_a_compaction_that_nobody_asked_for_goes_on_without_a_model(tk: Threadkeep, speech: Speech) -> None:
    """Where nobody is there to read an error, the attempt is recorded and the model-free form taken."""
    thread = await long_thread(tk, speech)
    report = await thread.carry_out(Order(strategy="session", trigger="auto", phase="pre_turn", reason="context_limit"))
    assert [attempt.outcome for attempt in report.attempts] == ["no_model", "taken"]


async def test_a_compaction_cancelled_while_the_model_thinks_changes_nothing(tk: Threadkeep, speech: Speech) -> None:
    """One record beside the history says so, the lease is free, and the next compaction happens."""
    thread = await long_thread(tk, speech)
    records = await thread.records()
    asked, never = asyncio.Event(), asyncio.Event()

    def thinking(request: object) -> Step:
        asked.set()
        return Holds(until=never, then=says(SUMMARY))

    model = ScriptedModel([thinking], dialect=speech.dialect, window_tokens=ROOM)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=model))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (*before, interrupted) = await thread.records()
    assert (before, is_failed_attempt(interrupted)) == (records, True)
    assert (await thread.compact()).strategy == "extractive"


async def test_of_two_compactions_at_once_one_wins(tk: Threadkeep, speech: Speech) -> None:
    """The second is told that somebody is at it; one checkpoint comes of both."""
    thread = await long_thread(tk, speech)
    asked, go = asyncio.Event(), asyncio.Event()

    def thinking(request: object) -> Step:
        asked.set()
        return Holds(until=go, then=says(SUMMARY))

    model = ScriptedModel([thinking], dialect=speech.dialect, window_tokens=ROOM)
    first = asyncio.create_task(thread.compact(strategy="handoff", model=model))
    await asked.wait()
    with pytest.raises(CompactionRunning):
        await thread.compact()
    go.set()
    assert (await first).strategy == "handoff"
    assert len(await of_kind(thread, RecordKind.CHECKPOINT)) == 1


async def test_what_arrives_while_the_model_thinks_stands_after_the_checkpoint(tk: Threadkeep, speech: Speech) -> None:
    """The tip may move; the new turn is in the window, whole and last."""
    thread = await long_thread(tk, speech)
    asked, go = asyncio.Event(), asyncio.Event()

    def thinking(request: object) -> Step:
        asked.set()
        return Holds(until=go, then=says(block(handoff="go on")))

    model = ScriptedModel([thinking], dialect=speech.dialect, window_tokens=ROOM)
    task = asyncio.create_task(thread.compact(strategy="session", model=model))
    await asked.wait()
    other = await tk.thread("t")
    await other.record(turn(speech, 9))
    go.set()
    await task
    assert (await seen(other))[0] == STATE
    assert (await seen(other))[-4:] == turn(speech, 9)


async def test_a_draft_whose_span_left_the_path_is_thrown_away(tk: Threadkeep, speech: Speech) -> None:
    """Turns taken back while the model thinks: no checkpoint brings them back."""
    thread = await long_thread(tk, speech)
    asked, go = asyncio.Event(), asyncio.Event()

    def thinking(request: object) -> Step:
        asked.set()
        return Holds(until=go, then=says(SUMMARY))

    model = ScriptedModel([thinking], dialect=speech.dialect, window_tokens=ROOM)
    task = asyncio.create_task(thread.compact(strategy="handoff", model=model))
    await asked.wait()
    other = await tk.thread("t")
    await other.rollback(turns=3)
    go.set()
    with pytest.raises(StaleCheckpoint):
        await task
    assert await seen(other) == turns(speech, 1, 5)


async def test_remote_falls_back_to_session_and_then_to_no_model(tk: Threadkeep, speech: Speech) -> None:
    """Three strategies are tried, and each failure is recorded with its reason."""
    thread = await long_thread(tk, speech)
    steps: list[Step] = [Compacts(items=()), refuses()]
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="remote", model=model)
    assert [(attempt.strategy, attempt.outcome) for attempt in report.attempts] == [
        ("remote", "empty"),
        ("session", "refused"),
        ("extractive", "taken"),
    ]
    assert report.fell_back_from == "remote"
