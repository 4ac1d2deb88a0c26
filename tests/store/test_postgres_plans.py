"""What a resume, an append and a lookup cost does not depend on what else is there: every table is sought, none is walked.

Of one backend alone: plans are the server's; test_sqlite_append_only.py has SQLite's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import psycopg
import pytest
from tests.postgres import PostgresServer

from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.postgres import PostgresDatabase, PostgresStore
from threadkeep.store.postgres.sql_files import QUERIES
from threadkeep.store.postgres.store import choose_query

pytestmark = pytest.mark.anyio

RECORDS = 3_000
SPAN = Span(thread_id="t0", start=0, stop=RECORDS)


def record(number: int) -> NewRecord:
    rare = {499: RecordKind.CHECKPOINT, 250: RecordKind.MAIL}
    kind = rare.get(number % 500, RecordKind.TURN if number % 10 == 0 else RecordKind.ITEM)
    body = f"{number}".encode()
    chain = body.rjust(20, b".") if kind is RecordKind.ITEM else None
    return NewRecord(kind=kind, at_ms=0, turn=number // 10, tokens=0, body=body, chain=chain, depth=number if chain else None)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["new", "analyzed"])
async def filled(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[tuple[str, PostgresStore]]:
    """Some threads of some thousand records, of which the planner knows nothing yet, or everything."""
    url = await postgres_server.new_store()
    store = await (await PostgresDatabase.open(url, searchable=lambda _, body: body.decode())).open_tenant()
    for thread in range(6):
        await store.create(
            NewThread(id=f"t{thread}", dialect="chat", created_at_ms=0), [record(number) for number in range(RECORDS)]
        )
    if request.param == "analyzed":
        connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
        await connection.execute(b"ANALYZE")
        await connection.close()
    yield url, store
    await store.close()


async def plan(url: str, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every node of a query's plan, as the tenant's transaction would have it."""
    connection = await psycopg.AsyncConnection.connect(url)
    await connection.execute(QUERIES["enter_tenant"], {"tenant": "1", "name": "local", "role": "none"})
    told = await (await connection.execute(b"EXPLAIN (FORMAT JSON, COSTS OFF) " + QUERIES[query], values)).fetchone()
    await connection.close()
    assert told is not None
    nodes, found = [told[0][0]["Plan"]], []
    while nodes:
        node = nodes.pop()
        found.append(node)
        nodes.extend(node.get("Plans", ()))
    return found


READ: dict[str, Any] = {
    "thread": 1,
    "start": 0,
    "stop": RECORDS,
    "kinds": None,
    "ordinals": None,
    "turn": None,
    "bodies": True,
    "limit": 64,
}
QUESTIONS = [
    ("find_threads", {"names": ["t0"]}),
    ("thread_end", {"thread": 1}),
    ("thread_ends", {"threads": [1, 2]}),
    ("read", {**READ, "start": RECORDS - 50, "kinds": ["item"]}),
    ("newest", READ),
    ("read", {**READ, "ordinals": [1, 5, 900]}),
    ("newest_landmarks", {**READ, "kinds": ["checkpoint", "meta", "rollback", "undo"], "bodies": False}),
    ("landmarks", {**READ, "kinds": ["turn", "checkpoint"], "turn": 7}),
    ("mail", READ),
    ("newest_mail", READ),
    ("turn", {**READ, "turn": 7}),
    ("newest_turn", {**READ, "turn": 7}),
    ("lookup_chains", {"chains": [b"1".rjust(20, b"."), b"none".rjust(20, b".")]}),
    ("find_bodies", {"digests": [b"." * 20]}),
    ("find_tenant", {"name": "local"}),
    ("search", {"threads": [1], "starts": [0], "stops": [RECORDS], "query": "'word'", "limit": 5}),
    ("unindexed", {"thread": 1, "start": 0, "stop": RECORDS, "limit": 5}),
    ("index_words", {"tenant": 1, "thread": 1, "ordinals": [1, 2], "words": ["a", "b"]}),
    ("bodies_to_erase", {"thread": 1, "ordinals": [1, 5]}),
]


