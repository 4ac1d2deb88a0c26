"""A machine that gives no more threads: who asks is told so, and nothing is worse for it once it gives some again.

Of one backend alone: only a file is read and written by threads of this process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from threadkeep.errors import StoreError
from threadkeep.store import NewThread
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore

pytestmark = pytest.mark.anyio


class Machine:
    """Decides which threads are to be had."""

    def __init__(self) -> None:
        self.refused: tuple[str, ...] = ()


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    rules = Machine()
    start = threading.Thread.start

    def start_if_allowed(thread: threading.Thread) -> None:
        if thread.name.startswith(rules.refused):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_if_allowed)
    return rules


async def open_database(folder: Path) -> SqliteDatabase:
    return await SqliteDatabase.open(folder / "s.db", searchable=lambda _, body: body.decode())


@pytest.fixture
async def database(tmp_path: Path, machine: Machine) -> AsyncIterator[SqliteDatabase]:
    opened = await open_database(tmp_path)
    yield opened
    await opened.close()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("threadkeep-")] == []


def new(name: str) -> NewThread:
    return NewThread(id=name, dialect="chat", created_at_ms=0)


async def test_a_write_without_a_thread_is_refused_and_the_next_goes_through(database: SqliteDatabase, machine: Machine) -> None:
    """The error says what is missing and what to do; nothing was written, nothing hangs, and closing works."""
    machine.refused = ("threadkeep-writer",)
    with pytest.raises(StoreError, match=r"no more threads.*try again") as refused:
        await database.open_tenant()
    assert refused.value.code == "store_error"
    machine.refused = ()
    store = await database.open_tenant()
    await store.create(new("t"), [])
    assert [row.id for row in await store.threads()] == ["t"]


async def test_a_store_that_never_got_a_thread_to_write_closes(database: SqliteDatabase, machine: Machine) -> None:
    """Neither the refused write nor closing leaves anything behind; the fixture looks."""
    machine.refused = ("threadkeep-writer",)
    with pytest.raises(StoreError, match="no more threads"):
        await database.open_tenant()


async def test_opening_without_a_thread_is_refused_and_the_next_goes_through(tmp_path: Path, machine: Machine) -> None:
    """The error says what is missing and what to do; once there are threads the store opens."""
    machine.refused = ("threadkeep-reader",)
    with pytest.raises(StoreError, match=r"no more threads.*try again"):
        await open_database(tmp_path)
    machine.refused = ()
    database = await open_database(tmp_path)
    assert await database.has_tenant("local") is False
    await database.close()


async def test_a_read_that_gets_no_thread_of_its_own_waits_for_one_that_is_there(
    database: SqliteDatabase, machine: Machine
) -> None:
    """With one thread all reads are answered, one after another."""
    store: SqliteStore = await database.open_tenant()
    machine.refused = ("threadkeep-reader",)
    answers = await asyncio.gather(*(store._readers.run(answer_to_everything) for _ in range(12)))
    assert answers == [(42,)] * 12


def answer_to_everything(connection: sqlite3.Connection) -> tuple[int]:
    row: tuple[int] = connection.execute("SELECT 42").fetchone()
    return row
