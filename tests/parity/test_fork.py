"""A fork begins where it was asked to, sees what stood before that place, and nobody notices what it does."""

from __future__ import annotations

import pytest
from tests.parity.vocabulary import STATE, Speech, context, of_kind, play, said_in, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.errors import InvalidTarget
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def test_a_fork_begins_before_or_after_any_turn(tk: Threadkeep, speech: Speech) -> None:
    """Before the first it is empty, after the last it is whole, and host context goes with the turn it led up to."""
    thread = await tk.thread("t", dialect=speech.dialect)
    told = {number: [context(speech, f"/{number}"), *turn(speech, number)] for number in (1, 2, 3)}
    for items in told.values():
        await thread.record(items)
    for number in told:
        earlier = [item for at in range(1, number) for item in told[at]]
        assert await seen(await thread.fork(before_turn=number)) == earlier
        assert await seen(await thread.fork(after_turn=number)) == [*earlier, *told[number]]
    assert await seen(await thread.fork()) == [*told[1], *told[2], *told[3]]


async def test_a_fork_at_a_record_holds_what_stands_before_it(tk: Threadkeep, speech: Speech) -> None:
    """Every record of the thread is a place to begin at."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    items = await of_kind(thread, RecordKind.ITEM)
    for index, record in enumerate(items):
        assert await seen(await thread.fork(at=record.ordinal)) == turns(speech, 1, 2)[:index]
        assert await seen(await thread.fork(at=record.ordinal + 1)) == turns(speech, 1, 2)[: index + 1]


async def test_a_fork_in_the_middle_of_a_turn_answers_the_open_call_in_its_own_way(tk: Threadkeep, speech: Speech) -> None:
    """The call is open in the fork, and stays through a compaction until the fork records its output."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    await thread.record(turn(speech, 4)[:2])
    fork = await thread.fork(new_id="c")
    await thread.record(turn(speech, 4)[2:])
    await fork.compact(target="1")
    assert await seen(fork) == [STATE, *turn(speech, 4)[:2]]
    await fork.record([speech.output("c4", "no such file"), speech.answered("There is no part 4.")])
    own = [*turn(speech, 4)[:2], speech.output("c4", "no such file"), speech.answered("There is no part 4.")]
    assert await seen(fork) == [STATE, *own]
    assert await seen(thread) == turns(speech, 1, 4)
    await fork.rollback(turns=1)
    assert await seen(fork) == turns(speech, 1, 3)


async def test_a_turn_that_is_not_there_is_refused(tk: Threadkeep, speech: Speech) -> None:
    """Unknown turns, records beyond the end and two places at once are named as such, and no thread comes of them."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    end = (await thread.records())[-1].ordinal + 1
    for number in (-1, 0, 3, 99):
        with pytest.raises(InvalidTarget):
            await thread.fork(before_turn=number)
        with pytest.raises(InvalidTarget):
            await thread.fork(after_turn=number)
    for at in (-1, 0, end + 1, 10**9):
        with pytest.raises(InvalidTarget):
            await thread.fork(at=at)
    with pytest.raises(InvalidTarget):
        await thread.fork(before_turn=1, after_turn=1)
    assert [summary.id for summary in await tk.threads()] == ["t"]


async def test_a_turn_taken_back_is_refused_until_its_number_is_used_again(tk: Threadkeep, speech: Speech) -> None:
    """Numbers are those of the live path; the records left behind are no place to begin at."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    left_behind = (await of_kind(thread, RecordKind.TURN))[1].ordinal
    await thread.rollback(turns=2)
    for number in (2, 3):
        with pytest.raises(InvalidTarget):
            await thread.fork(before_turn=number)
        with pytest.raises(InvalidTarget):
            await thread.fork(after_turn=number)
    for at in (left_behind + 1, left_behind + 3):
        with pytest.raises(InvalidTarget):
            await thread.fork(at=at)
    await thread.record(turn(speech, 7))
    assert await seen(await thread.fork(after_turn=2)) == [*turn(speech, 1), *turn(speech, 7)]
    assert await seen(await thread.fork(before_turn=2)) == turn(speech, 1)


