"""Which files the SQLite backend takes, how it makes them, and what it refuses to touch.

Of one backend alone: a server has no file to take, make or refuse.
"""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from threadkeep.errors import StoreError, StoreForeign, StoreTooNew
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore
from threadkeep.store.sqlite.file import APPLICATION_ID, read_migrations
from threadkeep.store.sqlite.sql_files import SQL_FOLDER, split_statements

NOTE = NewRecord(kind=RecordKind.NOTE, at_ms=0, turn=0, tokens=0, body=b"kept")


async def open_store(path: Path) -> SqliteStore:
    return await (await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())).open_tenant()


async def made(path: Path) -> Path:
    """Return `path` as a store with one thread in it."""
    store = await open_store(path)
    await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [NOTE])
    await store.close()
    return path


@pytest.mark.anyio
async def test_a_new_file_is_private_and_marked(tmp_path: Path) -> None:
    """A store is made with its folders, readable by its owner alone, marked as ours, in WAL mode."""
    path = await made(tmp_path / "deep" / "er" / "name with ? and # and %41.db")
    found = sqlite3.connect(path)
    facts = [found.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version", "journal_mode")]
    found.close()
    assert facts == [APPLICATION_ID, max(read_migrations()), "wal"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.anyio
async def test_an_empty_file_is_adopted(tmp_path: Path) -> None:
    """A file of no bytes, as `mktemp` leaves it, becomes a store."""
    path = tmp_path / "empty.db"
    path.touch()
    await made(path)
    store = await open_store(path)
    assert [record.body for record in await store.read(Span(thread_id="t", start=0, stop=9))] == [b"kept"]
    await store.close()


def foreign_text(path: Path) -> None:
    path.write_bytes(b"these are notes, not a database\n" * 10)


def foreign_stub(path: Path) -> None:
    path.write_bytes(b"SQ")


def foreign_database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()


@pytest.mark.anyio
@pytest.mark.parametrize("make_foreign", [foreign_text, foreign_stub, foreign_database])
async def test_a_foreign_file_is_refused_and_untouched(make_foreign: object, tmp_path: Path) -> None:
    """What another program wrote is named as such, and not one byte of it or file beside it changes."""
    assert callable(make_foreign)
    path = tmp_path / "theirs"
    make_foreign(path)
    before = path.read_bytes()
    with pytest.raises(StoreForeign):
        await open_store(path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"theirs": before}


@pytest.mark.anyio
async def test_a_newer_file_is_refused_and_untouched(tmp_path: Path) -> None:
    """A schema version this threadkeep does not know is refused with both numbers."""
    path = await made(tmp_path / "s.db")
    newer = max(read_migrations()) + 1
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute(f"PRAGMA user_version = {newer}")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreTooNew) as refusal:
        await open_store(path)
    assert (refusal.value.found, refusal.value.known) == (newer, newer - 1)
    assert path.read_bytes() == before


@pytest.mark.anyio
async def test_a_folder_is_not_a_store(tmp_path: Path) -> None:
    """A folder as path, or a file where a folder should be, is a named error."""
    with pytest.raises(StoreError, match="Is a directory"):
        await open_store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(StoreError):
        await open_store(tmp_path / "file" / "s.db")


def schema_of(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name")
    return [(kind, name, " ".join(sql.split())) for kind, name, sql in rows.fetchall()]


def test_the_migrations_lead_to_the_schema() -> None:
    """Running every migration gives exactly what schema.sql describes, its first rows included."""
    with closing(sqlite3.connect(":memory:")) as by_steps, closing(sqlite3.connect(":memory:")) as at_once:
        for script in read_migrations().values():
            for statement in split_statements(script):
                by_steps.execute(statement)
        for statement in split_statements((SQL_FOLDER / "schema.sql").read_text(encoding="utf-8")):
            at_once.execute(statement)
        assert schema_of(by_steps) == schema_of(at_once)
        marks = [connection.execute("SELECT * FROM search_mark").fetchall() for connection in (by_steps, at_once)]
        assert marks == [[(1, 0, 0)], [(1, 0, 0)]]


def test_migrations_are_numbered_without_a_gap() -> None:
    """Versions count from one; a gap would make a file that no step leads on from."""
    assert list(read_migrations()) == list(range(1, len(read_migrations()) + 1))


def test_a_script_that_ends_inside_a_statement_is_refused() -> None:
    """A cut-off migration is an error, not a shorter migration."""
    assert list(split_statements("SELECT 1;\nSELECT\n2;\n")) == ["SELECT 1;", "SELECT\n2;"]
    with pytest.raises(ValueError, match="ends inside a statement"):
        list(split_statements("SELECT 1;\nCREATE TABLE t ("))
