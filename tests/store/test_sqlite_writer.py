"""The one writer: what shares a commit, what fails alone, what fails together, and what outlives a cancelled caller.

Of one backend alone: what one commit of SQLite holds, and its locks.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from threadkeep.errors import StoreBusy, StoreError
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore, file
from threadkeep.store.sqlite.workers import MAX_BATCH, Writer

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    database = await SqliteDatabase.open(tmp_path / "s.db", searchable=lambda _, body: body.decode())
    opened = await database.open_tenant()
    await opened.create(NewThread(id="t", dialect="chat", created_at_ms=0), [])
    yield opened
    await opened.close()


@pytest.fixture
def writer(store: SqliteStore) -> Writer:
    return store._writer


def item(body: bytes) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body)


async def bodies(store: SqliteStore, thread_id: str = "t") -> list[bytes]:
    return [record.body for record in await store.read(Span(thread_id=thread_id, start=0, stop=10**9))]


@asynccontextmanager
async def held(writer: Writer) -> AsyncIterator[None]:
    """Keep the writer inside a transaction, so that whatever is asked of it meanwhile waits together."""
    entered, leave = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def wait(_: sqlite3.Connection) -> None:
        loop.call_soon_threadsafe(entered.set)
        leave.wait()

    holding = asyncio.ensure_future(writer.run(wait))
    await entered.wait()
    try:
        yield
    finally:
        leave.set()
        await holding


async def waiting(*calls: asyncio.Future[int]) -> None:
    """Let each call reach the writer's queue."""
    await asyncio.sleep(0)
    assert not any(call.done() for call in calls)


def ask(store: SqliteStore, body: bytes, *, expected: int, thread_id: str = "t") -> asyncio.Future[int]:
    return asyncio.ensure_future(store.append(thread_id, [item(body)], expected=expected))


async def test_appends_that_wait_together_share_a_commit(store: SqliteStore, writer: Writer) -> None:
    """However many appends queue up during one commit, the next commit takes them all, up to its limit."""
    statements: list[str] = []
    await writer.run(lambda connection: connection.set_trace_callback(statements.append))
    statements.clear()
    async with held(writer):
        calls = [ask(store, b"%d" % at, expected=at) for at in range(MAX_BATCH + 44)]
        await waiting(*calls)
    assert await asyncio.gather(*calls) == list(range(1, MAX_BATCH + 45))
    assert statements.count("COMMIT") == 3
    assert await bodies(store) == [b"%d" % at for at in range(MAX_BATCH + 44)]


async def test_what_succeeds_needs_no_savepoint(store: SqliteStore, writer: Writer) -> None:
    """Appends that share a commit are one plain transaction; a savepoint would cost a copy of every page they write."""
    statements: list[str] = []
    await writer.run(lambda connection: connection.set_trace_callback(statements.append))
    statements.clear()
    async with held(writer):
        calls = [ask(store, b"%d" % at, expected=at) for at in range(3)]
        await waiting(*calls)
    assert await asyncio.gather(*calls) == [1, 2, 3]
    assert (statements.count("COMMIT"), [text for text in statements if "SAVEPOINT" in text]) == (2, [])


async def test_a_failed_commit_fails_everyone_in_it(store: SqliteStore, writer: Writer) -> None:
    """Where the commit itself fails, nobody is told that his append is durable, and nothing of it is there."""

    def break_at_commit(connection: sqlite3.Connection) -> int:
        connection.execute("PRAGMA defer_foreign_keys = ON")
        connection.execute(
            "INSERT INTO record (thread, ordinal, kind, at_ms, turn, tokens, body) VALUES (99, 0, 'note', 0, 0, 0, 99)"
        )
        return 0

    async with held(writer):
        calls = [ask(store, b"first", expected=0), asyncio.ensure_future(writer.run(break_at_commit))]
        await waiting(*calls)
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreError, StoreError]
    assert isinstance(outcomes[0], StoreError)
    assert isinstance(outcomes[0].__cause__, sqlite3.IntegrityError)
    assert await bodies(store) == []
    assert await store.append("t", [item(b"after")], expected=0) == 1


async def test_readers_do_not_wait_for_the_writer(store: SqliteStore, writer: Writer) -> None:
    """While a write transaction is open, reads answer with what is acknowledged, and no more."""
    await store.append("t", [item(b"acknowledged")], expected=0)
    async with held(writer):
        call = ask(store, b"pending", expected=1)
        await waiting(call)
        assert await bodies(store) == [b"acknowledged"]
        assert (await store.get("t")).next == 1
    assert await call == 2
    assert await bodies(store) == [b"acknowledged", b"pending"]


async def test_a_lock_held_too_long_is_named(store: SqliteStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process that keeps the write lock costs the append, not the store."""
    monkeypatch.setattr(file, "BUSY_SECONDS", 0.001)
    other = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy):
        await store.append("t", [item(b"blocked")], expected=0)
    other.execute("ROLLBACK")
    other.close()
    assert await store.append("t", [item(b"free")], expected=0) == 1
