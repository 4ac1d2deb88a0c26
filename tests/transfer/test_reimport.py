"""Importing again adds only what is new, and content decides what that is."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.transfer.rollouts import THREAD, bodies, bring_in, event, item, line, meta, put, spoken, turn, user, window, written

from threadkeep import Config, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.transfer.importer import Importer

pytestmark = pytest.mark.anyio

SUMMARY = line("compacted", {"message": "s", "replacement_history": [user("s")]})


async def test_nothing_is_added_twice(tk: Threadkeep, tmp_path: Path) -> None:
    """The same content under another name, with rollbacks and compactions in it, adds nothing."""
    lines = [meta(), *turn(1), SUMMARY, *turn(2), event("thread_rolled_back", num_turns=1), *turn(3)]
    await bring_in(tk, put(tmp_path / "a.jsonl", *lines))
    before = (await tk.find(THREAD)).id, await (await tk.find(THREAD)).records()
    report = await bring_in(tk, put(tmp_path / "elsewhere" / "b.txt.jsonl", *lines))
    assert [(thread.id, thread.added) for thread in report.threads] == [(THREAD, 0)]
    assert ((await tk.find(THREAD)).id, await (await tk.find(THREAD)).records()) == before


async def test_what_was_added_to_a_file_is_added_to_its_thread(tk: Threadkeep, tmp_path: Path) -> None:
    """The thread goes on where it ended."""
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1)))
    report = await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1), SUMMARY, *turn(2)))
    assert [(thread.id, thread.added) for thread in report.threads] == [(THREAD, len(turn(2)) + 3)]
    assert await window(tk, THREAD) == [user("s"), *spoken(2)]
    assert (await tk.verify()).ok


async def test_an_import_that_was_cut_goes_on_where_it_stopped(tk: Threadkeep, tmp_path: Path) -> None:
    """At every line: what a first, shorter import left behind is completed to the same records."""
    lines = [meta(), *turn(1), SUMMARY, *turn(2), event("thread_rolled_back", num_turns=1), *turn(3)]
    await bring_in(tk, put(tmp_path / "whole.jsonl", *lines))
    whole = [record.body for record in await (await tk.find(THREAD)).records()]
    for stop in range(1, len(lines)):
        async with Threadkeep(Config(store="memory:")) as other:
            await bring_in(other, put(tmp_path / "cut.jsonl", *lines[:stop]))
            await bring_in(other, tmp_path / "whole.jsonl")
            assert [record.body for record in await (await other.find(THREAD)).records()] == whole


async def test_a_thread_compacted_here_takes_what_its_file_adds(tk: Threadkeep, tmp_path: Path) -> None:
    """A checkpoint of our own is looked past: new lines stand after it, and the window is the compacted one with them."""
    long = [each for number in range(1, 40) for each in turn(number)]
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *long))
    thread = await tk.find(THREAD)
    await thread.compact(target="30%")
    compacted = await window(tk, THREAD)
    report = await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *long, *turn(40)))
    assert [thread.id for thread in report.threads] == [THREAD]
    assert await window(tk, THREAD) == [*compacted, *spoken(40)]
    again = await bring_in(tk, tmp_path / "a.jsonl")
    assert [thread.added for thread in again.threads] == [0]
    assert (await tk.verify()).ok


async def test_a_thread_that_went_on_here_is_left_alone(tk: Threadkeep, tmp_path: Path) -> None:
    """Items recorded after an import are this store's own; what the file adds becomes a fork from where they part."""
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1)))
    await (await tk.find(THREAD)).record([user("said here")])
    report = await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1), *turn(2)))
    fork = report.threads[0].id
    assert fork.startswith(f"{THREAD}-")
    assert await window(tk, THREAD) == [*spoken(1), user("said here")]
    assert await window(tk, fork) == [*spoken(1), *spoken(2)]
    again = await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1), *turn(2), *turn(3)))
    assert [(thread.id, thread.added) for thread in again.threads] == [(fork, len(turn(3)) + 1)]
    assert (await tk.verify()).ok


