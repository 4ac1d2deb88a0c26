"""Rollback, fork, undo and resume, across any number of checkpoints."""

from __future__ import annotations

import pytest
from tests.histories import Json, answered, said, turn, turns

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import InvalidTarget, InvalidThreadId, NotEnoughTurns, NothingToUndo, ThreadExists
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def window(thread: Thread) -> list[Json]:
    return list(await thread.window())


async def play(thread: Thread, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await thread.record(turn(number))


async def ordinals(thread: Thread, kind: RecordKind) -> list[int]:
    return [record.ordinal for record in await thread.records() if record.kind is kind]


async def test_rolling_back_a_turn_that_compacted_brings_the_earlier_turns_back_in_full(tk: Threadkeep) -> None:
    """Three turns, a compaction in the third, one turn back: turns 1 and 2, uncut."""
    thread = await tk.thread("t")
    await play(thread, 1, 2)
    await thread.record(turn(3)[:1])
    await thread.compact()
    await thread.record(turn(3)[1:])
    await thread.rollback(turns=1)
    assert await window(thread) == turns(1, 2)


async def test_rolling_back_to_before_the_second_checkpoint_uses_the_first(tk: Threadkeep) -> None:
    """The surviving checkpoint is base and cut; the dropped one is neither."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    await play(thread, 5, 6)
    before = await window(thread)
    await play(thread, 7, 8)
    await thread.compact()
    await play(thread, 9, 9)
    await thread.rollback(turns=3)
    assert await window(thread) == before


async def test_rolling_back_past_every_checkpoint_and_going_on(tk: Threadkeep) -> None:
    """What was left behind leaves no trace in what comes after."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    await play(thread, 5, 8)
    await thread.compact()
    await thread.rollback(turns=7)
    await thread.record(turn(20))
    assert await window(thread) == [*turn(1), *turn(20)]
    assert (await tk.verify()).problems == ()


async def test_a_rollback_of_a_rollback_counts_the_turns_that_are_left(tk: Threadkeep) -> None:
    """Turns are counted on the live path, not in the file."""
    thread = await tk.thread("t")
    await play(thread, 1, 3)
    await thread.rollback(turns=1)
    await thread.record(turn(4))
    await thread.rollback(turns=2)
    assert await window(thread) == turn(1)
    assert [record.turn for record in await thread.records()][-1] == 1


@pytest.mark.parametrize("asked", [4, 99])
async def test_more_turns_than_there_are_are_refused(tk: Threadkeep, asked: int) -> None:
    """The error says how many there are, and nothing changed; turns that were taken back before do not count."""
    thread = await tk.thread("t")
    await thread.record([answered("Hello, I am ready.")])
    await play(thread, 1, 4)
    await thread.compact()
    await thread.rollback(turns=1)
    before = await window(thread), await thread.records()
    with pytest.raises(NotEnoughTurns, match=f"thread 't': has 3 turns, so {asked} cannot be taken back; name a number up to 3"):
        await thread.rollback(turns=asked)
    assert (await window(thread), await thread.records()) == before


async def test_a_rollback_can_be_taken_back_and_so_can_that(tk: Threadkeep) -> None:
    """The window is what it was, through checkpoints; the thread goes on from there, and turns are numbered on."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    await play(thread, 5, 6)
    before = await window(thread)
    rollback = (await thread.rollback(turns=4)).at
    assert (rollback, await window(thread)) == ((await ordinals(thread, RecordKind.TURN))[2], turns(1, 2))
    (first,) = await ordinals(thread, RecordKind.ROLLBACK)
    assert (await thread.undo_rollback(), await window(thread)) == (first, before)
    second = (await ordinals(thread, RecordKind.ROLLBACK))[-1]
    assert (await thread.undo_rollback(), await window(thread)) == (second, turns(1, 2))
    await thread.undo_rollback()
    await thread.record(turn(7))
    assert await window(thread) == [*before, *turn(7)]
    assert [record.turn for record in await thread.records() if record.kind is RecordKind.TURN] == [1, 2, 3, 4, 5, 6, 7]
    assert (await tk.verify()).problems == ()


async def test_a_rollback_is_not_taken_back_once_the_thread_went_on(tk: Threadkeep) -> None:
    """What was said since would be lost; a thread without a rollback, and a fork of one with it, have none to take back."""
    thread = await tk.thread("t")
    await play(thread, 1, 3)
    with pytest.raises(NothingToUndo):
        await thread.undo_rollback()
    await thread.rollback(turns=1)
    fork = await thread.fork(new_id="fork")
    with pytest.raises(NothingToUndo):
        await fork.undo_rollback()
    await thread.record(turn(4))
    with pytest.raises(NothingToUndo, match="thread 't' has no rollback to undo, or something was recorded since"):
        await thread.undo_rollback()
    assert await window(thread) == [*turns(1, 2), *turn(4)]


async def test_all_turns_can_be_taken_back(tk: Threadkeep) -> None:
    """What stands before the first turn stays; a second attempt has nothing to take."""
    thread = await tk.thread("t")
    await thread.record([answered("Hello, I am ready.")])
    await play(thread, 1, 3)
    await thread.rollback(turns=3)
    assert await window(thread) == [answered("Hello, I am ready.")]
    with pytest.raises(NotEnoughTurns, match="has no turn to take back"):
        await thread.rollback(turns=1)


@pytest.mark.parametrize("count", [0, -1])
async def test_fewer_than_one_turn_cannot_be_taken_back(tk: Threadkeep, count: int) -> None:
    """The thread is what it was."""
    thread = await tk.thread("t")
    await play(thread, 1, 1)
    with pytest.raises(InvalidTarget):
        await thread.rollback(turns=count)
    assert await window(thread) == turn(1)


async def test_undo_restores_the_exact_window_again_and_again(tk: Threadkeep) -> None:
    """Each undo takes back one compaction; when none is left, undo says so."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    first = await window(thread)
    await thread.compact()
    await play(thread, 5, 8)
    second = await window(thread)
    await thread.compact()
    await thread.undo()
    assert await window(thread) == second
    await thread.undo()
    assert await window(thread) == [*first, *turns(5, 8)]
    with pytest.raises(NothingToUndo):
        await thread.undo()


async def test_rolling_back_the_turn_of_an_undo_takes_the_undo_back_too(tk: Threadkeep) -> None:
    """The window is again the one the turn began with."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    compacted = await window(thread)
    await thread.record(turn(5))
    await thread.undo()
    assert await window(thread) == turns(1, 5)
    await thread.rollback(turns=1)
    assert await window(thread) == compacted


async def test_compacting_after_an_undo_makes_a_checkpoint_that_counts(tk: Threadkeep) -> None:
    """A cancelled checkpoint does not stand in the way of the next."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    compacted = await window(thread)
    await thread.undo()
    await thread.compact()
    assert await window(thread) == compacted


async def test_a_fork_appends_compacts_and_rolls_back_without_the_parent_noticing(tk: Threadkeep) -> None:
    """The parent's records and window are what they were, byte for byte."""
    parent = await tk.thread("p")
    await play(parent, 1, 4)
    before, records = await window(parent), await parent.records()
    child = await parent.fork(new_id="c")
    await play(child, 5, 8)
    await child.compact()
    await child.rollback(turns=6)
    assert await window(child) == turns(1, 2)
    assert (await window(parent), await parent.records()) == (before, records)
    await parent.record(turn(9))
    assert await window(child) == turns(1, 2)
    assert (await tk.verify()).problems == ()


async def test_a_fork_before_a_checkpoint_sees_the_uncompacted_history(tk: Threadkeep) -> None:
    """And one after it sees the compacted one."""
    parent = await tk.thread("p")
    await play(parent, 1, 4)
    await parent.compact()
    await play(parent, 5, 5)
    after = await parent.fork(new_id="after")
    before = await parent.fork(before_turn=3, new_id="before")
    assert await window(after) == await window(parent)
    assert await window(before) == turns(1, 2)


async def test_forks_of_forks_share_everything_before_they_part(tk: Threadkeep) -> None:
    """Three generations, each with its own compaction, each undone in the youngest."""
    grandparent = await tk.thread("g")
    await play(grandparent, 1, 4)
    await grandparent.compact()
    parent = await grandparent.fork(new_id="p")
    await play(parent, 5, 8)
    await parent.compact()
    child = await parent.fork(new_id="c")
    await play(child, 9, 12)
    await child.compact()
    for _ in range(3):
        await child.undo()
    assert await window(child) == turns(1, 12)
    assert len(await window(parent)) < len(turns(1, 8))
    with pytest.raises(NothingToUndo):
        await child.undo()
    assert (await tk.verify()).problems == ()


async def test_a_fork_rolls_back_past_its_own_beginning_into_its_parent(tk: Threadkeep) -> None:
    """Turns of the parent count like its own, even those two forks away."""
    parent = await tk.thread("p")
    await play(parent, 1, 4)
    child = await parent.fork(new_id="c")
    await play(child, 5, 5)
    youngest = await child.fork(new_id="y")
    await play(youngest, 6, 6)
    await youngest.rollback(turns=4)
    assert await window(youngest) == turns(1, 2)
    await youngest.record(turn(30))
    late = await youngest.fork(before_turn=3, new_id="l")
    assert await window(late) == turns(1, 2)
    assert await window(await youngest.fork(before_turn=2, new_id="m")) == turn(1)
    assert await window(parent) == turns(1, 4)
    assert (await tk.verify()).problems == ()


async def test_a_fork_inside_an_abandoned_segment_is_refused(tk: Threadkeep) -> None:
    """A record that was rolled back cannot be gone on from; neither can one that does not exist yet."""
    thread = await tk.thread("t")
    await play(thread, 1, 3)
    turn_starts = await ordinals(thread, RecordKind.TURN)
    await thread.rollback(turns=2)
    for at in (turn_starts[1] + 2, turn_starts[2] + 1, 0, -3, 10_000):
        with pytest.raises(InvalidTarget):
            await thread.fork(at=at)
    with pytest.raises(InvalidTarget):
        await thread.fork(before_turn=3)
    with pytest.raises(InvalidTarget):
        await thread.fork(at=1, before_turn=1)
    assert await window(await thread.fork(at=turn_starts[1], new_id="ok")) == turn(1)


async def test_a_fork_needs_a_name_that_can_be_pointed_at(tk: Threadkeep) -> None:
    """A name no pointer can write would make every later state of the fork unreadable."""
    thread = await tk.thread("t")
    await play(thread, 1, 1)
    for name in ("two words", "a#b", "-dash", "x" * 129):
        with pytest.raises(InvalidThreadId):
            await thread.fork(new_id=name)
    with pytest.raises(ThreadExists):
        await thread.fork(new_id="t")


async def test_a_thread_resumed_after_closing_is_the_thread_it_was(tk: Threadkeep, store_file: object) -> None:
    """Windows, turns and the next compaction come from the records alone."""
    thread = await tk.thread("t")
    await play(thread, 1, 4)
    await thread.compact()
    child = await thread.fork(new_id="c")
    await play(child, 5, 6)
    await child.rollback(turns=1)
    expected = (await window(thread), await window(child), await child.state())
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000)) as again:
        resumed, forked = await again.thread("t"), await again.thread("c")
        assert (await window(resumed), await window(forked), await forked.state()) == expected
        await forked.undo()
        assert await window(forked) == turns(1, 5)


async def test_a_request_recorded_after_a_rollback_has_the_next_turn_number(tk: Threadkeep) -> None:
    """Numbers on a live path run 1, 2, 3, whatever was left behind."""
    thread = await tk.thread("t")
    await play(thread, 1, 3)
    await thread.rollback(turns=2)
    await thread.record([said("Again.")])
    assert (await thread.records())[-1].turn == 2
