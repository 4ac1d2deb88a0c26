"""What counts against a model and what does not; and what gained nothing is not paid for twice."""

from __future__ import annotations

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import Speech, play

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.fallback import FAILURES_IN_A_ROW, REST_MS, Breaker
from threadkeep.testing.scripted_model import Rejected, ScriptedModel, Step, says

pytestmark = pytest.mark.anyio

ROOM = 200_000
HUGE = "Review this text: " + "lorem ipsum dolor " * 830
# Too long to gain anything from eight turns, and short enough for a summary.
GAINS_NOTHING = says(" ".join(f"word{number}" for number in range(3_600)))
# More than a model of 3,500 tokens is told in forty parts.
MANY_WORDS = "word " * 4_000


async def outcome(thread: Thread, model: ScriptedModel, *, strategy: str = "handoff") -> str:
    return (await thread.compact(strategy=strategy, model=model)).attempts[0].outcome


async def test_a_draft_that_gains_nothing_is_no_failure_of_the_model(tk: Threadkeep, speech: Speech) -> None:
    """However often that happens, the next thread is drafted by the same model."""
    steps: list[Step] = [*[GAINS_NOTHING] * (FAILURES_IN_A_ROW + 1), says(SUMMARY)]
    outcomes: list[str] = []
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        for number in range(len(steps)):
            thread = await tk.thread(f"t{number}", dialect=speech.dialect)
            await play(thread, speech, 1, 8)
            outcomes.append(await outcome(thread, model))
    assert outcomes == ["nothing_to_compact"] * (FAILURES_IN_A_ROW + 1) + ["taken"]


async def test_what_a_model_is_never_asked_is_no_failure_of_it(tk: Threadkeep, speech: Speech) -> None:
    """A span with more parts than are asked for says something about the span; other threads are drafted."""
    big = await tk.thread("big", dialect=speech.dialect)
    await big.record([speech.said("Begin.")])
    for number in range(40):
        await big.record([speech.answered(MANY_WORDS), speech.said(f"Go on with {number}."), speech.answered("Yes.")])
    small = await tk.thread("small", dialect=speech.dialect)
    await play(small, speech, 1, 4)
    answers: list[Step] = [says(block(handoff="go on"))] * 20
    model = ScriptedModel(answers, dialect="responses" if speech.dialect == "chat" else "chat", window_tokens=3_500)
    asked_too_much = [
        (await big.compact(strategy="session", model=model, dry_run=True)).attempts[0].outcome for _ in range(FAILURES_IN_A_ROW)
    ]
    assert asked_too_much == ["too_many_parts"] * FAILURES_IN_A_ROW
    assert await outcome(small, model, strategy="session") == "taken"


async def test_an_answer_between_failures_begins_the_count_anew(tk: Threadkeep, speech: Speech) -> None:
    """Failures in a row are what counts: a model that answers, whatever comes of it, is there."""
    steps: list[Step] = [Rejected(), Rejected(), GAINS_NOTHING, Rejected(), Rejected(), says(SUMMARY)]
    outcomes: list[str] = []
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        for number in range(len(steps)):
            thread = await tk.thread(f"t{number}", dialect=speech.dialect)
            await play(thread, speech, 1, 8)
            outcomes.append(await outcome(thread, model))
    failed = "model_rejected"
    assert outcomes == [failed, failed, "nothing_to_compact", failed, failed, "taken"]


def test_what_a_rehearsal_finds_out_counts_for_nobody() -> None:
    """It leaves out what rests, and lets nothing rest."""
    breaker = Breaker()
    for _ in range(FAILURES_IN_A_ROW):
        breaker.failed("session", "down", now_ms=0)
    rehearsal = breaker.rehearsal()
    for _ in range(FAILURES_IN_A_ROW):
        rehearsal.failed("session", "other", now_ms=0)
    rehearsal.succeeded("session", "down")
    rehearsal.futility.found(("t", "session"), tokens=100)
    assert [each.is_open("session", "other", now_ms=1) for each in (rehearsal, breaker)] == [True, False]
    assert [breaker.is_open("session", "down", now_ms=now) for now in (REST_MS - 1, REST_MS)] == [True, False]
    assert not breaker.futility.holds(("t", "session"), tokens=100)


async def test_a_turn_pays_once_for_a_draft_that_gains_nothing(tk: Threadkeep, speech: Speech) -> None:
    """While one huge message fills the window, each request goes out as it is, and the model drafts once."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    model = ScriptedModel([says(block(handoff="go on"))], dialect=speech.dialect, window_tokens=ROOM)
    async with thread.turn([speech.said(HUGE)], model=model) as turn:
        for number in range(3):
            assert "nothing to compact" in ((await turn.window()).trouble or "")
            await turn.record([speech.call(f"c{number}"), speech.output(f"c{number}", "ok")])
    assert len(model.requests) == 1


async def test_what_gained_nothing_is_drafted_again_once_something_can_be_gained(tk: Threadkeep, speech: Speech) -> None:
    """A window that did not grow may still have changed: the huge message is done with, and the model drafts its end."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    steps: list[Step] = [says(block(handoff="go on"))] * 2
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        async with thread.turn([speech.said(HUGE)], model=model) as turn:
            assert (await turn.window()).trouble is not None
            await turn.record([speech.answered("It is filler text.")])
        async with thread.turn([speech.said("Then leave it out.")], model=model) as turn:
            assert (await turn.window()).trouble is None


async def test_a_dry_run_counts_for_nobody(tk: Threadkeep, speech: Speech) -> None:
    """Three rehearsals in which the model fails do not let it rest."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 8)
    steps: list[Step] = [*[Rejected()] * FAILURES_IN_A_ROW, says(SUMMARY)]
    async with ScriptedModel(steps, dialect=speech.dialect, window_tokens=ROOM) as model:
        for _ in range(FAILURES_IN_A_ROW):
            await thread.compact(strategy="handoff", model=model, dry_run=True)
        assert await outcome(thread, model) == "taken"
