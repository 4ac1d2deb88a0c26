"""Compactions that a model drafts, as turns meet them: by hand, before a turn, in the middle of one, after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.drafting.test_branching import opaque
from tests.parity.vocabulary import (
    ROOM,
    SPEECHES,
    STATE,
    Json,
    Speech,
    asked,
    checkpoints,
    context,
    of_kind,
    play,
    seen,
    sent,
    skip_unless_offered,
    turn,
    turns,
)

from threadkeep import Config, Head, Threadkeep
from threadkeep.compaction.backend import Order
from threadkeep.errors import NothingToCompact
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import Compacts, ScriptedModel, ScriptedRemoteModel, Step, says

pytestmark = pytest.mark.anyio

HEAD = Head("You are a careful engineer.")


def handing_off(file: Path, *, window_tokens: int = 4_000) -> Config:
    return Config(store=str(file), model_context_window=window_tokens, compact_strategy="handoff")


def reading(speech: Speech, number: int) -> list[Json]:
    """A call whose output nearly fills the window by itself."""
    return [speech.call(f"x{number}"), speech.output(f"x{number}", f"row of listing {number}\n" * 900)]


async def test_a_turn_a_hand_off_and_a_turn(tk: Threadkeep, speech: Speech) -> None:
    """The request ends with the prompt; the next turn sees what was said, the summary and the new message, and no answer."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 6)
    async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.carry_out(Order(strategy="handoff", model=model), head=HEAD)
    async with thread.turn([speech.said("Go on.")]) as begun:
        window = await begun.window()
    (body,) = model.bodies
    assert sent(body)[:-1] == turns(speech, 1, 6)
    assert "another model can take over" in str(sent(body)[-1])
    assert "You are a careful engineer." in str(body)
    assert "You are a careful engineer." not in str(sent(body))
    assert await seen(thread) == [*asked(speech, 1, 6), STATE, speech.said("Go on.")]
    assert "another model can take over" not in str(list(window))
    assert len(await of_kind(thread, RecordKind.TURN)) == 7


