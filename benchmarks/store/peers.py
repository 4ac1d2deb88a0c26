"""The stores under test: threadkeep's, plain SQLite, and those of other frameworks where installed.

Each is brought to the same durability: a write-ahead log, and an fsync before a commit returns. A framework is imported
when it is opened and not before; threadkeep needs none of them.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

from benchmarks.store.workload import DIALECT, Row
from threadkeep import __version__
from threadkeep.dialects import render_search_text
from threadkeep.errors import ThreadNotFound
from threadkeep.store import NewThread, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore

_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}


class Contender(Protocol):
    """An open store of someone's, in a folder of its own."""

    @property
    def shares_commits(self) -> bool:
        """Whether appends awaited at once can run beside each other; where not, they are one at a time anyway."""
        ...

    @property
    def durability(self) -> str:
        """What a commit waits for, as asked of SQLite itself where that can be asked."""
        ...

    async def append(self, thread: str, rows: Sequence[Row]) -> None:
        """Append rows to a thread, which begins with the first; durable when it returns."""
        ...

    async def resume(self, thread: str) -> int:
        """Load what a restarted agent needs of the thread through a handle of its own; return how many items that was."""
        ...

    async def close(self) -> None:
        """Let go of everything, so that the files are what they will be."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One who may take part. `version` is None where its package is not installed."""

    name: str
    version: str | None
    open: Callable[[Path], Awaitable[Contender]]
    note: str = ""


def entrants() -> list[Entrant]:
    """Return everyone, installed or not, threadkeep first."""
    return [
        Entrant(name="threadkeep", version=__version__, open=_Threadkeep.opened),
        Entrant(name="raw SQLite", version=sqlite3.sqlite_version, open=_Raw.opened, note="one table, one key, no checks"),
        Entrant(
            name="agents SQLiteSession",
            version=_installed("openai-agents"),
            open=_AgentsSession.opened,
            note="does not compact: resumes the whole history",
        ),
        Entrant(
            name="langgraph SqliteSaver",
            version=_installed("langgraph-checkpoint-sqlite"),
            open=_LangGraphSaver.opened,
            note="one put() an append, where a graph makes three; each holds the whole history again",
        ),
    ]


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


class _Threadkeep:
    shares_commits = True
    durability = "WAL, synchronous FULL"

    def __init__(self, database: SqliteDatabase, store: SqliteStore, path: Path) -> None:
        self._database = database
        self._store = store
        self._path = path
        self._next: dict[str, int] = {}

    @classmethod
    async def opened(cls, folder: Path) -> Contender:
        path = folder / "threadkeep.db"
        database = await SqliteDatabase.open(path, searchable=render_search_text)
        return cls(database, await database.open_tenant(), path)

    async def append(self, thread: str, rows: Sequence[Row]) -> None:
        if thread not in self._next:
            await self._store.create(NewThread(id=thread, dialect=DIALECT, created_at_ms=0), [])
            self._next[thread] = 0
        records = [row.record for row in rows]
        self._next[thread] = await self._store.append(thread, records, expected=self._next[thread])

    async def resume(self, thread: str) -> int:
        """Read the whole thread, as the others do; what a compacted one costs is measured apart."""
        database = await SqliteDatabase.open(self._path, searchable=render_search_text)
        try:
            store = await database.open_tenant()
            row = await store.get(thread)
            records = await store.read(Span(thread_id=thread, start=row.start, stop=row.next))
        finally:
            await database.close()
        return len([json.loads(record.body) for record in records])

    async def close(self) -> None:
        await self._database.close()


