"""Whatever lies at the path of a store: a named error, or a store; never a crash, never a changed byte of another program's.

Of one backend alone: what lies at a path is a file's own matter.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.errors import StoreError
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase

MAGIC = b"SQLite format 3\x00"


def searchable(_: str, body: bytes) -> str:
    return body.decode("utf-8", "replace")


async def opened(path: Path) -> StoreError | None:
    """Open what is there and use it; return the error that was named, if one was."""
    try:
        database = await SqliteDatabase.open(path, searchable=searchable)
    except StoreError as error:
        return error
    try:
        store = await database.open_tenant()
        await store.threads()
        await store.search([Span(thread_id="t", start=0, stop=9)], "word", limit=3)
    except StoreError as error:
        return error
    finally:
        await database.close()
    return None


async def written(path: Path) -> bytes:
    """Return the bytes of a store with a thread in it."""
    database = await SqliteDatabase.open(path, searchable=searchable)
    store = await database.open_tenant()
    item = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=1, body=b'{"role":"user"}' * 90)
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item] * 5)
    await database.close()
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.one_of(st.binary(max_size=400), st.binary(max_size=400).map(lambda tail: MAGIC + tail)))
def test_any_bytes_as_a_file_are_a_named_error_and_stay_as_they_are(content: bytes) -> None:
    """A file of another program is refused with a named error and not changed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some.db"
        path.write_bytes(content)
        error = asyncio.run(opened(path))
        assert (error is None) == (content == b"")
        if content:
            assert path.read_bytes() == content


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_store_with_any_stretch_overwritten_opens_or_says_what_is_wrong(data: st.DataObject) -> None:
    """Damage anywhere is a named error or costs what it hit; nothing else escapes."""
    with tempfile.TemporaryDirectory() as folder:
        whole = asyncio.run(written(Path(folder) / "whole.db"))
        start = data.draw(st.integers(0, len(whole) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=300))
        damaged = Path(folder) / "damaged.db"
        damaged.write_bytes(whole[:start] + noise + whole[start + len(noise) :])
        error = asyncio.run(opened(damaged))
        assert error is None or error.code.startswith("store")


def test_a_damaged_schema_is_named_though_sqlites_own_message_is_no_text(tmp_path: Path) -> None:
    """SQLite quotes the schema in its error; where that is no UTF-8, the error is still ours."""
    path = tmp_path / "damaged.db"
    whole = asyncio.run(written(tmp_path / "whole.db"))
    at = whole.index(b"TABLE tenant")
    path.write_bytes(whole[:at] + b"\xdfo\xcb\xc3\x85" + whole[at + 5 :])
    error = asyncio.run(opened(path))
    assert error is not None
    assert error.code == "store_corrupt"