async def test_turns_to_fork_at_are_those_of_persons(tk: Threadkeep, speech: Speech) -> None:
    """What hosts, tools and the model put between two requests belongs to the earlier one."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    between = [speech.answered("Going on."), speech.call("x"), speech.output("x"), speech.answered("Done by myself.")]
    await thread.record(between)
    await play(thread, speech, 2, 2)
    assert await seen(await thread.fork(before_turn=2)) == [*turn(speech, 1), *between]
    assert await seen(await thread.fork(after_turn=1)) == [*turn(speech, 1), *between]


async def test_a_fork_before_a_checkpoint_is_uncompacted_and_one_after_it_is_compacted(tk: Threadkeep, speech: Speech) -> None:
    """The record of the compaction decides, not the span it replaced."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    checkpoint = (await thread.compact()).checkpoint
    assert checkpoint is not None
    await play(thread, speech, 5, 5)
    assert await seen(await thread.fork(before_turn=3)) == turns(speech, 1, 2)
    assert await seen(await thread.fork(at=checkpoint)) == turns(speech, 1, 4)
    assert await seen(await thread.fork(at=checkpoint + 1)) == [STATE, *said_in(speech, 2, 3), *turn(speech, 4)]
    assert await seen(await thread.fork()) == [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 5)]


async def test_forks_of_forks_roll_back_each_on_its_own(tk: Threadkeep, speech: Speech) -> None:
    """Rollbacks in three generations, some past where a fork begins, leave every other generation as it was."""
    oldest = await tk.thread("oldest", dialect=speech.dialect)
    await play(oldest, speech, 1, 4)
    await oldest.rollback(turns=1)
    middle = await oldest.fork(new_id="middle")
    await play(middle, speech, 5, 7)
    await middle.compact()
    await middle.rollback(turns=1)
    assert await seen(middle) == [*turns(speech, 1, 3), *turns(speech, 5, 6)]
    youngest = await middle.fork(new_id="youngest")
    await play(youngest, speech, 8, 8)
    await youngest.rollback(turns=4)
    assert await seen(youngest) == turns(speech, 1, 2)
    await youngest.record(turn(speech, 9))
    await youngest.rollback(turns=2)
    assert await seen(youngest) == turn(speech, 1)
    assert await seen(middle) == [*turns(speech, 1, 3), *turns(speech, 5, 6)]
    assert await seen(oldest) == turns(speech, 1, 3)
    assert (await tk.verify()).problems == ()


async def test_a_fork_compacts_undoes_and_rolls_back_unnoticed(tk: Threadkeep, speech: Speech) -> None:
    """The parent's records and window stay what they were; the parent's own checkpoint can be undone in the fork alone."""
    parent = await tk.thread("t", dialect=speech.dialect)
    await play(parent, speech, 1, 4)
    await parent.compact()
    window, records = list(await parent.window()), await parent.records()
    fork = await parent.fork(new_id="c")
    await play(fork, speech, 5, 8)
    await fork.compact()
    await fork.undo()
    await fork.undo()
    assert await seen(fork) == turns(speech, 1, 8)
    await fork.rollback(turns=6)
    assert await seen(fork) == turns(speech, 1, 2)
    assert (list(await parent.window()), await parent.records()) == (window, records)


async def test_a_line_of_many_forks_is_one_history(tk: Threadkeep, speech: Speech) -> None:
    """Twenty generations, a turn each: the last sees them all, and takes back fifteen of them."""
    thread = await tk.thread("g0", dialect=speech.dialect)
    await play(thread, speech, 1, 1)
    for number in range(2, 21):
        thread = await thread.fork(new_id=f"g{number}")
        await thread.record(turn(speech, number))
    assert await seen(thread) == turns(speech, 1, 20)
    await thread.rollback(turns=15)
    assert await seen(thread) == turns(speech, 1, 5)
    assert (await tk.verify(thread)).problems == ()
