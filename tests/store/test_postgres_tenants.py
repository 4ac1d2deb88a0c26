"""The database itself refuses what a store must never do, to a tenant's role and to the owner of the tables.

Of one backend alone: roles and row-level security are the server's.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import psycopg
import pytest
from psycopg import errors as failures
from tests.postgres import OWNER, PostgresServer

from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.postgres import PostgresDatabase, PostgresStore

pytestmark = pytest.mark.anyio

REFUSED = (
    failures.IntegrityConstraintViolation,
    failures.CheckViolation,
    failures.InsufficientPrivilege,
    failures.FeatureNotSupported,
)
PARTITIONS = tuple(f"record_{number}" for number in range(8))


def item(body: bytes) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body, chain=body.ljust(20, b"."), depth=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A database with two tenants, opened as the owner of its tables or as a superuser."""

    url: str
    mine: PostgresStore
    theirs: PostgresStore

    async def connection(self, *, tenant: str = "") -> psycopg.AsyncConnection[tuple[object, ...]]:
        """Return a connection within one tenant's transaction, as the store would have it."""
        connection = await psycopg.AsyncConnection.connect(self.url)
        await connection.execute(
            "SELECT set_config('search_path', 'threadkeep', false), set_config('threadkeep.tenant', %s, false)", (tenant,)
        )
        if OWNER not in self.url:
            await connection.execute(b"SET ROLE threadkeep_tenant")
        return connection


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module", params=["owner", "superuser"])
async def place(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Place]:
    url = await postgres_server.new_store()
    if request.param == "superuser":
        url = url.replace(f"//{OWNER}:@", "//postgres:@")
    database = await PostgresDatabase.open(url, searchable=lambda _, body: body.decode())
    mine, theirs = await database.open_tenant("mine"), await database.open_tenant("theirs")
    for store, text in ((mine, b"mine"), (theirs, b"theirs")):
        await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [item(text), item(text + b" too")])
        await store.create(NewThread(id="erased", dialect="chat", created_at_ms=0), [item(text + b" gone")])
        await store.search([Span(thread_id="t", start=0, stop=9)], "mine theirs", limit=9)
        await store.acquire("k", holder=text.decode(), now_ms=0, ttl_ms=9)
    await mine.erase("erased", [0], at_ms=1)
    yield Place(url=url, mine=mine, theirs=theirs)
    await database.close()


FORBIDDEN = [
    "UPDATE record SET tokens = 1",
    "DELETE FROM record",
    "TRUNCATE record",
    *(f"TRUNCATE {partition}" for partition in PARTITIONS),
    "TRUNCATE record CASCADE",
    "UPDATE thread SET name = 'u'",
    "DELETE FROM thread",
    "TRUNCATE thread CASCADE",
    "UPDATE body SET digest = decode(repeat('00', 20), 'hex')",
    "UPDATE body SET data = 'other' WHERE erased_at_ms IS NULL",
    "UPDATE body SET erased_at_ms = 9 WHERE erased_at_ms IS NULL",
    "UPDATE body SET data = 'back' WHERE erased_at_ms IS NOT NULL",
    "UPDATE body SET erased_at_ms = NULL WHERE erased_at_ms IS NOT NULL",
    "DELETE FROM body",
    "TRUNCATE body CASCADE",
    "TRUNCATE tenant CASCADE",
    """INSERT INTO record (thread, ordinal, tenant, kind, at_ms, turn, tokens, body)
        SELECT thread, 9, tenant, 'thought', 0, 0, 0, body FROM record LIMIT 1""",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
async def test_history_cannot_be_rewritten(statement: str, place: Place) -> None:
    """Neither a tenant's role nor the owner can change or remove a record, a thread, a body or a tombstone of their own."""
    before = await place.mine.read(Span(thread_id="t", start=0, stop=9))
    connection = await place.connection(tenant=str(place.mine._number))
    with pytest.raises(REFUSED):
        await connection.execute(statement.encode())
    await connection.close()
    assert await place.mine.read(Span(thread_id="t", start=0, stop=9)) == before


@pytest.mark.parametrize("partition", PARTITIONS)
async def test_a_partition_shows_no_more_than_its_parent(partition: str, place: Place) -> None:
    """Asked by its own name, a partition shows its owner the rows of the one tenant, and a tenant's role nothing."""
    connection = await place.connection(tenant=str(place.mine._number))
    try:
        seen = await (await connection.execute(f"SELECT DISTINCT tenant FROM {partition}".encode())).fetchall()
    except failures.InsufficientPrivilege:
        seen = []
    await connection.close()
    assert seen in ([], [(place.mine._number,)])


SECRETS = {
    "tenant": "SELECT key FROM tenant",
    "thread": "SELECT name FROM thread",
    "record": "SELECT ordinal FROM record",
    "body": "SELECT data FROM body",
    "lease": "SELECT holder FROM lease",
    "search": "SELECT words FROM search",
}


@pytest.mark.parametrize("table", SECRETS)
async def test_without_a_tenant_nothing_is_there(table: str, place: Place) -> None:
    """A query outside any tenant's transaction sees no row, keys of tenants included."""
    connection = await place.connection()
    assert await (await connection.execute(SECRETS[table].encode())).fetchall() == []
    await connection.close()


async def test_a_tenant_sees_its_own_rows_alone(place: Place) -> None:
    """No query returns another tenant's records, bytes, words, leases or keys."""
    connection = await place.connection(tenant=str(place.mine._number))
    bodies = await (await connection.execute(b"SELECT data FROM body ORDER BY data")).fetchall()
    holders = await (await connection.execute(b"SELECT holder FROM lease")).fetchall()
    records = await (await connection.execute(b"SELECT count(*) FROM record")).fetchall()
    words = await (await connection.execute(b"SELECT count(*) FROM search WHERE words @@ to_tsquery('theirs')")).fetchall()
    keys = await (await connection.execute(b"SELECT key FROM tenant")).fetchall()
    await connection.close()
    assert (bodies, holders, records, words, keys) == ([(b"",), (b"mine",), (b"mine too",)], [("mine",)], [(3,)], [(0,)], [])


async def test_a_tenant_cannot_write_into_another(place: Place) -> None:
    """A row that says it is another tenant's is refused by the policy."""
    connection = await place.connection(tenant=str(place.mine._number))
    for statement in (
        "INSERT INTO thread (tenant, name, dialect, created_at_ms, start) VALUES (%s, 'planted', 'chat', 0, 0)",
        "INSERT INTO body (tenant, digest, data) VALUES (%s, decode(repeat('00', 20), 'hex'), 'planted')",
        "INSERT INTO lease (tenant, key, holder, ttl_ms, expires_at_ms) VALUES (%s, 'planted', 'x', 1, 1)",
    ):
        with pytest.raises(failures.InsufficientPrivilege):
            async with connection.transaction():
                await connection.execute(statement.encode(), (place.theirs._number,))
    await connection.close()
    assert await place.theirs.lookup([item(b"mine").chain or b""]) == []


async def test_the_next_transaction_belongs_to_nobody(place: Place) -> None:
    """What a transaction was told about its tenant and role ends with it: behind a pooler the next one may be another's."""
    connection = await psycopg.AsyncConnection.connect(place.url, autocommit=True)
    async with connection.transaction():
        await connection.execute(
            "SELECT set_config('threadkeep.tenant', %s, true), set_config('search_path', 'threadkeep', true)",
            (str(place.mine._number),),
        )
    told = await (
        await connection.execute(b"SELECT current_setting('threadkeep.tenant', true), current_setting('role')")
    ).fetchone()
    await connection.close()
    assert told == ("", "none")
