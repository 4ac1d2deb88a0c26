"""Appending bytes while another process erases them: a record keeps its bytes or is a tombstone, and the count is right."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import psycopg
import pytest
from tests.postgres import PostgresServer

from threadkeep.errors import StoreError
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.base import FullStore
from threadkeep.store.locations import open_database

pytestmark = pytest.mark.anyio

SECRET = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=b"a secret" * 200)
ROUNDS = 25

# Holds up every writer of a place inside the block, which may wait until so many of them stand in line.
Held = Callable[[], AbstractAsyncContextManager[Callable[[int], Awaitable[None]]]]


@pytest.fixture(params=["sqlite", "postgres"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "threads.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return await server.new_store()


@pytest.fixture
async def stores(place: str) -> AsyncIterator[tuple[FullStore, FullStore]]:
    """Two openers of one place, as two processes have it, with a thread `t` and a thread `u`."""
    one, other = [await (await open_database(place)).open_tenant() for _ in range(2)]
    await one.create(NewThread(id="t", dialect="chat", created_at_ms=0), [SECRET])
    await one.create(NewThread(id="u", dialect="chat", created_at_ms=0), [])
    yield one, other
    await one.close()
    await other.close()


@pytest.fixture
def held(place: str) -> Held:
    return (lambda: server_held(place)) if "://" in place else (lambda: file_held(place))


@asynccontextmanager
async def server_held(url: str) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(b"SET LOCAL threadkeep.tenant = '1'")
        await connection.execute(b"SELECT id FROM threadkeep.body FOR UPDATE")

        async def in_line(count: int) -> None:
            waiting = b"SELECT count(*) FROM pg_locks WHERE NOT granted"
            async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watching:
                while await (await watching.execute(waiting)).fetchone() != (count,):
                    pass

        yield in_line


@asynccontextmanager
async def file_held(path: str) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")

    async def in_line(count: int) -> None:
        # A file keeps no list of who waits; the lock alone puts them after this block.
        return

    yield in_line
    connection.execute("ROLLBACK")
    connection.close()


async def erased_by(store: FullStore, thread_id: str, ordinals: list[int]) -> int:
    """Erase, again if another opener kept the log, and return how many records lost their bytes by it."""
    try:
        return await store.erase(thread_id, ordinals, at_ms=1)
    except StoreError as unfinished:
        if "erase again to finish" not in str(unfinished):
            raise
        return -1


async def standing(store: FullStore) -> dict[str, list[tuple[bytes, bool]]]:
    found = {name: await store.read(Span(thread_id=name, start=0, stop=10**6)) for name in ("t", "u")}
    return {name: [(record.body, record.erased) for record in records] for name, records in found.items()}


async def test_an_erasure_that_waits_for_an_append_counts_its_record(stores: tuple[FullStore, FullStore], held: Held) -> None:
    """Both stand in line for the same bytes: whoever is first, each record has its bytes or is a tombstone that was counted."""
    one, other = stores
    async with held() as in_line:
        appending = asyncio.create_task(one.append("u", [SECRET], expected=0))
        erasing = asyncio.create_task(erased_by(other, "t", [0]))
        await in_line(2)
    await appending
    erased = await erasing
    found = await standing(one)
    gone = sum(is_erased for records in found.values() for _, is_erased in records)
    assert erased in (gone, -1)
    assert found["t"] == [(b"", True)]
    assert found["u"] in ([(b"", True)], [(SECRET.body, False)])


async def test_two_that_erase_the_same_bytes_both_succeed(stores: tuple[FullStore, FullStore], held: Held) -> None:
    """One of them finds something to erase, the other nothing; neither is an error, and no record is counted twice."""
    one, other = stores
    async with held() as in_line:
        both = [asyncio.create_task(erased_by(store, "t", [0])) for store in (one, other)]
        await in_line(2)
    counts = await asyncio.gather(*both)
    assert sorted(count for count in counts if count >= 0) in ([0, 1], [0], [1], [])
    assert await standing(other) == {"t": [(b"", True)], "u": []}


async def test_appends_and_erasures_race(stores: tuple[FullStore, FullStore]) -> None:
    """The same bytes are appended here and erased there, over and over: none is half gone, comes back, or is missed."""
    one, other = stores
    ends = {"t": 1, "u": 0}

    async def append(store: FullStore, name: str) -> None:
        for _ in range(ROUNDS):
            ends[name] = await store.append(name, [SECRET], expected=ends[name])

    async def erase(store: FullStore, name: str) -> list[int]:
        return [await erased_by(store, name, list(range(ends[name]))) for _ in range(ROUNDS)]

    _, _, *counts = await asyncio.gather(append(one, "t"), append(other, "u"), erase(other, "t"), erase(one, "u"))
    found = await standing(one)
    assert {name: len(records) for name, records in found.items()} == {"t": 1 + ROUNDS, "u": ROUNDS}
    every = [record for records in found.values() for record in records]
    assert [record for record in every if record not in ((b"", True), (SECRET.body, False))] == []
    known = [count for each in counts for count in each]
    gone = sum(is_erased for _, is_erased in every)
    # Where a log was kept by the other opener, how many were erased by that call is not told.
    assert sum(count for count in known if count > 0) == gone or -1 in known
    await erased_by(one, "t", list(range(ends["t"])))
    await erased_by(one, "u", list(range(ends["u"])))
    assert {is_erased for records in (await standing(other)).values() for _, is_erased in records} == {True}
    assert await one.append("t", [SECRET], expected=ends["t"]) == ends["t"] + 1
    assert (await standing(other))["t"][-1] == (SECRET.body, False)
