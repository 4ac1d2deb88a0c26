"""The database itself refuses what a store must never do.

Of one backend alone: the statements are SQLite's; test_postgres_tenants.py has PostgreSQL's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from threadkeep.items import digest_body
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.base import NOT_LANDMARKS
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore
from threadkeep.store.sqlite.operations import Filter, read_records
from threadkeep.store.sqlite.sql_files import QUERIES


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    database = await SqliteDatabase.open(tmp_path / "s.db", searchable=lambda _, body: body.decode())
    opened = await database.open_tenant()
    item = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=b"kept")
    gone = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=b"gone")
    await opened.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item, item])
    await opened.create(NewThread(id="erased", dialect="chat", created_at_ms=0), [gone])
    await opened.erase("erased", [0], at_ms=1)
    yield opened
    await opened.close()


FORBIDDEN = [
    "UPDATE record SET tokens = 1",
    "DELETE FROM record",
    "UPDATE thread SET name = 'u'",
    "DELETE FROM thread",
    "UPDATE body SET digest = zeroblob(20)",
    "DELETE FROM body",
    "UPDATE body SET data = 'back' WHERE erased_at_ms IS NOT NULL",
    "UPDATE body SET erased_at_ms = NULL WHERE erased_at_ms IS NOT NULL",
    "UPDATE body SET erased_at_ms = 9 WHERE erased_at_ms IS NULL",
    "UPDATE tenant SET key = zeroblob(32)",
]


@pytest.mark.anyio
@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_history_cannot_be_rewritten(statement: str, store: SqliteStore, tmp_path: Path) -> None:
    """In a SQL shell nobody can change or delete a record, a thread, a body's digest or a tombstone."""
    before = await store.read(Span(thread_id="t", start=0, stop=9))
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(statement)
    connection.close()
    assert await store.read(Span(thread_id="t", start=0, stop=9)) == before


@pytest.mark.anyio
async def test_an_unknown_kind_is_refused(store: SqliteStore, tmp_path: Path) -> None:
    """The kinds the database takes are exactly those Python knows."""
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    insert = "INSERT INTO record (thread, ordinal, kind, at_ms, turn, tokens, body) VALUES (1, 9, ?, 0, 0, 0, 1)"
    with pytest.raises(sqlite3.IntegrityError):
        connection.execute(insert, ("thought",))
    connection.close()
    every = [NewRecord(kind=kind, at_ms=0, turn=0, tokens=0, body=b"") for kind in RecordKind]
    assert await store.append("t", every, expected=2) == 2 + len(RecordKind)


@pytest.mark.anyio
async def test_equal_bodies_are_stored_once(store: SqliteStore, tmp_path: Path) -> None:
    """An image that is resent with every request takes its place once."""
    image = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=b"image" * 1000)
    await store.append("t", [image] * 50, expected=2)
    await store.append("t", [image] * 50, expected=52)
    connection = sqlite3.connect(tmp_path / "s.db")
    assert connection.execute("SELECT digest FROM body WHERE erased_at_ms IS NULL ORDER BY id").fetchall() == [
        (digest_body(b"kept"),),
        (digest_body(image.body),),
    ]
    connection.close()


LANDMARKS = frozenset(RecordKind) - NOT_LANDMARKS
READS = [
    ({"kinds": {RecordKind.CHECKPOINT}}, "COVERING INDEX record_landmark (thread=? AND kind=? AND ordinal>? AND ordinal<?)"),
    ({"kinds": LANDMARKS}, "COVERING INDEX record_landmark (thread=? AND kind=? AND ordinal>? AND ordinal<?)"),
    ({"kinds": {RecordKind.TURN}, "turn": 3}, "INDEX record_by_turn (thread=? AND turn=?)"),
    ({"ordinals": [1, 5]}, "INDEX sqlite_autoindex_record_1 (thread=? AND ordinal=?)"),
    ({"kinds": LANDMARKS, "ordinals": [1, 5]}, "INDEX sqlite_autoindex_record_1 (thread=? AND ordinal=?)"),
    ({}, "INDEX sqlite_autoindex_record_1 (thread=? AND ordinal>? AND ordinal<?)"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("filters", "way"), READS)
@pytest.mark.usefixtures("store")
async def test_a_read_never_walks_what_it_does_not_want(filters: dict[str, Any], way: str, tmp_path: Path) -> None:
    """Landmarks, the start of a turn and single records are sought, not searched for among the items between them."""
    every = {"kinds": None, "ordinals": None, "turn": None, "newest_first": False, "limit": None, "bodies": True}
    statements: list[str] = []
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.set_trace_callback(statements.append)
    read_records(connection, 1, Span(thread_id="t", start=0, stop=9), Filter(**{**every, **filters}))
    connection.set_trace_callback(None)
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    connection.close()
    assert f"SEARCH record USING {way}" in plan


@pytest.mark.anyio
@pytest.mark.usefixtures("store")
async def test_the_newest_of_several_landmarks_are_found_without_sorting_them_all(tmp_path: Path) -> None:
    """Each kind is sought from its end; only the few that were found are put in order."""
    statements: list[str] = []
    connection = sqlite3.connect(tmp_path / "s.db")
    connection.set_trace_callback(statements.append)
    wanted = Filter(kinds=LANDMARKS, ordinals=None, turn=None, newest_first=True, limit=5, bodies=False)
    read_records(connection, 1, Span(thread_id="t", start=0, stop=9), wanted)
    connection.set_trace_callback(None)
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {statements[0]}")]
    connection.close()
    sorted_after = {before for before, detail in pairwise(plan) if "TEMP B-TREE" in detail}
    assert all(before.startswith("SCAN (subquery") for before in sorted_after)
    assert sum("COVERING INDEX record_landmark" in detail for detail in plan) == len(LANDMARKS)


@pytest.mark.anyio
@pytest.mark.usefixtures("store")
async def test_a_search_seeks_its_threads_by_name(tmp_path: Path) -> None:
    """The threads that are searched are sought one by one; not every thread of the tenant is looked at for each of them."""
    connection = sqlite3.connect(tmp_path / "s.db")
    given = {"spans": '[["t", 0, 9]]', "tenant": 1, "match": "words", "limit": 5}
    plan = [detail for *_, detail in connection.execute(f"EXPLAIN QUERY PLAN {QUERIES['search']}", given)]
    connection.close()
    spans = next(place for place, detail in enumerate(plan) if detail.startswith("SCAN given"))
    assert plan[spans + 1].startswith("SEARCH thread USING")
    assert plan[spans + 1].endswith("(tenant=? AND name=?)")
