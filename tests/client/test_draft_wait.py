"""No turn waits for a model's draft longer than a bound: then the window is compacted without one, and the draft is dropped."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.client.test_background import LONG, Pending, near_the_limit, one_turn
from tests.parity.vocabulary import ROOM, SPEECHES, Speech, checkpoints, config, play

from threadkeep import Thread, Threadkeep
from threadkeep.compaction.fallback import Deadline
from threadkeep.testing.scripted_model import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.fixture(params=SPEECHES, ids=[speech.dialect for speech in SPEECHES])
def speech(request: pytest.FixtureRequest) -> Speech:
    found: Speech = request.param
    return found


def impatient(store_file: Path, **settings: object) -> Threadkeep:
    return Threadkeep(replace(config(store_file), compact_wait_s=0, **settings))  # type: ignore[arg-type]  # settings by their names


async def attempts(thread: Thread) -> list[list[tuple[str, str, int]]]:
    return [[(each.strategy, each.outcome, each.calls) for each in made.attempts] for made in await checkpoints(thread)]


async def test_a_hanging_draft_beside_the_turns_holds_none_up(store_file: Path, speech: Speech) -> None:
    """The turn that needs the room makes it without the model; what was asked is on the bill of its checkpoint."""
    draft = Pending()
    async with impatient(store_file) as tk, ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        thread = await near_the_limit(tk, speech)
        await one_turn(thread, speech, model=model)
        await draft.begun.wait()
        async with thread.turn([speech.said(LONG)], model=model) as turn:
            window = await turn.window()
        assert (window.trouble, window.pressure.must_compact) == (None, False)
        first, *later = await attempts(thread)
        assert first == [("session", "timed_out", 1), ("extractive", "taken", 0)]
        assert all(each[-1][0] == "extractive" for each in later)


async def test_a_draft_that_comes_too_late_changes_nothing(store_file: Path, speech: Speech) -> None:
    """It was dropped: no record is added for it, and no window tells what it said."""
    draft = Pending()
    async with impatient(store_file) as tk, ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        thread = await near_the_limit(tk, speech)
        await one_turn(thread, speech, model=model)
        await draft.begun.wait()
        async with thread.turn([speech.said(LONG)], model=model) as turn:
            await turn.window()
            before = await thread.records()
            draft.go.set()
            await thread.upkeep_is_over()
            assert await thread.records() == before
            assert "go on" not in str(list(await turn.window()))


async def test_a_draft_asked_for_at_the_hard_limit_is_bounded_too(store_file: Path, speech: Speech) -> None:
    """Where there is no time to wait at all, the model is not asked in the first place."""
    async with impatient(store_file) as tk, ScriptedModel([], dialect=speech.dialect, window_tokens=ROOM) as model:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 14)
        async with thread.turn([speech.said(LONG)], model=model) as turn:
            window = await turn.window()
        assert window.trouble is None
        assert await attempts(thread) == [[("session", "no_time", 0), ("extractive", "taken", 0)]]


async def test_a_person_who_asks_for_a_draft_waits_for_it(store_file: Path, speech: Speech) -> None:
    """The bound is for turns, which nobody asked to wait."""
    draft = Pending()
    draft.go.set()
    async with impatient(store_file) as tk, ScriptedModel([draft], dialect=speech.dialect, window_tokens=ROOM) as model:
        thread = await near_the_limit(tk, speech)
        assert (await thread.compact(model=model)).strategy == "session"


async def test_a_deadline_set_later_ends_what_is_under_way() -> None:
    """It never moves back, and what begins after it does not last."""
    deadline, other = Deadline(), Deadline()
    begun = asyncio.Event()

    async def hang() -> None:
        async with deadline.timed(3_600):
            begun.set()
            await asyncio.Event().wait()

    hanging = asyncio.create_task(hang())
    await begun.wait()
    deadline.follow(other)
    assert [each.has_passed for each in (deadline, other)] == [False, False]
    other.set(seconds=0)
    deadline.follow(other)
    with pytest.raises(TimeoutError):
        await hanging
    deadline.set(seconds=3_600)
    assert deadline.has_passed
    with pytest.raises(TimeoutError):
        await hang()
