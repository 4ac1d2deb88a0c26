"""A thread that is closed, killed or left in the middle of a turn is, when it is opened again, the thread it was."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.vocabulary import STATE, Speech, config, context, crashed_copy, of_kind, play, said_in, seen, turn, turns

from threadkeep import Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def test_the_window_after_a_compaction_begins_every_later_one(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """Resumed or forked, the thread sends the compacted window again, item for item, and then what came after."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await thread.compact()
    compacted = list(await thread.window())
    fork = await thread.fork(new_id="c")
    async with Threadkeep(config(store_file)) as again:
        resumed = await again.thread("t")
        await resumed.record(turn(speech, 5))
        assert list(await resumed.window()) == [*compacted, *turn(speech, 5)]
    await fork.record(turn(speech, 6))
    assert list(await fork.window()) == [*compacted, *turn(speech, 6)]
    assert await seen(fork) == [STATE, *said_in(speech, 2, 3), *turn(speech, 4), *turn(speech, 6)]


async def test_compacted_resumed_forked_compacted_and_resumed_it_keeps_its_course(store_file: Path, speech: Speech) -> None:
    """The window is one state, what was said and the newest turn; the state has every request of either life."""
    async with Threadkeep(config(store_file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 4)
        await thread.compact()
    async with Threadkeep(config(store_file)) as tk:
        resumed = await tk.thread("t")
        await resumed.record(turn(speech, 5))
        fork = await resumed.fork(new_id="c")
        await play(fork, speech, 6, 8)
        await fork.compact()
        compacted = list(await fork.window())
    async with Threadkeep(config(store_file)) as tk:
        fork, parent = await tk.thread("c"), await tk.thread("t")
        assert list(await fork.window()) == compacted
        assert await seen(fork) == [STATE, *said_in(speech, *range(2, 8)), *turn(speech, 8)]
        told = [entry.text for entry in (await fork.state()).entries]
        asked = [f"Please look into part {number} of the parser." for number in range(1, 8)]
        assert [text for text in told if text in asked] == asked
        assert await seen(parent) == [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 5)]
        assert (await tk.verify()).problems == ()


async def test_a_killed_process_leaves_the_windows_it_had(
    tk: Threadkeep, store_file: Path, tmp_path: Path, speech: Speech
) -> None:
    """What lies on disk while nobody closed anything opens with every compaction, undo, rollback and fork in force."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    await thread.compact()
    await play(thread, speech, 5, 8)
    await thread.compact()
    await thread.undo()
    await thread.rollback(turns=1)
    fork = await thread.fork(new_id="c")
    await play(fork, speech, 9, 9)
    expected = (list(await thread.window()), list(await fork.window()))
    async with Threadkeep(config(crashed_copy(store_file, tmp_path / "after.db"))) as again:
        assert (list(await (await again.thread("t")).window()), list(await (await again.thread("c")).window())) == expected
        assert await seen(await again.thread("c")) == [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 7), *turn(speech, 9)]
        assert (await again.verify()).problems == ()


async def test_a_turn_cut_off_by_a_crash_is_there_as_far_as_it_came(
    tk: Threadkeep, store_file: Path, tmp_path: Path, speech: Speech
) -> None:
    """Its host context, its request and its open call are the end of the window, and the call can still be answered."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/first"), *turn(speech, 1)])
    begun = [context(speech, "/second"), *turn(speech, 2)[:2]]
    await thread.record(begun)
    async with Threadkeep(config(crashed_copy(store_file, tmp_path / "after.db"))) as again:
        resumed = await again.thread("t")
        assert await seen(resumed) == [context(speech, "/first"), *turn(speech, 1), *begun]
        await resumed.record(turn(speech, 2)[2:])
        assert await seen(resumed) == [context(speech, "/first"), *turn(speech, 1), context(speech, "/second"), *turn(speech, 2)]


async def test_a_turn_that_compacted_and_was_cut_off_by_a_crash_keeps_its_context_and_request(
    tk: Threadkeep, store_file: Path, tmp_path: Path, speech: Speech
) -> None:
    """The newest host context, the state and the request being worked on are all there is, and all that is needed."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await thread.record([context(speech, "/first"), *turns(speech, 1, 3)])
    await thread.record([context(speech, "/second"), turn(speech, 4)[0]])
    await thread.compact(target="1")
    async with Threadkeep(config(crashed_copy(store_file, tmp_path / "after.db"))) as again:
        resumed = await again.thread("t")
        assert await seen(resumed) == [context(speech, "/second"), STATE, turn(speech, 4)[0]]
        await resumed.record(turn(speech, 4)[1:])
        assert await seen(resumed) == [context(speech, "/second"), STATE, *turn(speech, 4)]


async def test_a_turn_that_begins_before_a_compacted_one_ended_goes_on_from_its_checkpoint(
    tk: Threadkeep, speech: Speech
) -> None:
    """Nothing marks the end of the older turn; its checkpoint and its request count all the same."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 3)
    await thread.record([context(speech, "/src"), speech.said("Rename the lexer.")])
    await thread.compact(target="1")
    await thread.record([speech.said("No, rename the parser.")])
    expected = [context(speech, "/src"), STATE, speech.said("Rename the lexer."), speech.said("No, rename the parser.")]
    assert await seen(thread) == expected
    await thread.rollback(turns=1)
    assert await seen(thread) == expected[:-1]


async def test_records_that_are_no_items_leave_the_window_alone(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """Figures, a title, an archiving: none of them is shown to a model, before or after a restart."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 2)
    await thread.record_usage(input_tokens=700, output_tokens=9)
    await thread.rename("The parser")
    await thread.archive()
    await thread.record(turn(speech, 3))
    assert await seen(thread) == turns(speech, 1, 3)
    async with Threadkeep(config(store_file)) as again:
        assert await seen(await again.thread("t")) == turns(speech, 1, 3)


async def test_the_window_says_which_checkpoint_it_rests_on(tk: Threadkeep, store_file: Path, speech: Speech) -> None:
    """None at first, then the newest that survives: through a restart, a rollback and an undo."""
    thread = await tk.thread("t", dialect=speech.dialect)
    await play(thread, speech, 1, 4)
    assert (await thread.window()).checkpoint is None
    first = (await thread.compact()).checkpoint
    await play(thread, speech, 5, 8)
    second = (await thread.compact()).checkpoint
    assert [record.ordinal for record in await of_kind(thread, RecordKind.CHECKPOINT)] == [first, second]
    async with Threadkeep(config(store_file)) as again:
        assert (await (await again.thread("t")).window()).checkpoint == second
    await thread.rollback(turns=2)
    assert (await thread.window()).checkpoint == first
    await thread.undo()
    assert (await thread.window()).checkpoint is None
