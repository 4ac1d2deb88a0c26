"""Turns that end in any way, or in none: what a reader sees of them afterwards, and that a provider accepts what is left."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.histories import RESPONSES as RESPONSES_DIALECT
from tests.histories import answered, call, output, reasoning, said
from tests.parity.vocabulary import Json, Speech, config, crashed_copy
from tests.threads.agent import recorded, refusal, run_turn

from threadkeep import Config, Threadkeep
from threadkeep.errors import OrdinalConflict
from threadkeep.threads.lease import TURN_LEASE_MS
from threadkeep.threads.turn_state import TurnState
from threadkeep.threads.window import close_open_calls

if TYPE_CHECKING:
    from tests.conftest import ManualClock

pytestmark = pytest.mark.anyio

STOPS = ["opened", "tools", "one of two outputs", "sampling", "committed", "closed", "aborted"]
EXPECTED = {"one of two outputs": "tools"}


async def left(tk: Threadkeep, speech: Speech, stop: str) -> None:
    """Play a turn up to a state and leave it there, as a process that dies would."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await run_turn(thread, speech, [speech.said("Before.")], [speech.answered("Yes.")])
    scope = thread.turn([speech.said("Go.")])
    turn = await scope.__aenter__()
    await turn.window()
    steps: list[tuple[str, list[Json]]] = [
        ("opened", []),
        ("tools", [speech.call("a")]),
        ("sampling", [speech.output("a")]),
        ("one of two outputs", [speech.call("b"), speech.output("b"), speech.call("c")]),
        ("committed", [speech.output("c"), speech.answered("Done.")]),
    ]
    for state, items in steps:
        if items:
            await turn.record(items)
        if state == stop:
            return
    if stop == "closed":
        await scope.__aexit__(None, None, None)
    else:
        await scope.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)


@pytest.mark.parametrize("stop", STOPS)
async def test_a_reader_after_a_crash_knows_where_the_turn_stands(
    tmp_path: Path, store_file: Path, clock: ManualClock, speech: Speech, stop: str
) -> None:
    """Whatever was left, the copy of the file says in which state, and what was sent next is accepted."""
    async with Threadkeep(config(store_file), clock=clock) as tk:
        await left(tk, speech, stop)
        copy = crashed_copy(store_file, tmp_path / "copy.db")
    clock.ms += TURN_LEASE_MS
    async with Threadkeep(config(copy), clock=clock) as after:
        thread = await after.thread("t", dialect=speech.dialect)
        states = [turn.state for turn in await thread.turns()]
        assert states == [TurnState.CLOSED, TurnState(EXPECTED.get(stop, stop))]
        before = await recorded(thread)
        resumed: list[Json] = [] if stop in ("committed", "closed") else [speech.answered("Resumed.")]
        if resumed:
            await run_turn(thread, speech, [], resumed)
        await run_turn(thread, speech, [speech.said("Next.")], [speech.answered("Well.")])
        added = [*resumed, speech.said("Next."), speech.answered("Well.")]
        assert await recorded(thread) == [*before, *added], "what closes a call is shown and never recorded"
        assert (await after.verify()).problems == ()


async def test_a_turn_left_without_a_mark_is_over_once_another_follows(tk: Threadkeep, speech: Speech) -> None:
    """Closed where its answer was there, else aborted."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("One."), speech.answered("1.")])
    await thread.record([speech.said("Two."), speech.call("c")])
    await thread.record([speech.said("Three.")])
    states = [turn.state for turn in await thread.turns()]
    assert states == [TurnState.CLOSED, TurnState.ABORTED, TurnState.OPENED]


async def test_an_unfinished_turn_goes_on_where_it_was_left(tk: Threadkeep, speech: Speech) -> None:
    """Without input, the turn is the same one, and mail joins it like any turn under way."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Go."), speech.call("c"), speech.output("c")])
    await thread.deliver("hurry", sender="lead")
    await run_turn(thread, speech, [], [speech.answered("Done.")])
    assert [(turn.number, turn.opened_by, turn.state) for turn in await thread.turns()] == [(1, "", TurnState.CLOSED)]
    assert (await thread.mail()).pending == ()


