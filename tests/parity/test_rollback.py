"""Rollback takes back what it says: persons' turns, with all that belongs to them, across any number of checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.vocabulary import STATE, Speech, add_aside, config, context, play, said_in, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.client import Window
from threadkeep.errors import InvalidTarget

pytestmark = pytest.mark.anyio


def facts(window: Window) -> tuple[object, ...]:
    """Return everything a window says."""
    return list(window), window.tokens, window.checkpoint, window.pressure, window.cache_key


async def test_taking_back_a_turn_after_a_compaction_keeps_what_the_compaction_left(tk: Threadkeep, speech: Speech) -> None:
    """Host context, state and kept turn are the window again, and the next turn goes on from them."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/src"), *turns(speech, 1, 4)])
    await thread.compact()
    compacted = [context(speech, "/src"), STATE, *said_in(speech, 2, 3), *turn(speech, 4)]
    assert await seen(thread) == compacted
    await thread.record(turn(speech, 5))
    await thread.rollback(turns=1)
    assert await seen(thread) == compacted
    await thread.record(turn(speech, 6))
    assert await seen(thread) == [*compacted, *turn(speech, 6)]


async def test_taking_back_the_turn_that_compacted_brings_the_earlier_turns_back_in_full(tk: Threadkeep, speech: Speech) -> None:
    """Three turns, a compaction before the third is worked on, one turn back: the next request holds turns 1 and 2, uncut."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    async with thread.turn(turn(speech, 3)[:1]) as begun:
        await thread.compact(target="1")
        assert await seen(thread) == [STATE, turn(speech, 3)[0]]
        await begun.record(turn(speech, 3)[1:])
    await thread.rollback(turns=1)
    assert await seen(thread) == turns(speech, 1, 2)
    await thread.record(turn(speech, 4))
    assert await seen(thread) == [*turns(speech, 1, 2), *turn(speech, 4)]


async def test_of_several_checkpoints_the_newest_that_survives_is_the_base(tk: Threadkeep, speech: Speech) -> None:
    """Those in turns taken back are neither base nor cut: window, tokens and pressure are what they were before."""
    thread = await tk.thread("t", dialect=speech.dialect)
    seen_before: list[tuple[object, ...]] = []
    for first in (1, 5, 9):
        await play(thread, speech, first, first + 2)
        seen_before.append(facts(await thread.window()))
        await thread.record(turn(speech, first + 3)[:1])
        await thread.compact()
        await thread.record(turn(speech, first + 3)[1:])
    for turns_back, expected in ((1, seen_before[2]), (4, seen_before[1]), (4, seen_before[0])):
        await thread.rollback(turns=turns_back)
        assert facts(await thread.window()) == expected
    assert await seen(thread) == turns(speech, 1, 3)


async def test_a_compaction_inside_a_turn_cut_off_and_taken_back_leaves_no_trace(tk: Threadkeep, speech: Speech) -> None:
    """The older host context counts again, and the next compaction pins that one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turns(speech, 1, 3)])
    before = facts(await thread.window())
    await thread.record([context(speech, "/new"), *turn(speech, 4)[:2]])
    await thread.compact(target="1")
    assert await seen(thread) == [context(speech, "/new"), STATE, *turn(speech, 4)[:2]]
    await thread.rollback(turns=1)
    assert facts(await thread.window()) == before
    await play(thread, speech, 5, 5)
    await thread.compact()
    assert await seen(thread) == [context(speech, "/old"), STATE, *said_in(speech, 2, 3), *turn(speech, 5)]