async def test_two_files_of_one_name_that_differ_are_two_threads(tk: Threadkeep, tmp_path: Path) -> None:
    """The second shares what is the same and forks at the first line that is not."""
    await bring_in(tk, put(tmp_path / "a.jsonl", meta(), *turn(1), *turn(2)))
    report = await bring_in(tk, put(tmp_path / "b.jsonl", meta(), *turn(1), *turn(3)))
    fork = report.threads[0].id
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]
    assert await window(tk, fork) == [*spoken(1), *spoken(3)]
    assert (await tk.backend.store.get(fork)).parent == THREAD


async def test_a_growing_file_is_followed(tk: Threadkeep, tmp_path: Path) -> None:
    """Only what changed is read; a last line that is still being written waits; a thread compacted meanwhile is no obstacle."""
    path = put(tmp_path / "a.jsonl", meta(), *turn(1))
    importer = Importer(tk.backend, growing=True)
    await importer.run([path])
    assert (await importer.run([path])).threads == ()
    more = written(*turn(2))
    path.write_bytes(path.read_bytes() + more[:-20])
    await importer.run([path])
    assert await window(tk, THREAD) == [*spoken(1), *spoken(2)]
    torn = [body for body in await bodies(tk, THREAD, RecordKind.NOTE) if not body.endswith(b"}")]
    assert torn == []
    path.write_bytes(path.read_bytes() + more[-20:])
    await (await tk.find(THREAD)).rename("followed")
    report = await importer.run([path])
    assert [(thread.id, thread.added) for thread in report.threads] == [(THREAD, 1)]
    assert (await tk.verify()).ok


async def test_more_files_than_are_kept_open_are_followed(tk: Threadkeep, tmp_path: Path) -> None:
    """Each adds what is new, whether it was still open or is read from its beginning again."""
    names = [f"{THREAD[:-2]}{number:02}" for number in range(12)]
    importer = Importer(tk.backend, growing=True)
    for name in names:
        put(tmp_path / "in" / f"{name}.jsonl", meta(name), *turn(1))
    assert [thread.id for thread in (await importer.run([tmp_path / "in"])).threads] == names
    for name in names:
        put(tmp_path / "in" / f"{name}.jsonl", meta(name), *turn(1), *turn(2))
    report = await importer.run([tmp_path / "in"])
    assert [(thread.id, thread.added) for thread in report.threads] == [(name, len(turn(2)) + 1) for name in names]
    assert (await tk.verify()).ok


async def test_limited_persistence_keeps_items_and_no_notes(tmp_path: Path) -> None:
    """What only a viewer would show is not kept where it is not wanted, and importing again still adds nothing."""
    async with Threadkeep(Config(store=str(tmp_path / "l.db"), persistence="limited")) as tk:
        path = put(tmp_path / "a.jsonl", meta(), *turn(1), SUMMARY, *turn(2))
        await bring_in(tk, path)
        assert await bodies(tk, THREAD, RecordKind.NOTE) == []
        assert await window(tk, THREAD) == [user("s"), *spoken(2)]
        assert [thread.added for thread in (await bring_in(tk, path)).threads] == [0]
        assert (await tk.verify()).ok


async def test_redaction_reaches_items_notes_and_compactions(tmp_path: Path) -> None:
    """Nothing that the hook takes out is written, wherever in a rollout it stands."""

    def redact(raw: bytes) -> bytes:
        return raw.replace(b"hunter2", b"[gone]")

    secret = line("compacted", {"message": "hunter2", "replacement_history": [user("keep hunter2")]})
    said = [item(user("it is hunter2")), event("user_message", message="hunter2")]
    path = put(tmp_path / "a.jsonl", meta(), *said, line("compacted", {"message": "hunter2"}), secret)
    async with Threadkeep(Config(store=str(tmp_path / "r.db")), redact=redact) as tk:
        await bring_in(tk, path)
        records = await (await tk.find(THREAD)).records()
        assert [record for record in records if b"hunter2" in record.body] == []
        assert await window(tk, THREAD) == [user("keep [gone]")]
        assert [thread.added for thread in (await bring_in(tk, path)).threads] == [0]
