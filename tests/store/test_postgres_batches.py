"""What several callers want in one transaction is carried out together, and each of them hears what became of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from tests.postgres import PostgresServer

from threadkeep.errors import OrdinalConflict, StoreError, ThreadExists, ThreadkeepError, ThreadNotFound
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.postgres import PostgresDatabase, PostgresStore

pytestmark = pytest.mark.anyio

EVERYTHING = 10**9


def record(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.NOTE, at_ms=0, turn=0, tokens=0, body=text.encode())


def thread(name: str, *, parent: str | None = None, start: int = 0) -> NewThread:
    return NewThread(id=name, dialect="chat", created_at_ms=0, parent=parent, start=start)


@pytest.fixture
async def store(postgres_server: PostgresServer) -> AsyncIterator[PostgresStore]:
    url = await postgres_server.new_store()
    opened = await (await PostgresDatabase.open(url, searchable=lambda _, body: body.decode())).open_tenant()
    yield opened
    await opened.close()


async def bodies(store: PostgresStore, name: str) -> list[tuple[int, bytes]]:
    found = await store.read(Span(thread_id=name, start=0, stop=EVERYTHING))
    return [(each.ordinal, each.body) for each in found]


async def test_threads_made_at_once_are_each_callers_own_affair(store: PostgresStore) -> None:
    """A name that is taken, a name two want and a parent that is not there fail whoever asked; all others have their records."""
    await store.create(thread("old"), [record("zero")])
    outcomes = await asyncio.gather(
        store.create(thread("alone"), [record("a"), record("b")]),
        store.create(thread("old"), [record("never")]),
        store.create(thread("wanted"), [record("first")]),
        store.create(thread("wanted"), [record("second")]),
        store.create(thread("orphan", parent="nobody"), [record("never")]),
        store.create(thread("fork", parent="old", start=1), [record("one")]),
        store.create(thread("empty"), []),
        return_exceptions=True,
    )
    told = [type(each) if isinstance(each, ThreadkeepError) else each for each in outcomes]
    assert told == [None, ThreadExists, None, ThreadExists, ThreadNotFound, None, None]
    assert {row.id: (row.parent, row.start, row.next) for row in await store.threads()} == {
        "old": (None, 0, 1),
        "alone": (None, 0, 2),
        "wanted": (None, 0, 1),
        "fork": ("old", 1, 2),
        "empty": (None, 0, 0),
    }
    assert await bodies(store, "alone") == [(0, b"a"), (1, b"b")]
    assert await bodies(store, "wanted") == [(0, b"first")]
    assert await bodies(store, "fork") == [(1, b"one")]


async def test_a_text_no_database_can_hold_fails_nobody_else(store: PostgresStore) -> None:
    """Half a surrogate pair in one caller's name is that caller's error, and the neighbours' writes are there."""
    await store.create(thread("t"), [])
    outcomes = await asyncio.gather(
        store.append("t", [record("a")], expected=0),
        store.append("\ud83d", [record("b")], expected=0),
        store.append("t", [record("c")], expected=1),
        store.append("t", [record("d")], expected=9),
        store.create(thread("u"), []),
        store.create(thread("\ud83d"), []),
        return_exceptions=True,
    )
    told = [type(each) if isinstance(each, ThreadkeepError) else each for each in outcomes]
    assert told == [1, StoreError, 2, OrdinalConflict, None, StoreError]
    assert await bodies(store, "t") == [(0, b"a"), (1, b"c")]
