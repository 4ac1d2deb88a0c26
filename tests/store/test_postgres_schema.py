"""The schema is the sum of its migrations, and moves while processes of the release before are at work.

Of one backend alone: a server's schema moves under processes of two releases; test_sqlite_file.py has a file's.
"""

from __future__ import annotations

import psycopg
import pytest
from tests.postgres import PostgresServer

from threadkeep.errors import StoreBusy, StoreError, StoreTooNew, StoreUnreachable
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.postgres import PostgresDatabase, PostgresStore
from threadkeep.store.postgres.connections import Connections
from threadkeep.store.postgres.migrations import MIGRATIONS, Migrated, Migration, choose_next, migrate
from threadkeep.store.postgres.sql_files import SQL_FOLDER

pytestmark = pytest.mark.anyio

ITEM = NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=b"kept")
FIRST = MIGRATIONS[-1].version
ADDING = Migration(version=FIRST + 1, phase="pre", sql=b"ALTER TABLE record ADD COLUMN cost bigint NOT NULL DEFAULT 0")
TAKING = Migration(version=FIRST + 2, phase="post", sql=b"ALTER TABLE record DROP COLUMN redacted")
LATER = Migration(version=FIRST + 3, phase="pre", sql=b"ALTER TABLE record ADD COLUMN later bigint")

EVERYTHING = {
    "columns": """SELECT table_name, column_name, data_type, is_nullable, column_default, collation_name, is_identity
        FROM information_schema.columns WHERE table_schema = 'threadkeep' ORDER BY 1, 2""",
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'threadkeep' ORDER BY 1, 2",
    "constraints": """SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
        WHERE connamespace = 'threadkeep'::regnamespace ORDER BY 1, 2""",
    "triggers": """SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger
        WHERE NOT tgisinternal ORDER BY 1, 2""",
    "functions": (
        "SELECT proname, pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = 'threadkeep'::regnamespace ORDER BY 1"
    ),
    "walls": """SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class
        WHERE relnamespace = 'threadkeep'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1""",
    "policies": """SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies
        WHERE schemaname = 'threadkeep' ORDER BY 1, 2""",
}


async def opened(url: str) -> PostgresStore:
    return await (await PostgresDatabase.open(url, searchable=lambda _, body: body.decode())).open_tenant()


async def described(url: str) -> dict[str, list[tuple[object, ...]]]:
    connection = await psycopg.AsyncConnection.connect(url)
    async with connection:
        found = {name: await (await connection.execute(sql.encode())).fetchall() for name, sql in EVERYTHING.items()}
    # Which migrations were run is told in a table of its own, which the runner makes.
    return {name: [row for row in rows if not str(row[0]).endswith("migration")] for name, rows in found.items()}


async def test_the_schema_is_the_sum_of_the_migrations(postgres_server: PostgresServer) -> None:
    """A database made from schema.sql has every column, index, trigger, function and policy a migrated one has, and no other."""
    migrated, made = await postgres_server.new_store(), await postgres_server.new_database()
    connection = await psycopg.AsyncConnection.connect(made, autocommit=True)
    async with connection:
        await connection.execute(b"CREATE SCHEMA threadkeep")
        await connection.execute(b"SET search_path TO threadkeep")
        await connection.execute((SQL_FOLDER / "schema.sql").read_bytes())
    by_migrations, by_schema = await described(migrated), await described(made)
    assert all(by_migrations.values())
    assert by_schema == by_migrations


async def test_every_table_stands_behind_the_wall(postgres_server: PostgresServer) -> None:
    """Each table, partitions and tenants too, has row-level security that binds its owner; what is about processes needs none."""
    walls = [row for row in (await described(await postgres_server.new_store()))["walls"] if row[0] != "writer"]
    assert len(walls) == 14
    assert [row for row in walls if row[1:] != (True, True)] == []


async def test_an_old_process_goes_on_beside_a_pre_migration(postgres_server: PostgresServer) -> None:
    """While a newer release adds to the schema, one that does not know it appends, reads, and opens the database anew."""
    url = await postgres_server.new_store()
    old = await opened(url)
    await old.create(NewThread(id="t", dialect="chat", created_at_ms=0), [ITEM])
    newer = Connections(url, location="newer")
    await newer.open()
    steps = [*MIGRATIONS, ADDING, TAKING]
    assert await migrate(newer, steps=steps) == Migrated(applied=(ADDING.version,), pending=(TAKING.version,))
    assert await old.append("t", [ITEM], expected=1) == 2
    restarted = await opened(url)
    assert await restarted.append("t", [ITEM], expected=2) == 3
    assert [record.body for record in await old.read(Span(thread_id="t", start=0, stop=9))] == [b"kept"] * 3
    await restarted.close()

    assert await migrate(newer, steps=steps, post=True) == Migrated(applied=(TAKING.version,), pending=())
    with pytest.raises(StoreTooNew) as refused:
        await opened(url)
    assert (refused.value.found, refused.value.known) == (TAKING.version, FIRST)
    await old.close()
    await newer.close()


async def test_a_migration_behind_one_that_waits_is_refused_with_what_to_do(postgres_server: PostgresServer) -> None:
    """A release that builds on what an earlier `post` migration left says so, and changes nothing."""
    newer = Connections(await postgres_server.new_store(), location="newer")
    await newer.open()
    with pytest.raises(StoreError, match=rf"migration {TAKING.version} is still to be run; .*`threadkeep migrate --post`"):
        await migrate(newer, steps=[*MIGRATIONS, ADDING, TAKING, LATER])
    await newer.close()


async def test_a_migration_that_cannot_have_its_table_gives_way(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a long reader a migration does not hold up those who come after it: it gives up, and nothing of it was done."""
    monkeypatch.setattr("threadkeep.store.postgres.migrations.TRIES", 1)
    url = await postgres_server.new_store()
    reader = await psycopg.AsyncConnection.connect(url)
    newer = Connections(url, location="newer")
    await newer.open()
    async with reader:
        await reader.execute(b"SELECT count(*) FROM threadkeep.record")
        with pytest.raises(StoreBusy):
            await migrate(newer, steps=[*MIGRATIONS, ADDING])
    assert await migrate(newer, steps=[*MIGRATIONS, ADDING]) == Migrated(applied=(ADDING.version,), pending=())
    await newer.close()


async def test_many_processes_open_a_new_database_at_once(postgres_server: PostgresServer) -> None:
    """One migrates, the others wait for it, and all of them have a store."""
    url = await postgres_server.new_database()
    connections = [Connections(url, location=str(number)) for number in range(4)]
    for each in connections:
        await each.open()
    ran = [await migrate(each) for each in connections]
    assert [each.applied for each in ran] == [tuple(step.version for step in MIGRATIONS), (), (), ()]
    for each in connections:
        await each.close()


def test_a_new_database_gets_everything_at_once() -> None:
    """Where nothing was ever run there is no older process, so `post` migrations are run too."""
    steps = [*MIGRATIONS, ADDING, TAKING]
    assert choose_next({}, steps, location="new", post=False) == steps


async def test_an_address_where_nobody_answers_is_told_at_once(postgres_server: PostgresServer) -> None:
    """A database that is not there is a named error with the server's reason, and without a password."""
    url = (await postgres_server.new_database()).replace("//threadkeep_owner:@/", "//threadkeep_owner:hunter22@/missing")
    with pytest.raises(StoreUnreachable, match="does not exist") as told:
        await PostgresDatabase.open(url, searchable=lambda _, body: "")
    assert "hunter22" not in str(told.value)