async def test_an_output_that_comes_late_takes_the_place_of_the_aborted_one(tk: Threadkeep, speech: Speech) -> None:
    """A tool that outlives the interruption is heard all the same, right behind its call."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([speech.said("Go."), speech.call("c"), speech.said("Never mind.")])
    shown = await thread.window()
    assert "aborted" in str(shown)
    assert refusal(speech.dialect, shown) is None
    await thread.record([speech.output("c", "late result")])
    shown = await thread.window()
    assert ("aborted" in str(shown), "late result" in str(shown)) == (False, True)
    assert refusal(speech.dialect, shown) is None


async def test_a_call_under_way_is_left_alone_until_it_is_sent(tk: Threadkeep) -> None:
    """Whoever only looks sees the call waiting."""
    thread = await tk.thread("t")
    await thread.record([said("Go."), call("c")])
    assert list(await thread.window()) == [said("Go."), call("c")]
    assert list(await thread.window(to_send=True)) == [said("Go."), call("c"), output("c", "aborted")]


def test_only_what_is_broken_is_changed() -> None:
    """Pairs and thoughts that are whole stay as they are; one that led to nothing is left out, an output without call stays."""
    whole = [said("a"), reasoning("1"), call("c"), call("d"), output("d"), output("c"), reasoning("2"), answered("b")]
    broken = [said("x"), reasoning("3"), said("y"), output("z"), reasoning("4")]
    parsed = [RESPONSES_DIALECT.parse(item) for item in (*whole, *broken)]
    shown = close_open_calls(parsed, dialect=RESPONSES_DIALECT, under_way=False)
    assert shown == [RESPONSES_DIALECT.parse(item) for item in (*whole, said("x"), said("y"), output("z"))]
    assert close_open_calls(parsed, dialect=RESPONSES_DIALECT, under_way=True)[-1] == parsed[-1]


async def test_mail_never_makes_a_writer_stale_and_a_rival_always_does(tk: Threadkeep) -> None:
    """Deliveries and marks move the tip and not the history: who runs the turn records on; who recorded items wins."""
    mine, other = await tk.thread("t"), await tk.thread("t")
    await mine.record([said("Go.")])
    await other.deliver("hello", sender="x")
    await mine.record([answered("Going.")])
    await other.record([said("Stop.")])
    with pytest.raises(OrdinalConflict):
        await mine.record([answered("Gone.")])
    assert await recorded(mine) == [said("Go."), answered("Going."), said("Stop.")]


async def test_usage_is_noted_although_mail_comes_in(tk: Threadkeep) -> None:
    """What a provider counted is beside the history, and mail beside it does no harm."""
    thread = await tk.thread("t")
    async with thread.turn([said("Go.")]) as turn:
        await turn.window()
        await (await tk.thread("t")).deliver("hello")
        await turn.record([answered("Done.")], usage={"input_tokens": 10, "output_tokens": 2})
    assert await recorded(thread) == [said("Go."), answered("Done.")]


async def test_the_smallest_record_of_a_thread_still_tells_how_its_turns_ended(store_file: Path) -> None:
    """What `limited` keeps is enough for the mailbox and for every state."""
    async with Threadkeep(Config(store=str(store_file), persistence="limited")) as tk:
        thread = await tk.thread("t")
        await thread.deliver("first", sender="a", mail_id="1")
        async with thread.turn([]) as turn:
            await turn.window()
            await turn.record([answered("Heard.")], usage={"input_tokens": 10, "output_tokens": 2})
        with pytest.raises(ConnectionError):
            async with thread.turn([said("Go.")]):
                raise ConnectionError
    async with Threadkeep(Config(store=str(store_file), persistence="limited")) as tk:
        thread = await tk.thread("t")
        assert [turn.state for turn in await thread.turns()] == [TurnState.CLOSED, TurnState.ABORTED]
        assert ((await thread.mail()).pending, (await thread.deliver("first", mail_id="1")).is_new) == ((), False)