@pytest.mark.parametrize(("query", "values"), QUESTIONS, ids=[name for name, _ in QUESTIONS])
async def test_no_table_is_walked(query: str, values: dict[str, Any], filled: tuple[str, PostgresStore]) -> None:
    """Resume, append, lookup and erasure seek what they want through an index, in every table they touch."""
    url, _ = filled
    walked = [node.get("Relation Name") for node in await plan(url, query, values) if node["Node Type"] == "Seq Scan"]
    assert walked == []


@pytest.mark.parametrize(("query", "values"), QUESTIONS, ids=[name for name, _ in QUESTIONS])
async def test_nothing_is_sought_by_its_tenant_alone(
    query: str, values: dict[str, Any], filled: tuple[str, PostgresStore]
) -> None:
    """Every seek names more than whose it is: a tenant's bodies and threads are not gone through to find one of them."""
    url, _ = filled
    conditions = [str(node["Index Cond"]) for node in await plan(url, query, values) if "Index Cond" in node]
    assert [each for each in conditions if " AND " not in each and "threadkeep.tenant'" in each] == []


async def test_a_history_is_looked_up_by_its_digests(filled: tuple[str, PostgresStore]) -> None:
    """No thread's records are gone through to find a digest: in every partition the digest itself is sought."""
    url, _ = filled
    scans = [
        node for node in await plan(url, "lookup_chains", {"chains": [b"." * 20]}) if "record" in node.get("Relation Name", "")
    ]
    assert len(scans) == 8
    assert [node["Index Name"] for node in scans if "chain" not in node["Index Cond"]] == []


async def test_the_newest_checkpoint_is_sought_from_the_end(filled: tuple[str, PostgresStore]) -> None:
    """Of the landmarks of a thread only those that are wanted are read, backwards, in the index that leaves items out."""
    url, store = filled
    values = {**READ, "kinds": ["checkpoint"], "limit": 1}
    scans = [node for node in await plan(url, "newest_landmarks", values) if "Index Name" in node]
    backwards = {node["Scan Direction"] for node in scans if "thread_kind_ordinal" in node["Index Name"]}
    assert backwards == {"Backward"}
    found = await store.read(SPAN, kinds={RecordKind.CHECKPOINT}, newest_first=True, limit=1)
    assert [each.ordinal for each in found] == [RECORDS - 1]


@pytest.mark.parametrize("query", ["mail", "newest_mail"])
async def test_mail_is_sought_among_mail_alone(query: str, filled: tuple[str, PostgresStore]) -> None:
    """A mailbox is read through the index that holds nothing but mail, however many items lie between two letters."""
    url, store = filled
    scans = [node for node in await plan(url, query, READ) if "record" in node.get("Relation Name", "")]
    assert {node["Index Name"] for node in scans} == {f"{node['Relation Name']}_thread_ordinal_idx" for node in scans}
    found = await store.read(SPAN, kinds={RecordKind.MAIL}, newest_first=query == "newest_mail", limit=2)
    assert [each.ordinal for each in found] == ([2750, 2250] if query == "newest_mail" else [250, 750])


@pytest.mark.parametrize("query", ["turn", "newest_turn"])
async def test_a_turn_is_sought_by_its_number(query: str, filled: tuple[str, PostgresStore]) -> None:
    """Where a turn begins is asked of the index over turns: a fork at turn 100,000 goes through none of those around it."""
    url, store = filled
    newest_first = query == "newest_turn"
    assert choose_query({RecordKind.TURN}, turn=7, newest_first=newest_first) == query
    scans = [node for node in await plan(url, query, {**READ, "turn": 7}) if "record" in node.get("Relation Name", "")]
    assert [node["Index Name"] for node in scans] == [f"{node['Relation Name']}_thread_turn_idx" for node in scans]
    assert len(scans) == 1
    found = await store.read(SPAN, kinds={RecordKind.TURN}, turn=7, newest_first=newest_first)
    assert [(each.ordinal, each.turn) for each in found] == [(70, 7)]
    beyond = Span(thread_id="t0", start=71, stop=RECORDS)
    assert await store.read(beyond, kinds={RecordKind.TURN}, turn=7, newest_first=newest_first) == []