class _Raw:
    """The columns of a record in one table under one key: the least that keeps the same rows."""

    shares_commits = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(
            "CREATE TABLE record (thread TEXT, ordinal INTEGER, kind TEXT, at_ms INTEGER, turn INTEGER, tokens INTEGER,"
            " target INTEGER, chain BLOB, depth INTEGER, redacted INTEGER, body BLOB, UNIQUE (thread, ordinal))"
        )
        self._next: defaultdict[str, int] = defaultdict(int)
        self.durability = _asked(self._connection)

    @classmethod
    async def opened(cls, folder: Path) -> Contender:
        return cls(folder / "raw.db")

    async def append(self, thread: str, rows: Sequence[Row]) -> None:
        first = self._next[thread]
        values = [
            (thread, ordinal, each.kind, each.at_ms, each.turn, each.tokens, each.target, each.chain, each.depth, 0, each.body)
            for ordinal, each in enumerate((row.record for row in rows), start=first)
        ]
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        self._connection.execute("COMMIT")
        self._next[thread] = first + len(rows)

    async def resume(self, thread: str) -> int:
        connection = sqlite3.connect(self._path)
        try:
            found = connection.execute("SELECT body FROM record WHERE thread = ? ORDER BY ordinal", (thread,)).fetchall()
        finally:
            connection.close()
        return len([json.loads(body) for (body,) in found])

    async def close(self) -> None:
        self._connection.close()


class _AgentsSession:
    """`SQLiteSession` of the OpenAI Agents SDK. It opens its own connections, so its durability can be asked, not set."""

    shares_commits = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._made: Any = import_module("agents").SQLiteSession
        self._sessions: dict[str, Any] = {}
        self._made("probe", path).close()
        # It sets the log and leaves `synchronous` at what SQLite was built with, as a plain connection does.
        connection = sqlite3.connect(path)
        try:
            self.durability = f"{_asked(connection)} (as SQLite was built; it cannot be set from outside)"
        finally:
            connection.close()

    @classmethod
    async def opened(cls, folder: Path) -> Contender:
        return await asyncio.to_thread(cls, folder / "agents.db")

    async def append(self, thread: str, rows: Sequence[Row]) -> None:
        if thread not in self._sessions:
            self._sessions[thread] = self._made(thread, self._path)
        await self._sessions[thread].add_items([row.item for row in rows])

    async def resume(self, thread: str) -> int:
        session = self._made(thread, self._path)
        try:
            return len(await session.get_items())
        finally:
            session.close()

    async def close(self) -> None:
        for session in self._sessions.values():
            session.close()


class _LangGraphSaver:
    """`SqliteSaver` of LangGraph, given a checkpoint with the whole list of messages at every append, as a graph does."""

    shares_commits = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._base: Any = import_module("langgraph.checkpoint.base")
        self._made: Any = import_module("langgraph.checkpoint.sqlite").SqliteSaver
        self._connection = sqlite3.connect(path, check_same_thread=False)
        self._saver: Any = self._made(self._connection)
        self._saver.setup()
        self._connection.execute("PRAGMA synchronous = FULL")
        self._items: defaultdict[str, list[Any]] = defaultdict(list)
        self._configs: dict[str, Any] = {}
        self.durability = _asked(self._connection)

    @classmethod
    async def opened(cls, folder: Path) -> Contender:
        return cls(folder / "langgraph.db")

    async def append(self, thread: str, rows: Sequence[Row]) -> None:
        items = self._items[thread]
        items.extend(row.item for row in rows)
        checkpoint = self._base.empty_checkpoint()
        checkpoint["channel_values"] = {"messages": items}
        config = self._configs.get(thread, {"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        self._configs[thread] = self._saver.put(config, checkpoint, {"source": "loop", "step": len(items), "parents": {}}, {})

    async def resume(self, thread: str) -> int:
        connection = sqlite3.connect(self._path, check_same_thread=False)
        try:
            saved = self._made(connection).get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        finally:
            connection.close()
        if saved is None:
            raise ThreadNotFound(thread)
        return len(saved.checkpoint["channel_values"]["messages"])

    async def close(self) -> None:
        self._connection.close()


def _asked(connection: sqlite3.Connection) -> str:
    (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    (level,) = connection.execute("PRAGMA synchronous").fetchone()
    return f"{mode.upper()}, synchronous {_SYNCHRONOUS[level]}"
