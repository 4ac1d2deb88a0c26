"""A store that cannot be written can still be read, and says so when it is written to.

Of one backend alone: rights on a file; a server answers each connection by its own rules.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadkeep.errors import StoreBusy, StoreForeign, StoreReadOnly, StoreTooNew, ThreadNotFound
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore, file
from threadkeep.store.sqlite.file import read_migrations

pytestmark = pytest.mark.anyio

EVERYTHING = Span(thread_id="t", start=0, stop=9)


def item(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=text.encode())


async def open_database(path: Path) -> SqliteDatabase:
    return await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())


async def made(path: Path) -> SqliteStore:
    """Return an open store with one thread in it, whose words are indexed."""
    store = await (await open_database(path)).open_tenant()
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item("kept words")])
    await store.search([EVERYTHING], "words", limit=1)
    return store


async def bodies(store: SqliteStore) -> list[bytes]:
    return [record.body for record in await store.read(EVERYTHING)]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that everyone may enter; those of pytest are their owner's alone."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextlib.contextmanager
def nothing_writable(folder: Path, *, folder_mode: int = 0o555) -> Iterator[None]:
    """Take the rights to write away, and become nobody where the tests run as root, whom permissions do not bind."""
    modes = {place: place.stat().st_mode for place in (folder, *folder.iterdir())}
    for place in modes:
        place.chmod(folder_mode if place == folder else 0o444)
    privileged = os.geteuid() == 0
    if privileged:
        os.seteuid(65534)
    try:
        yield
    finally:
        if privileged:
            os.seteuid(0)
        for place, mode in modes.items():
            place.chmod(mode)


def names(folder: Path) -> list[str]:
    return sorted(place.name for place in folder.iterdir())


async def test_a_store_that_cannot_be_written_is_read(folder: Path) -> None:
    """Every read works, every write is refused by name, and not a file beside it is made."""
    await (await made(folder / "s.db")).close()
    before = (folder / "s.db").read_bytes()
    with nothing_writable(folder):
        database = await open_database(folder / "s.db")
        store = await database.open_tenant()
        assert (await bodies(store), (await store.get("t")).next) == ([b"kept words"], 1)
        assert [hit.ordinal for hit in await store.search([EVERYTHING], "words", limit=9)] == [0]
        assert [row.id for row in await store.threads()] == ["t"]
        with pytest.raises(StoreReadOnly):
            await store.append("t", [item("refused")], expected=1)
        with pytest.raises(StoreReadOnly):
            await store.create(NewThread(id="u", dialect="chat", created_at_ms=0), [])
        with pytest.raises(StoreReadOnly):
            await store.erase("t", [0], at_ms=0)
        with pytest.raises(StoreReadOnly):
            await store.acquire("k", holder="a", now_ms=0, ttl_ms=1)
        with pytest.raises(StoreReadOnly):
            await database.open_tenant("unknown")
        assert await bodies(store) == [b"kept words"]
        await store.close()
        assert names(folder) == ["s.db"]
    assert (folder / "s.db").read_bytes() == before
    database = await open_database(folder / "s.db")
    assert await (await database.open_tenant()).append("t", [item("writable again")], expected=1) == 2
    await database.close()


async def test_a_read_only_file_in_a_writable_folder_leaves_nothing_beside_it(folder: Path) -> None:
    """Reading makes no log that only its maker could remove and that would stand in the way of the next writer."""
    await (await made(folder / "s.db")).close()
    with nothing_writable(folder, folder_mode=0o777):
        database = await open_database(folder / "s.db")
        assert await bodies(await database.open_tenant()) == [b"kept words"]
        await database.close()
        assert names(folder) == ["s.db"]


async def test_a_reader_without_rights_sees_what_a_writer_appends(folder: Path) -> None:
    """Beside a living writer the log is read too: what it acknowledged is there, before and after the file was opened."""
    writer = await made(folder / "s.db")
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
        assert await bodies(reader) == [b"kept words"]
    await writer.append("t", [item("appended meanwhile")], expected=1)
    assert await bodies(reader) == [b"kept words", b"appended meanwhile"]
    await reader.close()
    await writer.close()


async def test_a_search_that_would_have_to_index_is_refused(folder: Path) -> None:
    """Rather than leave out what the index has not seen yet, a search says that it cannot write."""
    store = await made(folder / "s.db")
    await store.append("t", [item("later words")], expected=1)
    await store.close()
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
        with pytest.raises(StoreReadOnly):
            await reader.search([EVERYTHING], "words", limit=9)
        await reader.close()


async def test_what_cannot_be_made_or_brought_up_to_date_is_refused(folder: Path) -> None:
    """A missing file, an empty one, an older and a newer schema are refused when they are opened."""
    newest = max(read_migrations())
    for name, version in (("older.db", newest - 1), ("newer.db", newest + 1)):
        await (await made(folder / name)).close()
        connection = sqlite3.connect(folder / name, isolation_level=None)
        connection.execute(f"PRAGMA user_version = {version}")
        connection.close()
    (folder / "empty.db").touch()
    with nothing_writable(folder):
        for name in ("missing.db", "deep/missing.db", "empty.db", "older.db"):
            with pytest.raises(StoreReadOnly):
                await open_database(folder / name)
        with pytest.raises(StoreTooNew):
            await open_database(folder / "newer.db")
    assert names(folder) == ["empty.db", "newer.db", "older.db"]


async def append_from_elsewhere(path: Path, texts: list[str]) -> None:
    """Append to the thread the way a process does that opens the store for it alone."""
    store = await (await open_database(path)).open_tenant()
    await store.append("t", [item(text) for text in texts], expected=(await store.get("t")).next)
    await store.close()


async def test_a_reader_sees_what_was_written_after_nobody_wrote(folder: Path) -> None:
    """A file that was taken as it lay is read as it lies now, however often it was written and closed meanwhile."""
    await (await made(folder / "s.db")).close()
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
        assert await bodies(reader) == [b"kept words"]
    for count in (1, 2):
        await append_from_elsewhere(folder / "s.db", [f"round {count}"])
        with nothing_writable(folder):
            assert await bodies(reader) == [b"kept words", b"round 1", b"round 2"][: count + 1]
    await reader.close()
    assert names(folder) == ["s.db"]


async def test_a_reader_goes_over_to_the_log_of_a_writer_that_came_later(folder: Path) -> None:
    """What a writer acknowledged is seen, though it lies in a log that was not there when the reader began."""
    await (await made(folder / "s.db")).close()
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
        assert await bodies(reader) == [b"kept words"]
    writer = await (await open_database(folder / "s.db")).open_tenant()
    await writer.append("t", [item("in the log")], expected=1)
    with nothing_writable(folder):
        assert await bodies(reader) == [b"kept words", b"in the log"]
    await writer.append("t", [item("and more")], expected=2)
    assert await bodies(reader) == [b"kept words", b"in the log", b"and more"]
    await reader.close()
    await writer.close()


async def test_a_healthy_file_that_was_rewritten_is_not_called_damaged(folder: Path) -> None:
    """Pages that were read before fit none of those a later writer left; neither is mixed with the other."""
    await (await made(folder / "s.db")).close()
    everything = Span(thread_id="t", start=0, stop=10_000)
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
        assert await bodies(reader) == [b"kept words"]
    written = [f"{number} {os.urandom(300).hex()}" for number in range(400)]
    await append_from_elsewhere(folder / "s.db", written)
    with nothing_writable(folder):
        found = [record.body.decode() for record in await reader.read(everything)]
    assert found == ["kept words", *written]
    await reader.close()


def touch(path: Path, *, at_ns: int) -> None:
    """Leave the file as a writer would that was here at that moment; who may not write it cannot do that by itself."""
    nobody = os.geteuid()
    if os.getuid() == 0:
        os.seteuid(0)
    os.utime(path, ns=(0, at_ns))
    os.seteuid(nobody)


async def test_a_read_that_was_overtaken_is_made_again(folder: Path) -> None:
    """What was read while the file moved counts for nothing, whether it was a result or a failure."""
    path = folder / "s.db"
    await (await made(path)).close()
    used: list[sqlite3.Connection] = []

    def overtaken_once(connection: sqlite3.Connection) -> int:
        used.append(connection)
        if len(used) == 1:
            touch(path, at_ns=1)
            raise ThreadNotFound("t")
        return len(used)

    with nothing_writable(folder):
        database = await open_database(path)
        assert await database.readers.run(overtaken_once) == 2
        assert used[0] is not used[1]
        await database.close()


async def test_a_file_that_never_rests_is_busy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read that is overtaken again and again ends with a name, not never."""
    path = folder / "s.db"
    await (await made(path)).close()
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.0)
    moments = iter(range(1, 1000))

    def overtaken(_: sqlite3.Connection) -> None:
        touch(path, at_ns=next(moments))

    with nothing_writable(folder):
        database = await open_database(path)
        with pytest.raises(StoreBusy):
            await database.readers.run(overtaken)
        await database.close()


