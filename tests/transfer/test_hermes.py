"""Hermes' database: sessions, what a compaction replaced, and sessions that a compaction ended."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.transfer.rollouts import Json, bring_in, window

from threadkeep import Threadkeep
from threadkeep.errors import UnreadableTranscript
from threadkeep.transfer.importer import ImportProblem, ImportReport

pytestmark = pytest.mark.anyio

SCHEMA = """
CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, system_prompt TEXT, parent_session_id TEXT, started_at REAL,
  ended_at REAL, end_reason TEXT, title TEXT);
CREATE TABLE messages (id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT, role TEXT, content TEXT, tool_call_id TEXT,
  tool_calls TEXT, tool_name TEXT, timestamp REAL, active INTEGER DEFAULT 1, compacted INTEGER DEFAULT 0);
"""
CALLS = [{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{}"}}]


def database(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    return connection


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(database(tmp_path / "state.db")) as opened:
        yield opened


def session(
    connection: sqlite3.Connection, name: str, *, parent: str | None = None, ended: str | None = None, at: float = 1
) -> None:
    values = (name, "cli", "Be brief.", parent, at, ended, f"title of {name}")
    connection.execute(
        "INSERT INTO sessions (id, source, system_prompt, parent_session_id, started_at, end_reason, title)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        values,
    )


def say(
    connection: sqlite3.Connection, name: str, role: str, content: str | None, *, marks: tuple[int, int] = (1, 0), **more: str
) -> None:
    columns = ", ".join(("session_id", "role", "content", "timestamp", "active", "compacted", *more))
    values = (name, role, content, 1.5, *marks, *more.values())
    connection.execute(f"INSERT INTO messages ({columns}) VALUES ({', '.join('?' * len(values))})", values)


async def test_a_session_is_a_thread_in_the_chat_dialect(tk: Threadkeep, tmp_path: Path, connection: sqlite3.Connection) -> None:
    """Calls and results pair; content that is no text is read as what it was; rows a person took back are not shown."""
    session(connection, "20260101_000000_aa")
    say(connection, "20260101_000000_aa", "user", '\0json:[{"type":"text","text":"look"}]')
    say(connection, "20260101_000000_aa", "assistant", None, tool_calls=json.dumps(CALLS))
    say(connection, "20260101_000000_aa", "tool", "done", tool_call_id="c1", tool_name="run")
    say(connection, "20260101_000000_aa", "user", "taken back", marks=(0, 0))
    connection.commit()
    report = await bring_in(tk, tmp_path / "state.db")
    expected: list[Json] = [
        {"role": "user", "content": [{"type": "text", "text": "look"}]},
        {"role": "assistant", "content": None, "tool_calls": CALLS},
        {"role": "tool", "content": "done", "tool_call_id": "c1"},
    ]
    assert report.problems == ()
    assert await window(tk, "20260101_000000_aa") == expected
    assert [(row.dialect, row.title) for row in await tk.threads()] == [("chat", "title of 20260101_000000_aa")]
    assert [thread.added for thread in (await bring_in(tk, tmp_path / "state.db")).threads] == [0]
    assert (await tk.verify()).ok


async def test_a_compaction_in_place_is_a_checkpoint(tk: Threadkeep, tmp_path: Path, connection: sqlite3.Connection) -> None:
    """Rows it replaced stand before the cut; imported before and after it, the thread is one."""
    session(connection, "s1")
    say(connection, "s1", "user", "one")
    say(connection, "s1", "assistant", "first")
    connection.commit()
    await bring_in(tk, tmp_path / "state.db")
    connection.execute("UPDATE messages SET active = 0, compacted = 1")
    say(connection, "s1", "user", "[CONTEXT COMPACTION] so far")
    say(connection, "s1", "user", "two")
    connection.commit()
    report = await bring_in(tk, tmp_path / "state.db")
    assert [(thread.id, thread.items) for thread in report.threads] == [("s1", 4)]
    assert [message["content"] for message in await window(tk, "s1")] == ["[CONTEXT COMPACTION] so far", "two"]
    assert [row.checkpoints for row in await tk.threads()] == [1]
    assert (await tk.verify()).ok


async def test_a_session_that_a_compaction_began_is_a_fork_of_the_one_it_ended(
    tk: Threadkeep, tmp_path: Path, connection: sqlite3.Connection
) -> None:
    """The child sees its own list alone, and what came before is one step behind it."""
    session(connection, "child", parent="parent", at=2)
    session(connection, "parent", ended="compression")
    say(connection, "parent", "user", "one")
    say(connection, "child", "user", "so far")
    connection.commit()
    await bring_in(tk, tmp_path / "state.db")
    assert [message["content"] for message in await window(tk, "child")] == ["so far"]
    assert (await tk.backend.store.get("child")).parent == "parent"
    await (await tk.find("child")).undo()
    assert [message["content"] for message in await window(tk, "child")] == ["one", "so far"]
    assert (await tk.verify()).ok


async def test_a_database_of_something_else_is_refused(tk: Threadkeep, tmp_path: Path) -> None:
    """No table of sessions: named, it is an error; in a folder, one sentence beside what could be imported."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE other (a); INSERT INTO other VALUES (1)")
    sentence = f"{str(path)!r} cannot be imported: it is no database of Hermes that can be read: no such table: sessions"
    with pytest.raises(UnreadableTranscript) as refused:
        await bring_in(tk, path)
    assert str(refused.value) == sentence
    report = await bring_in(tk, tmp_path)
    assert report == ImportReport(threads=(), problems=(ImportProblem(source=str(path), line=0, text=sentence),))
    assert await tk.threads() == []


async def test_a_database_that_breaks_off_is_imported_as_far_as_it_goes(tk: Threadkeep, tmp_path: Path) -> None:
    """What could be read is a thread; that there was more is said, and no line is blamed for it."""
    with closing(database(tmp_path / "state.db")) as connection:
        session(connection, "s1")
        connection.execute("DROP TABLE messages")
        connection.commit()
    report = await bring_in(tk, tmp_path / "state.db")
    assert [problem.text for problem in report.problems] == ["the database cannot be read further: no such table: messages"]
    assert [(problem.line, thread.id) for problem, thread in zip(report.problems, report.threads, strict=True)] == [(0, "s1")]