async def test_three_compactions_in_one_turn_leave_context_request_and_the_newest_summary(
    store_file: Path, speech: Speech
) -> None:
    """Each continuation is the same two messages and one summary; the older ones are gone, having been shown to the next."""
    async with Threadkeep(handing_off(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        incoming = [context(speech, "/src"), speech.said("Read the listings.")]
        summaries = [f"Listing {number} was read." for number in (1, 2, 3)]
        async with (
            ScriptedModel([says(text) for text in summaries], dialect=speech.dialect, window_tokens=ROOM) as model,
            thread.turn(incoming, model=model, head=HEAD) as begun,
        ):
            for number, summary in enumerate(summaries, start=1):
                await begun.record(reading(speech, number))
                window = await begun.window()
                assert await seen(thread) == [*incoming, STATE]
                assert [text in str(list(window)) for text in summaries] == [text == summary for text in summaries]
        assert [older in str(body) for older, body in zip(summaries, model.bodies[1:], strict=False)] == [True, True]
        assert [(made.phase, made.strategy) for made in await checkpoints(thread)] == [("mid_turn", "handoff")] * 3
        assert len(await of_kind(thread, RecordKind.TURN)) == 1


async def test_in_the_middle_of_a_turn_its_calls_and_outputs_are_in_the_request(store_file: Path, speech: Speech) -> None:
    """What the model did in this turn is what it summarises; what goes on is context, request and summary."""
    async with Threadkeep(handing_off(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        incoming = [context(speech, "/src"), speech.said("Read the listing.")]
        async with (
            ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model,
            thread.turn(incoming, model=model) as begun,
        ):
            await begun.record(reading(speech, 1))
            await begun.window()
        assert str(sent(model.bodies[0])).count("row of listing 1") == 900
        assert await seen(thread) == [*incoming, STATE]


async def test_a_turn_that_ended_over_the_limit_compacts_once_when_the_next_begins(store_file: Path, speech: Speech) -> None:
    """Not at its own end: the model is asked once, at the start of the next turn, which then has all that was said."""
    async with Threadkeep(handing_off(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            for number in range(1, 15):
                await thread.record(turn(speech, number), model=model.name)
            assert await checkpoints(thread) == []
            async with thread.turn([speech.said("Go on.")], model=model) as begun:
                assert not (await begun.window()).pressure.must_compact
        assert await seen(thread) == [*asked(speech, 1, 14), STATE, speech.said("Go on.")]
        assert [made.phase for made in await checkpoints(thread)] == ["pre_turn"]


async def test_what_the_provider_counted_compacts_the_first_turn_after_a_restart_and_not_before(
    store_file: Path, speech: Speech
) -> None:
    """A window that looks small and was counted large is still over its limit after a restart; opening it changes nothing."""
    async with Threadkeep(handing_off(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 6)
        assert not (await thread.window()).pressure.must_compact
        await thread.record_usage(input_tokens=3_900, output_tokens=20)
    async with Threadkeep(handing_off(store_file)) as again:
        resumed = await again.thread("t")
        assert await checkpoints(resumed) == []
        async with (
            ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model,
            resumed.turn([speech.said("Go on.")], model=model) as begun,
        ):
            await begun.window()
        assert await seen(resumed) == [*asked(speech, 1, 6), STATE, speech.said("Go on.")]


async def test_with_the_prefix_uncharged_growth_is_counted_anew_after_a_compaction(store_file: Path, speech: Speech) -> None:
    """The provider's first count in the new window is its prefix; only what comes after it fills the limit again."""
    config = Config(
        store=str(store_file),
        model_context_window=100_000,
        model_auto_compact_token_limit=1_500,
        model_auto_compact_token_limit_scope="body_after_prefix",
    )
    async with Threadkeep(config) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 20)
        await thread.record_usage(input_tokens=(await thread.window()).tokens, output_tokens=10)
        await thread.compact()
        tokens = (await thread.window()).tokens
        await thread.record_usage(input_tokens=tokens, output_tokens=10)
        due: list[bool] = []
        for number in range(21, 29):
            await thread.record(turn(speech, number))
            due.append((await thread.window()).pressure.must_compact)
    assert due == sorted(due)
    assert (due[0], due[-1]) == (False, True)


async def test_sealed_thoughts_fill_the_window(tk: Threadkeep) -> None:
    """Encrypted reasoning counts at what is inside its envelope, wherever it stands, until the provider's count says better."""
    speech = SPEECHES[0]
    thread = await tk.thread("t", dialect="responses")
    due: list[bool] = []
    for number in range(6):
        thought = {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAA" * 1_500}
        await thread.record([speech.said(f"Step {number}."), thought, speech.answered("Done.")])
        due.append((await thread.window()).pressure.must_compact)
    assert due == [False, False, False, True, True, True]


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote"])
async def test_compacting_a_thread_without_anything_asks_nobody(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """There is nothing to compact, which is said; no request is made for it, and nothing recorded."""
    thread = await tk.thread("t", dialect=speech.dialect)
    records = await thread.records()
    async with ScriptedRemoteModel([], dialect=speech.dialect, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact):
            await thread.compact(strategy=strategy, model=model)
    assert await thread.records() == records


@pytest.mark.parametrize("strategy", ["session", "handoff", "remote"])
async def test_compacting_what_only_a_host_said_asks_nobody(tk: Threadkeep, speech: Speech, strategy: str) -> None:
    """Host context stays in any case; without a word of a person or an answer there is nothing to put in its place."""
    thread = await tk.thread("t", dialect=speech.dialect)
    told = [context(speech, "/src " * 400), speech.said("<user_instructions>Run the linter.</user_instructions>")]
    await thread.record(told)
    async with ScriptedRemoteModel([], dialect=speech.dialect, window_tokens=ROOM) as model:
        with pytest.raises(NothingToCompact):
            await thread.compact(strategy=strategy, model=model)
    assert await seen(thread) == told


@pytest.mark.parametrize("phase", ["standalone_turn", "mid_turn"])
@pytest.mark.parametrize("strategy", ["session", "handoff", "remote", "extractive"])
async def test_instructions_told_at_the_beginning_stay_as_they_were_told(
    tk: Threadkeep, speech: Speech, strategy: str, phase: str
) -> None:
    """Whatever became of their file since: byte for byte, once, through two compactions."""
    skip_unless_offered(speech, strategy)
    rules = speech.said("# AGENTS.md instructions for /src\n\n<INSTRUCTIONS>\nRun the linter.\n</INSTRUCTIONS>")
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([rules, context(speech, "/src")])
    steps: dict[str, list[Step]] = {
        "session": [says(block(handoff="go on"))] * 2,
        "handoff": [says(SUMMARY)] * 2,
        "remote": [Compacts(items=(opaque(speech, number),)) for number in (1, 2)],
    }
    async with ScriptedRemoteModel(steps.get(strategy, []), dialect=speech.dialect, window_tokens=ROOM) as model:
        asking = None if strategy == "extractive" else model
        for first in (1, 9):
            await play(thread, speech, first, first + 7)
            trigger = "manual" if phase == "standalone_turn" else "auto"
            await thread.carry_out(Order(strategy=strategy, model=asking, phase=phase, trigger=trigger))  # type: ignore[arg-type]  # as a test names them
            shown = await seen(thread)
            assert [shown.count(rules), shown.count(context(speech, "/src")), shown.count(STATE)] == [1, 1, 1]


async def test_a_summary_that_stood_in_the_middle_is_replaced(tk: Threadkeep, speech: Speech) -> None:
    """A message waited when the first was written, so that it stands before it; the second takes its place, at the end."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 7)
    await thread.record([turn(speech, 8)[0]])
    steps = [says("First summary."), says("Second summary.")]
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy="handoff", model=model)
        assert await seen(thread) == [*asked(speech, 1, 7), STATE, turn(speech, 8)[0]]
        await thread.record(turn(speech, 8)[1:])
        await play(thread, speech, 9, 16)
        await thread.compact(strategy="handoff", model=model)
    assert await seen(thread) == [*asked(speech, 1, 16), STATE]
    assert "First summary." not in str(list(await thread.window()))


@pytest.mark.parametrize("strategy", [None, "default", "session"])
async def test_session_comes_before_the_providers_own_compaction(tk: Threadkeep, speech: Speech, strategy: str | None) -> None:
    """By hand and before a turn alike, a model whose provider could compact by itself is asked an ordinary question."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    steps: list[Step] = [says(block(handoff="go on"))] * 2
    async with ScriptedRemoteModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        await thread.compact(strategy=strategy, model=model)
        await play(thread, speech, 15, 29)
        async with thread.turn([speech.said("Go on.")], model=model) as begun:
            await begun.window()
    assert [(made.strategy, made.trigger) for made in await checkpoints(thread)] == [("session", "manual"), ("session", "auto")]


async def test_forks_compact_by_the_configured_strategy(store_file: Path, speech: Speech) -> None:
    """What is configured holds for every thread of a store, whenever and however it began."""
    async with Threadkeep(handing_off(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 8)
        fork = await thread.fork(new_id="fork")
        async with ScriptedModel([says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
            assert (await fork.compact(model=model)).strategy == "handoff"
        assert await seen(thread) == turns(speech, 1, 8)


async def test_after_a_compaction_its_own_estimate_counts_until_the_provider_counts(tk: Threadkeep, speech: Speech) -> None:
    """The report, the window and its pressure say the same; what asking cost is the provider's figure, with the attempt."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    async with ScriptedModel(
        [says(SUMMARY, input_tokens=0, output_tokens=0)], dialect=speech.dialect, window_tokens=ROOM
    ) as model:
        report = await thread.compact(strategy="handoff", model=model)
    window = await thread.window()
    assert (window.tokens, window.pressure.tokens) == (report.tokens_after, report.tokens_after)
    assert 0 < report.tokens_after < report.tokens_before
    assert [attempt.input_tokens for attempt in report.attempts] == [0]


async def test_a_failed_attempt_leaves_nothing_for_the_next_to_find(tk: Threadkeep, speech: Speech) -> None:
    """A reply that was refused is in no record, no window and no later request."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    refused = "stray words of a reply that was no draft\n" * 60
    async with ScriptedModel([says(refused), says(SUMMARY)], dialect=speech.dialect, window_tokens=ROOM) as model:
        assert (await thread.compact(strategy="handoff", model=model)).strategy == "extractive"
        await play(thread, speech, 9, 16)
        assert (await thread.compact(strategy="handoff", model=model)).strategy == "handoff"
    assert "stray words" not in str(model.bodies[1])
    assert "stray words" not in str(list(await thread.window()))
    assert not any(b"stray words" in record.body for record in await thread.records())
