"""Threads move between stores: every record as it was, found again by its history, and no harm in stopping half way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.postgres import PostgresServer

from threadkeep import Config, Threadkeep
from threadkeep.cli import main
from threadkeep.errors import BadInput, CopyConflict
from threadkeep.store import NewRecord, NewThread, Record, RecordKind, Span
from threadkeep.store.base import FullStore
from threadkeep.store.locations import open_database
from threadkeep.transfer.store_copy import copy_threads

pytestmark = pytest.mark.anyio

NOTE = NewRecord(kind=RecordKind.NOTE, at_ms=1, turn=0, tokens=0, body=b"{}")


def said(text: str) -> list[dict[str, object]]:
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"done: {text} " * 60}]},
    ]


@pytest.fixture(params=["sqlite to postgres", "postgres to sqlite"])
async def places(request: pytest.FixtureRequest, postgres_server: PostgresServer, tmp_path: Path) -> tuple[str, str]:
    """A store with a compacted thread, a fork of it and an erased record; and one that is empty."""
    server, file = await postgres_server.new_store(), str(tmp_path / "threads.db")
    source, target = (file, server) if request.param.startswith("sqlite") else (server, file)
    async with Threadkeep(Config(store=source, model_context_window=4_000)) as tk:
        thread = await tk.thread("long")
        for number in range(9):
            await thread.record(said(f"never rename table_{number}"))
        await thread.compact()
        fork = await thread.fork(before_turn=4)
        await fork.record(said("another way"))
        await thread.record(said("after the fork"))
        await tk.backend.store.erase("long", [2, 3], at_ms=1)
    return source, target


async def opened(location: str, *, key: bytes | None = None) -> FullStore:
    return await (await open_database(location)).open_tenant("local", key=key)


async def everything(store: FullStore) -> dict[str, list[Record]]:
    rows = await store.threads(limit=100)
    return {row.id: await store.read(Span(thread_id=row.id, start=0, stop=10**6)) for row in rows}


def format_share(record: Record) -> tuple[object, ...]:
    return (record.ordinal, record.kind, record.turn, record.target, record.chain, record.depth, record.body, record.erased)


async def test_a_copy_is_the_same_threads(places: tuple[str, str]) -> None:
    """Records, forks, checkpoints and tombstones arrive as they were; the copy verifies, and its digests find it."""
    source = await opened(places[0])
    target = await opened(places[1], key=source.tenant.key)
    copied = await copy_threads(source, target, at_ms=1)
    ours, theirs = await everything(source), await everything(target)
    assert list(theirs) == list(ours)
    for name, records in ours.items():
        assert [format_share(record) for record in theirs[name]] == [format_share(record) for record in records]
    assert [thread.copied for thread in copied] == [thread.records for thread in copied]
    assert {thread.id: thread.erased for thread in copied}["long"] == 2
    chain = next(record.chain for record in reversed(ours["long"]) if record.chain)
    assert await target.lookup([chain]) == await source.lookup([chain])
    await source.close()
    await target.close()
    async with Threadkeep(Config(store=places[1])) as tk:
        assert (await tk.verify()).problems == ()


class Cut(Exception):
    """The moment a copy is cut short."""


async def test_a_copy_goes_on_where_it_stopped(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut short after every page in turn, copying again ends in the same place and copies nothing twice."""
    monkeypatch.setattr("threadkeep.transfer.store_copy.PAGE", 5)
    source = await opened(places[0])
    target = await opened(places[1], key=source.tenant.key)

    def cut(_: object) -> None:
        raise Cut

    total = 0
    while True:
        before = sum(map(len, (await everything(target)).values()))
        with pytest.raises(Cut):
            await copy_threads(source, target, told=cut, at_ms=1)
        after = sum(map(len, (await everything(target)).values()))
        total += 1
        if after == before:
            break
    finished = await copy_threads(source, target, at_ms=1)
    again = await copy_threads(source, target, at_ms=1)
    assert total > 1
    assert sum(thread.copied for thread in finished) > 0
    assert [thread.copied for thread in again] == [0, 0]
    assert {name: [format_share(each) for each in found] for name, found in (await everything(target)).items()} == {
        name: [format_share(each) for each in found] for name, found in (await everything(source)).items()
    }
    await source.close()
    await target.close()


