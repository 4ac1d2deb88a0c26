"""A store that cannot be written can still be read, and says so when it is written to."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import StoreReadOnly, StoreTooNew
from holdfast.store import NewRecord, NewThread, RecordKind, Span
from holdfast.store.sqlite import SqliteDatabase, SqliteStore
from holdfast.store.sqlite.file import migrations

pytestmark = pytest.mark.anyio

EVERYTHING = Span(thread_id="t", start=0, stop=9)


def item(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=text.encode())


async def open_database(path: Path) -> SqliteDatabase:
    return await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())


async def made(path: Path) -> SqliteStore:
    """Return an open store with one thread in it, whose words are indexed."""
    store = await (await open_database(path)).tenant()
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
        store = await database.tenant()
        assert (database.read_only, await bodies(store), (await store.get("t")).next) == (True, [b"kept words"], 1)
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
            await database.tenant("unknown")
        assert await bodies(store) == [b"kept words"]
        await store.close()
        assert names(folder) == ["s.db"]
    assert (folder / "s.db").read_bytes() == before
    database = await open_database(folder / "s.db")
    assert database.read_only is False
    assert await (await database.tenant()).append("t", [item("writable again")], expected=1) == 2
    await database.close()


async def test_a_read_only_file_in_a_writable_folder_leaves_nothing_beside_it(folder: Path) -> None:
    """Reading makes no log that only its maker could remove and that would stand in the way of the next writer."""
    await (await made(folder / "s.db")).close()
    with nothing_writable(folder, folder_mode=0o777):
        database = await open_database(folder / "s.db")
        assert (database.read_only, await bodies(await database.tenant())) == (True, [b"kept words"])
        await database.close()
        assert names(folder) == ["s.db"]


async def test_a_reader_without_rights_sees_what_a_writer_appends(folder: Path) -> None:
    """Beside a living writer the log is read too: what it acknowledged is there, before and after the file was opened."""
    writer = await made(folder / "s.db")
    with nothing_writable(folder):
        reader = await (await open_database(folder / "s.db")).tenant()
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
        reader = await (await open_database(folder / "s.db")).tenant()
        with pytest.raises(StoreReadOnly):
            await reader.search([EVERYTHING], "words", limit=9)
        await reader.close()


async def test_what_cannot_be_made_or_brought_up_to_date_is_refused(folder: Path) -> None:
    """A missing file, an empty one, an older and a newer schema are refused when they are opened."""
    newest = max(migrations())
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
