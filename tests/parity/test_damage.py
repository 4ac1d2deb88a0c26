"""One bad record never hides the others: the thread opens, the rest is read, and `verify` names what is broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.parity.vocabulary import STATE, Speech, config, damage_body, of_kind, play, said_in, seen, tamper, turn, turns

from threadkeep import Thread, Threadkeep
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio


async def store_with_three_threads(file: Path, speech: Speech) -> dict[RecordKind, int]:
    """Make a compacted thread `t`, its fork `c` and a bystander `o`; return where `t` has its last record of each kind."""
    async with Threadkeep(config(file)) as tk:
        thread = await tk.thread("t", dialect=speech.dialect)
        await play(thread, speech, 1, 4)
        await thread.compact()
        await thread.record_usage(input_tokens=600, output_tokens=9)
        await play(thread, speech, 5, 6)
        fork = await thread.fork(new_id="c")
        await play(fork, speech, 7, 7)
        await play(await tk.thread("o", dialect=speech.dialect), speech, 8, 9)
        return {record.kind: record.ordinal for record in await thread.records()}


async def windows_are_whole(tk: Threadkeep, speech: Speech) -> bool:
    """Whether every thread shows what it showed before anything was damaged."""
    expected = {
        "t": [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 6)],
        "c": [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 7)],
        "o": turns(speech, 8, 9),
    }
    return {name: await seen(await tk.thread(name)) for name in expected} == expected


async def problems(tk: Threadkeep) -> set[tuple[str, str]]:
    return {(str(problem.pointer), problem.code) for problem in (await tk.verify()).problems}


async def test_a_damaged_header_costs_no_window(store_file: Path, speech: Speech) -> None:
    """Name, dialect and parent are in the thread's own row too: windows, turns, forks and rollbacks are what they were."""
    await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", 0)
    async with Threadkeep(config(store_file)) as tk:
        assert await windows_are_whole(tk, speech)
        assert ("t#0", "bad_digest") in await problems(tk)
        thread = await tk.thread("t")
        await thread.record(turn(speech, 10))
        await thread.rollback(turns=2)
        assert await seen(thread) == [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 5)]
        assert await seen(await thread.fork(before_turn=2)) == turn(speech, 1)


async def test_a_lost_header_costs_no_window(store_file: Path, speech: Speech) -> None:
    """Even without the record a thread begins with it opens whole, its fork too, and the gap is named."""
    await store_with_three_threads(store_file, speech)
    tamper(store_file, "DELETE FROM record WHERE kind = 'meta'")
    async with Threadkeep(config(store_file)) as tk:
        assert await windows_are_whole(tk, speech)
        assert ("t#0", "gap") in await problems(tk)
        assert {summary.id: summary.parent for summary in await tk.threads()} == {"t": None, "c": "t", "o": None}


@pytest.mark.parametrize("kind", [RecordKind.META, RecordKind.TURN, RecordKind.CHECKPOINT])
async def test_a_damaged_record_hides_no_thread_from_the_list(store_file: Path, speech: Speech, kind: RecordKind) -> None:
    """Every thread is listed, the damaged one among them."""
    await store_with_three_threads(store_file, speech)
    async with Threadkeep(config(store_file)) as tk:
        first = (await of_kind(await tk.thread("t"), kind))[0].ordinal
    damage_body(store_file, "t", first)
    async with Threadkeep(config(store_file)) as tk:
        assert {summary.id for summary in await tk.threads()} == {"t", "c", "o"}


async def test_a_body_that_cannot_be_unpacked_hides_no_other_record(store_file: Path, speech: Speech) -> None:
    """Every thread is listed, every record is there, and originals beside it are found by their words."""
    where = await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", where[RecordKind.ITEM], packed=True)
    async with Threadkeep(config(store_file)) as tk:
        thread = await tk.thread("t")
        assert max(record.ordinal for record in await thread.records()) >= where[RecordKind.ITEM]
        assert {summary.id for summary in await tk.threads()} == {"t", "c", "o"}
        assert await thread.recall("parser") != []