async def test_another_thread_of_the_same_name_is_left_alone(places: tuple[str, str]) -> None:
    """Where the target's thread went another way, the copy says where, and changes nothing of it."""
    source = await opened(places[0])
    target = await opened(places[1], key=source.tenant.key)
    async with Threadkeep(Config(store=places[1])) as tk:
        await (await tk.thread("long")).record(said("a stranger"))
    before = (await everything(target))["long"]
    with pytest.raises(CopyConflict) as conflict:
        await copy_threads(source, target, at_ms=1)
    assert (conflict.value.thread_id, conflict.value.ordinal) == ("long", 0)
    assert (await everything(target))["long"] == before
    await source.close()
    await target.close()


async def test_a_tenant_with_a_key_of_its_own_is_refused(places: tuple[str, str]) -> None:
    """Digests are keyed: a tenant that was there before could not find what is copied, so nothing is."""
    source, target = await opened(places[0]), await opened(places[1])
    with pytest.raises(BadInput, match="has a key of its own"):
        await copy_threads(source, target, at_ms=1)
    assert await everything(target) == {}
    await source.close()
    await target.close()


def test_the_command_copies_one_thread_with_its_parents(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`threadkeep copy --thread` takes a fork and what it was forked from, tells progress on stderr, and can be repeated."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.jsonl").write_text(json.dumps([*said("one"), *said("two")]), encoding="utf-8")
    assert main(["import", "talk.jsonl", "--format", "responses", "--store", "a.db"]) == 0
    thread = json.loads(_out(capfd, "threads", "--store", "a.db", "--json"))["threads"][0]["id"]
    fork = json.loads(_out(capfd, "fork", thread, "--store", "a.db", "--json"))["thread"]
    first = json.loads(_out(capfd, "copy", "a.db", "b.db", "--thread", fork, "--json"))
    again = json.loads(_out(capfd, "copy", "a.db", "b.db", "--json"))
    assert {each["id"] for each in first["threads"]} == {thread, fork}
    assert first["copied"] == first["records"] > 0
    assert (again["copied"], again["records"]) == (0, first["records"])
    assert main(["verify", "--store", "b.db"]) == 0
    assert main(["copy", "a.db", "a.db"]) == 1
    assert "both names lead to the same store" in capfd.readouterr().err


async def test_a_copy_of_a_server_onto_itself_changes_nothing(postgres_server: PostgresServer) -> None:
    """A database may be reached in two ways."""
    url = await postgres_server.new_store()
    one = await opened(url)
    other = await opened(f"{url}{'&' if '?' in url else '?'}application_name=again")
    await one.create(NewThread(id="t", dialect="chat", created_at_ms=1), [NOTE, NOTE])
    [copied] = await copy_threads(one, other, at_ms=1)
    assert (copied.records, copied.copied) == (2, 0)
    await one.close()
    await other.close()


def test_a_tenant_that_is_not_there_is_not_copied_nor_made(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A mistyped `--tenant` is an error that names it; neither store gets a tenant of that name."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.jsonl").write_text(json.dumps(said("one")), encoding="utf-8")
    assert main(["import", "talk.jsonl", "--format", "responses", "--store", "a.db"]) == 0
    capfd.readouterr()
    for _ in range(2):
        assert main(["copy", "a.db", "b.db", "--tenant", "lokal"]) == 1
        told = "a.db has no tenant called 'lokal'; nothing was copied, name another by --tenant"
        assert capfd.readouterr().err == f"threadkeep: {told}\n"
    assert not (tmp_path / "b.db").exists()


async def test_a_server_knows_its_tenants_without_making_one(postgres_server: PostgresServer) -> None:
    """Asking whether a tenant is there leaves everything as it was."""
    database = await open_database(await postgres_server.new_store())
    asked = [await database.has_tenant("team"), await database.has_tenant("team")]
    await database.open_tenant("team")
    assert [*asked, await database.has_tenant("team"), await database.has_tenant("other")] == [False, False, True, False]
    await database.close()


def test_one_file_with_two_names_is_refused(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the names are two entries of a folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "talk.jsonl").write_text(json.dumps(said("one")), encoding="utf-8")
    assert main(["import", "talk.jsonl", "--format", "responses", "--store", "a.db"]) == 0
    (tmp_path / "b.db").hardlink_to(tmp_path / "a.db")
    capfd.readouterr()
    assert main(["copy", "a.db", "b.db"]) == 1
    assert "both names lead to the same store" in capfd.readouterr().err


def _out(capfd: pytest.CaptureFixture[str], *arguments: str) -> str:
    capfd.readouterr()
    assert main(list(arguments)) == 0
    return capfd.readouterr().out