async def test_a_file_that_another_took_the_place_of_is_looked_at_as_when_opening(folder: Path) -> None:
    """Another program's file at the same path is refused by name; ours, moved there, is read."""
    path = folder / "s.db"
    await (await made(path)).close()
    (folder / "ours.db").write_bytes(path.read_bytes())
    with nothing_writable(folder):
        reader = await (await open_database(path)).open_tenant()
        assert await bodies(reader) == [b"kept words"]
    (folder / "theirs.db").write_bytes(b"not ours")
    (folder / "theirs.db").replace(path)
    with nothing_writable(folder), pytest.raises(StoreForeign):
        await bodies(reader)
    (folder / "ours.db").replace(path)
    with nothing_writable(folder):
        assert await bodies(reader) == [b"kept words"]
    await reader.close()


async def test_who_watches_a_file_nobody_wrote_is_told_of_the_first_write(folder: Path) -> None:
    """A connection without locks never notices a write by itself."""
    await (await made(folder / "s.db")).close()
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).open_tenant()
    async with reader.watch() as watch:
        while not await watch.wait(within_s=10):
            pass
        await append_from_elsewhere(folder / "s.db", ["the first"])
        assert await watch.wait(within_s=10) is True
    await reader.close()


async def test_a_link_of_another_name_leads_to_the_log_too(folder: Path) -> None:
    """The log lies beside the file, under the file's name and not the link's."""
    writer = await made(folder / "real.db")
    (folder / "link.db").symlink_to("real.db")
    with nothing_writable(folder):
        reader = await (await open_database(folder / "link.db")).open_tenant()
        assert await bodies(reader) == [b"kept words"]
        await reader.close()
    await writer.close()
