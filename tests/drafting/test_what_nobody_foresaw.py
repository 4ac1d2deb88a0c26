"""Models that break their contract, name no limit or stop in the middle of a word: the ladder goes on, and it is on record."""

from __future__ import annotations

import logging

import pytest
from tests.drafting.replies import SUMMARY, block
from tests.parity.vocabulary import Speech, checkpoints, play

from threadkeep import Threadkeep
from threadkeep.dialects import Request
from threadkeep.errors import CompactionRunning, UnknownStrategy
from threadkeep.testing.scripted_model import Overflows, ScriptedModel, Step, runs_out, says
from threadkeep.tokens import estimate_bytes

pytestmark = pytest.mark.anyio

ROOM = 200_000


@pytest.mark.parametrize("raised", [ConnectionError("gone"), KeyError("choices"), ValueError("not a number")], ids=repr)
async def test_a_model_that_raises_what_it_may_not_costs_no_turn(
    tk: Threadkeep, speech: Speech, raised: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The turn goes on with a window made without it; the attempt and its kind are on record, and in the log."""

    def breaks(request: Request) -> Step:
        raise raised

    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    model = ScriptedModel([breaks], dialect=speech.dialect, window_tokens=ROOM)
    with caplog.at_level(logging.WARNING):
        async with thread.turn([speech.said("Go on.")], model=model) as begun:
            window = await begun.window()
    (made,) = await checkpoints(thread)
    assert (window.trouble, window.pressure.must_compact) == (None, False)
    assert [(each.strategy, each.outcome) for each in made.attempts] == [("session", "unforeseen"), ("extractive", "taken")]
    assert type(raised).__name__ in caplog.text


async def test_after_an_overflow_that_names_no_limit_what_is_sent_is_clearly_smaller(tk: Threadkeep, speech: Speech) -> None:
    """However large the model's window was thought to be: half of what was refused, not half of what was assumed."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 40)
    sizes: list[int] = []

    def small(request: Request) -> Step:
        sizes.append(sum(estimate_bytes(len(item.raw)) for item in request.items))
        return Overflows() if sizes[-1] > 8_000 else says(block(handoff="go on"))

    model = ScriptedModel([small] * 12, dialect=speech.dialect, window_tokens=10 * ROOM)
    report = await thread.compact(strategy="session", model=model)
    assert report.strategy == "session"
    assert sizes[0] > 8_000
    assert max(sizes[1:]) < 0.7 * sizes[0]


async def test_a_hand_off_cut_off_in_the_middle_is_none(tk: Threadkeep, speech: Speech) -> None:
    """Half a number is another number: the next rung is taken."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    async with ScriptedModel([runs_out(f"{SUMMARY} The port is 46")], dialect=speech.dialect, window_tokens=ROOM) as model:
        report = await thread.compact(strategy="handoff", model=model)
    assert [(each.strategy, each.outcome) for each in report.attempts] == [("handoff", "cut_off"), ("extractive", "taken")]
    assert "The port is 46" not in str(list(await thread.window()))


async def test_a_strategy_there_is_none_of_breaks_off_nothing(tk: Threadkeep, speech: Speech) -> None:
    """It is refused before anything else is looked at, a draft under way among it."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 10)
    async with thread.turn([speech.said("Hello.")]) as begun:
        await begun.window()
        await begun.record([speech.answered("Done.")])
    with pytest.raises(UnknownStrategy):
        await thread.compact(strategy="sesion")
    assert await thread.upkeep_is_over()
    assert (await thread.window()).checkpoint is not None


async def test_a_rehearsal_needs_nobody_to_stand_aside(tk: Threadkeep, speech: Speech) -> None:
    """It writes nothing, so another worker's compaction is no hindrance; a compaction in earnest is."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 14)
    now = tk.backend.clock.now_ms()
    assert await tk.backend.store.acquire("compact:t", holder="another", now_ms=now, ttl_ms=3_600_000)
    assert (await thread.compact(dry_run=True)).checkpoint is None
    with pytest.raises(CompactionRunning):
        await thread.compact()