async def test_a_thread_with_a_damaged_header_can_be_named_and_put_away(store_file: Path, speech: Speech) -> None:
    """A new header takes the damaged one's place."""
    await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", 0)
    async with Threadkeep(config(store_file)) as tk:
        thread = await tk.thread("t")
        assert not await thread.is_archived()
        await thread.rename("The parser")
        await thread.archive()
        assert await thread.is_archived()


async def test_damaged_figures_cost_no_window(store_file: Path, speech: Speech) -> None:
    """What an answer taught is forgotten; the window is whole, and the thread compacts."""
    where = await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", where[RecordKind.REPLY])
    async with Threadkeep(config(store_file)) as tk:
        assert await windows_are_whole(tk, speech)
        assert (await (await tk.thread("t")).compact(target="1")).checkpoint is not None


async def test_a_damaged_item_costs_the_window_that_item_alone(store_file: Path, speech: Speech) -> None:
    """The items beside it are shown as ever."""
    where = await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", where[RecordKind.ITEM])
    async with Threadkeep(config(store_file)) as tk:
        window = list(await (await tk.thread("t")).window())
    # Where roles must alternate the first request is one message with the state.
    assert "Please look into part 4 of the parser." in str(window)
    assert [item for item in turns(speech, 4, 6)[1:-1] if item not in window] == []


async def test_a_damaged_item_is_named_and_every_other_record_read(store_file: Path, speech: Speech) -> None:
    """Its own record and link are the problems; bystanders show what they showed, and originals are recalled."""
    where = await store_with_three_threads(store_file, speech)
    broken = where[RecordKind.ITEM]
    async with Threadkeep(config(store_file)) as tk:
        bodies = {record.ordinal: record.body for record in await (await tk.thread("t")).records()}
    damage_body(store_file, "t", broken)
    async with Threadkeep(config(store_file)) as tk:
        thread = await tk.thread("t")
        assert await problems(tk) == {(f"t#{broken}", "bad_digest"), (f"t#{broken}", "bad_chain")}
        found = {record.ordinal: record.body for record in await thread.records()}
        assert {ordinal for ordinal, body in found.items() if body != bodies[ordinal]} == {broken}
        assert await seen(await tk.thread("o")) == turns(speech, 8, 9)
        assert [hit.text for hit in await thread.recall("#2")] == ["Please look into part 1 of the parser."]
        await thread.rollback(turns=1)
        assert await seen(thread) == [STATE, *said_in(speech, 2, 3), *turns(speech, 4, 5)]


async def test_a_damaged_checkpoint_is_named_and_can_be_undone(store_file: Path, speech: Speech) -> None:
    """What it replaced is still there: undone, the thread shows its whole history, and its fork with it."""
    where = await store_with_three_threads(store_file, speech)
    damage_body(store_file, "t", where[RecordKind.CHECKPOINT])
    async with Threadkeep(config(store_file)) as tk:
        assert (f"t#{where[RecordKind.CHECKPOINT]}", "bad_digest") in await problems(tk)
        for name, last in (("t", 6), ("c", 7)):
            thread: Thread = await tk.thread(name)
            assert await thread.undo() == where[RecordKind.CHECKPOINT]
            assert await seen(thread) == turns(speech, 1, last)


async def test_a_fork_whose_parent_is_lost_keeps_what_is_its_own(store_file: Path, speech: Speech) -> None:
    """Its own turn is shown, `verify` says that its history does not follow, and bystanders are whole."""
    await store_with_three_threads(store_file, speech)
    tamper(store_file, "DELETE FROM thread WHERE name = 't'")
    async with Threadkeep(config(store_file)) as tk:
        fork = await tk.thread("c")
        assert await seen(fork) == turn(speech, 7)
        assert {code for pointer, code in await problems(tk) if pointer.startswith("c#")} == {"bad_chain"}
        assert await seen(await tk.thread("o")) == turns(speech, 8, 9)
