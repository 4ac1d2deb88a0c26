"""Files that were damaged or cut: the damage is named, and what is not damaged can still be read.

Of one backend alone: a server looks after its own pages.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from threadkeep.errors import StoreCorrupt, StoreError, StoreForeign
from threadkeep.store import NewRecord, NewThread, Record, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore

pytestmark = pytest.mark.anyio

PAGE = 4096


def item(body: bytes) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body)


def text(thread_id: str, number: int) -> bytes:
    """Return a body small enough to lie as it is, and unlike any other."""
    return b"".join(b"%s %d %d;" % (thread_id.encode(), number, at) for at in range(60))[:900]


async def open_store(path: Path) -> SqliteStore:
    return await (await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())).open_tenant()


async def made(path: Path) -> Path:
    """Return a closed store with the threads `first` and `second`, whose bodies fill pages of their own."""
    store = await open_store(path)
    for name in ("first", "second"):
        await store.create(NewThread(id=name, dialect="chat", created_at_ms=0), [item(text(name, at)) for at in range(100)])
    await store.close()
    return path


async def read(store: SqliteStore, thread_id: str, *, bodies: bool = True) -> list[Record]:
    return await store.read(Span(thread_id=thread_id, start=0, stop=1000), bodies=bodies)


async def read_all(path: Path) -> None:
    store = await open_store(path)
    try:
        for name in ("first", "second"):
            await read(store, name)
    finally:
        await store.close()


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


async def test_a_damaged_page_costs_its_own_records_only(tmp_path: Path) -> None:
    """Reading what lay on the page is refused as damage; every other thread, and each record's own facts, are read as before."""
    path = await made(tmp_path / "s.db")
    hit = path.read_bytes().index(text("first", 50)) // PAGE
    overwrite(path, hit * PAGE, b"\x77" * PAGE)
    store = await open_store(path)
    with pytest.raises(StoreCorrupt):
        await read(store, "first")
    assert [record.body for record in await read(store, "second")] == [text("second", at) for at in range(100)]
    assert (await store.get("first")).next == 100
    whole = await store.read(Span(thread_id="first", start=0, stop=10))
    assert [record.body for record in whole] == [text("first", at) for at in range(10)]
    assert await store.append("second", [item(b"goes on")], expected=100) == 101
    await store.close()


async def test_a_kind_nobody_knows_is_damage(tmp_path: Path) -> None:
    """A letter flipped in a record's kind is told as damage, not as an accident of this program."""
    path = tmp_path / "s.db"
    store = await open_store(path)
    note = NewRecord(kind=RecordKind.ROLLBACK, at_ms=0, turn=0, tokens=0, body=b"body")
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [note])
    await store.close()
    content = path.read_bytes()
    # Behind the page with the schema, whose text holds every kind too.
    for at in range(len(content) - len(b"rollback")):
        if content.startswith(b"rollback", at) and content[at - 1 : at] not in (b"'", b"`", b" "):
            overwrite(path, at, b"rollbakk")
    store = await open_store(path)
    with pytest.raises(StoreCorrupt, match="rollbakk"):
        await read(store, "t")
    await store.close()


async def test_a_file_of_which_most_is_gone_does_not_open(tmp_path: Path) -> None:
    """Pages overwritten from the third on are reported when the store is opened."""
    path = await made(tmp_path / "s.db")
    overwrite(path, 2 * PAGE, b"\x77" * (path.stat().st_size - 2 * PAGE))
    with pytest.raises(StoreCorrupt, match="threadkeep verify"):
        await open_store(path)


@pytest.mark.parametrize("kept", [PAGE, 5 * PAGE, 20 * PAGE + 123])
async def test_a_cut_file_is_named(kept: int, tmp_path: Path) -> None:
    """Wherever it was cut, opening or reading it says that it is damaged, and nothing is made up for what is missing."""
    path = await made(tmp_path / "s.db")
    with path.open("r+b") as file:
        file.truncate(kept)
    with pytest.raises(StoreCorrupt):
        await read_all(path)


async def test_a_file_cut_inside_its_header_is_not_touched(tmp_path: Path) -> None:
    """Too short to say whose it is, it is left as it lies."""
    path = await made(tmp_path / "s.db")
    with path.open("r+b") as file:
        file.truncate(60)
    before = path.read_bytes()
    with pytest.raises(StoreForeign):
        await open_store(path)
    assert {place.name: place.read_bytes() for place in tmp_path.iterdir()} == {"s.db": before}


async def test_a_damaged_log_costs_what_was_in_it_and_no_more(tmp_path: Path) -> None:
    """A log whose end does not add up is read up to there: gapless, every record whole, and the store goes on."""
    path = tmp_path / "s.db"
    writer = await open_store(path)
    await writer.create(NewThread(id="t", dialect="chat", created_at_ms=0), [])
    for at in range(40):
        await writer.append("t", [item(text("t", at))], expected=at)
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        copy.with_name(f"copy.db{suffix}").write_bytes(path.with_name(f"s.db{suffix}").read_bytes())
    await writer.close()
    log = copy.with_name("copy.db-wal")
    overwrite(log, log.stat().st_size // 2, b"\xff" * 64)
    store = await open_store(copy)
    found = [record.body for record in await read(store, "t")]
    assert 0 < len(found) < 40
    assert found == [text("t", at) for at in range(len(found))]
    assert await store.append("t", [item(b"goes on")], expected=len(found)) == len(found) + 1
    await store.close()


async def test_a_damaged_file_is_an_error_of_ours_wherever_it_is_hit(tmp_path: Path) -> None:
    """Page after page overwritten, one at a time: each open and read either works or raises an error of the store's own."""
    content = (await made(tmp_path / "s.db")).read_bytes()
    path = tmp_path / "hit.db"
    outcomes: set[str] = set()
    for page in range(1, len(content) // PAGE, 3):
        path.write_bytes(content)
        overwrite(path, page * PAGE + 200, b"\x5a" * 1000)
        try:
            store = await open_store(path)
        except StoreError as error:
            outcomes.add(type(error).__name__)
            continue
        for name in ("first", "second"):
            try:
                await read(store, name)
                outcomes.add("read")
            except StoreError as error:
                outcomes.add(type(error).__name__)
        await store.close()
    assert {"read", "StoreCorrupt"} <= outcomes
