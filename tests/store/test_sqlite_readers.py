"""The threads that read: how many there are, what becomes of a failure, and what closing waits for.

Of one backend alone: only a file is read by threads of this process.
"""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from threadkeep.errors import StoreClosed
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore
from threadkeep.store.sqlite.workers import READER_THREADS, Readers

pytestmark = pytest.mark.anyio


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    database = await SqliteDatabase.open(tmp_path / "s.db", searchable=lambda _, body: body.decode())
    opened = await database.open_tenant()
    yield opened
    await opened.close()


@pytest.fixture
def readers(store: SqliteStore) -> Readers:
    assert isinstance(store._readers, Readers)
    return store._readers


def at_work(beginning: str = "threadkeep-reader") -> int:
    return sum(thread.name.startswith(beginning) for thread in threading.enumerate())


async def test_reads_one_after_another_share_a_connection(readers: Readers) -> None:
    """Whoever waits for each answer before the next question pays for one connection, however much is read."""
    used = {id(await readers.run(lambda connection: connection)) for _ in range(50)}
    assert (len(used), at_work()) == (1, 1)


async def test_reads_at_once_have_threads_of_their_own_up_to_a_limit(readers: Readers) -> None:
    """A long read holds up no other; how many run at once is limited."""
    together = threading.Barrier(READER_THREADS)

    def meet(_: sqlite3.Connection) -> None:
        together.wait()

    await asyncio.gather(*(readers.run(meet) for _ in range(3 * READER_THREADS)))
    assert at_work() == READER_THREADS


async def test_further_readers_leave_this_process_its_locks(readers: Readers, tmp_path: Path) -> None:
    """Another process that closes the file last would remove the log under the readers; it is not the last while they read."""
    together = threading.Barrier(READER_THREADS)

    def read_at_once(connection: sqlite3.Connection) -> None:
        together.wait()
        connection.execute("SELECT count(*) FROM thread").fetchone()

    await asyncio.gather(*(readers.run(read_at_once) for _ in range(READER_THREADS)))
    await come_and_go(tmp_path / "s.db")
    assert (tmp_path / "s.db-wal").exists()


async def test_a_file_opened_twice_keeps_its_log_until_both_are_closed(store: SqliteStore, tmp_path: Path) -> None:
    """The second opening checks the file's bytes only where this process does not read it already."""
    assert await store.threads(limit=1) == []
    again = await SqliteDatabase.open(tmp_path / "s.db", searchable=lambda _, body: body.decode())
    await (await again.open_tenant()).close()
    await come_and_go(tmp_path / "s.db")
    assert (tmp_path / "s.db-wal").exists()


async def come_and_go(path: Path) -> None:
    """Let another process open the file, read it and leave."""
    other = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM thread'); c.close()"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", other, str(path)], check=True)


async def test_a_failure_is_told_to_its_caller_and_the_reader_goes_on(readers: Readers) -> None:
    """Whatever a read raises reaches the one who asked, and costs nobody else."""

    def fail(_: sqlite3.Connection) -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await readers.run(fail)
    assert await readers.run(lambda connection: connection.execute("SELECT 1").fetchone()) == (1,)


async def test_a_reader_cannot_write(readers: Readers) -> None:
    """The connection that opened and checked the file is a reader's from then on."""
    (allowed,) = await readers.run(lambda connection: connection.execute("PRAGMA query_only").fetchone())
    assert allowed == 1


async def test_closing_waits_for_a_read_under_way(store: SqliteStore, readers: Readers) -> None:
    """A read that was accepted is answered, whoever closes meanwhile; none is accepted after that, and no thread is left."""
    leave = threading.Event()

    def wait(_: sqlite3.Connection) -> str:
        leave.wait()
        return "read"

    reading = asyncio.ensure_future(readers.run(wait))
    await asyncio.sleep(0)
    closing = asyncio.ensure_future(store.close())
    await asyncio.sleep(0)
    leave.set()
    await closing
    assert await reading == "read"
    with pytest.raises(StoreClosed):
        await readers.run(wait)
    assert at_work() == 0


async def test_who_only_reads_starts_no_writer(tmp_path: Path) -> None:
    """A store that is opened and read has no thread that writes; the log is folded into the file all the same."""
    path = tmp_path / "s.db"
    database = await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())
    await (await database.open_tenant()).close()
    database = await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())
    assert await (await database.open_tenant()).threads() == []
    assert at_work("threadkeep-writer") == 0
    await database.close()
    assert [file.name for file in tmp_path.iterdir()] == ["s.db"]