@pytest.mark.parametrize("complete", [True, False])
async def test_a_turn_taken_back_takes_its_items_context_and_figures_with_it(
    tk: Threadkeep, speech: Speech, *, complete: bool
) -> None:
    """Ended or cut off, everything it brought is gone at once, and its records can still be read."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/old"), *turn(speech, 1)])
    await thread.record_usage(input_tokens=600, output_tokens=9)
    before = facts(await thread.window())
    items = turn(speech, 2) if complete else turn(speech, 2)[:2]
    async with thread.turn([context(speech, "/new"), items[0]]) as begun:
        await begun.record(items[1:], usage={"input_tokens": 9_000, "output_tokens": 9})
    recorded = await thread.records()
    assert facts(await thread.window()) != before
    await thread.rollback(turns=1)
    assert facts(await thread.window()) == before
    assert (await thread.records())[:-1] == recorded


async def test_only_what_a_person_said_counts_as_a_turn(tk: Threadkeep, speech: Speech) -> None:
    """Host messages, outputs, answers and asides with the gateway are taken back with the turn they followed, uncounted."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    await thread.record([context(speech, "/elsewhere")])
    await thread.record([speech.answered("I went on by myself."), speech.call("x1"), speech.output("x1")])
    await thread.record([speech.said("<user_shell_command>ls</user_shell_command>")])
    await add_aside(tk, thread, speech.said("/compact"))
    await add_aside(tk, thread, speech.answered("Not compacted."))
    thread = await tk.thread("t")
    await thread.record([speech.answered("Still here.")])
    await thread.rollback(turns=1)
    assert await seen(thread) == turn(speech, 1)


async def test_turns_are_counted_alike_after_a_restart(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """A resumed thread takes back a person's turns and skips what is none, through a checkpoint."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await thread.compact()
    await play(thread, speech, 5, 5)
    await thread.record([speech.answered("One more thing."), speech.call("x"), speech.output("x")])
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        await resumed.rollback(turns=1)
        assert await seen(resumed) == [STATE, *said_in(speech, 2, 3), *turn(speech, 4)]
        await resumed.rollback(turns=1)
        assert await seen(resumed) == turns(speech, 1, 3)


async def test_taking_back_every_turn_takes_back_everything(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """Items, host context, checkpoints and figures are gone; the thread goes on as if it were new."""
    thread = await tk.thread("t", dialect=speech.dialect)
    empty = facts(await thread.window())
    await thread.record([context(speech, "/src"), *turn(speech, 1)])
    await play(thread, speech, 2, 4)
    await thread.compact()
    await thread.record_usage(input_tokens=5_000, output_tokens=1)
    await thread.rollback(turns=4)
    assert facts(await thread.window()) == empty
    with pytest.raises(InvalidTarget):
        await thread.rollback(turns=1)
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        await resumed.record(turn(speech, 9))
        assert await seen(resumed) == turn(speech, 9)


async def test_what_stood_before_the_first_turn_stays(tk: Threadkeep, speech: Speech) -> None:
    """A greeting, and the host context before it, belong to no turn."""
    thread = await tk.thread("t", dialect=speech.dialect)
    opening = [context(speech, "/src"), speech.answered("Hello, I am ready.")]
    await thread.record(opening)
    await play(thread, speech, 1, 3)
    await thread.rollback(turns=3)
    assert await seen(thread) == opening


async def test_a_second_rollback_counts_the_turns_that_are_left(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """Turns taken back before are not taken back again, however many rollbacks and checkpoints lie between."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await thread.rollback(turns=1)
    await thread.record(turn(speech, 5))
    await thread.compact()
    await play(thread, speech, 6, 7)
    await thread.rollback(turns=2)
    assert await seen(thread) == [STATE, *said_in(speech, 2, 3), *turn(speech, 5)]
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        await resumed.rollback(turns=2)
        assert await seen(resumed) == turns(speech, 1, 2)
        await resumed.record(turn(speech, 8))
        await resumed.rollback(turns=1)
        assert await seen(resumed) == turns(speech, 1, 2)
        assert (await again.verify()).problems == ()


async def test_a_compaction_after_a_rollback_knows_nothing_of_what_was_taken_back(tk: Threadkeep, speech: Speech) -> None:
    """What a person said in a turn taken back is in no state made later, and what they said instead is."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    await thread.record([speech.said("Always deploy to the staging cluster."), speech.answered("Noted.")])
    await thread.compact(target="1")
    await thread.rollback(turns=1)
    await thread.record([speech.said("Never deploy anything."), speech.answered("Noted.")])
    await play(thread, speech, 3, 4)
    await thread.compact()
    told = " ".join(entry.text for entry in (await thread.state()).entries)
    assert ("staging cluster" in told, "Never deploy anything." in told) == (False, True)
