"""A connection lost during a commit: the server is asked what became of it, and what was wanted happens once.

Of one backend alone: a file has no connection to lose.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from tests.postgres import PostgresServer

from threadkeep.errors import StoreClosed, StoreError
from threadkeep.store.postgres.connections import Connection, Connections
from threadkeep.store.postgres.sql_files import QUERIES
from threadkeep.store.postgres.writer import Writer

pytestmark = pytest.mark.anyio

ADD = b"INSERT INTO happened DEFAULT VALUES"


class AnswerLost(Connections):
    """Connections on which the first commit is carried out, and its answer never arrives."""

    lost = False

    @asynccontextmanager
    async def borrow(self) -> AsyncIterator[Connection]:
        async with super().borrow() as connection:
            yield connection
        if not self.lost:
            self.lost = True
            raise psycopg.OperationalError("the connection was closed")


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    made = await postgres_server.new_store()
    connection = await psycopg.AsyncConnection.connect(made, autocommit=True)
    async with connection:
        await connection.execute(b"CREATE TABLE happened (id bigint GENERATED ALWAYS AS IDENTITY)")
    return made


async def happened(url: str) -> int:
    connection = await psycopg.AsyncConnection.connect(url)
    async with connection:
        row = await (await connection.execute(b"SELECT count(*) FROM happened")).fetchone()
    assert row is not None
    return int(row[0])


async def test_a_commit_whose_answer_is_lost_is_not_done_twice(url: str) -> None:
    """The transaction was committed, says the server: its result is returned, and nothing is written again."""
    connections = AnswerLost(url, location="here")
    await connections.open()
    writer = Writer(connections)

    async def work(connection: Connection) -> str:
        await connection.execute(ADD)
        return "done"

    assert await writer.run(work) == "done"
    assert (connections.lost, await happened(url)) == (True, 1)
    await writer.close()
    await connections.close()


async def test_a_commit_that_never_was_is_done_again(url: str) -> None:
    """The connection is cut right before the commit: the transaction was aborted, says the server, and the work is repeated."""
    connections = Connections(url, location="here")
    await connections.open()
    writer = Writer(connections)
    tries = 0

    async def work(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        await connection.execute(ADD)
        if tries == 1:
            other = await psycopg.AsyncConnection.connect(url, autocommit=True)
            async with other:
                await other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        return tries

    assert await writer.run(work) == 2
    assert await happened(url) == 1
    await writer.close()
    await connections.close()


async def test_another_transaction_of_the_same_number_is_not_taken_for_ours(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A standby that took over gives numbers out again that it never heard of: whose commit it was is told by what it left."""
    connections = Connections(url, location="here")
    await connections.open()
    writer = Writer(connections)
    other = await psycopg.AsyncConnection.connect(url, autocommit=True)
    committed = await (await other.execute(b"SELECT pg_current_xact_id()::text")).fetchone()
    assert committed is not None
    number = str(committed[0]).encode()
    monkeypatch.setitem(QUERIES, "write", QUERIES["begin_write"].replace(b"pg_current_xact_id()::text", b"'%s'" % number))
    tries = 0

    async def work(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        await connection.execute(ADD)
        if tries == 1:
            await other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
        return tries

    async with other:
        assert await writer.run(work) == 2
    assert await happened(url) == 1
    await writer.close()
    await connections.close()


async def test_a_writer_that_is_gone_leaves_no_mark(url: str) -> None:
    """The row by which a process knows its own commits goes with it, and what a killed one left is taken away by a later one."""
    connections = Connections(url, location="here")
    await connections.open()
    writer, marks = Writer(connections), b"SELECT count(*) FROM threadkeep.writer"
    other = await psycopg.AsyncConnection.connect(url, autocommit=True)

    async def add(connection: Connection) -> None:
        await connection.execute(ADD)

    async with other:
        await other.execute(b"INSERT INTO threadkeep.writer VALUES ('killed', 'then', now() - interval '2 days')")
        await other.execute(b"INSERT INTO threadkeep.writer VALUES ('alive', 'now', now())")
        await writer.run(add)
        await writer.run(add)
        assert await (await other.execute(marks)).fetchone() == (3,)
        await writer.close()
        assert await (await other.execute(b"SELECT name FROM threadkeep.writer")).fetchall() == [("alive",)]
    await connections.close()


async def test_one_failure_is_one_callers(url: str) -> None:
    """Of several operations in one transaction the failed one is told so, and the others are durable."""

    connections = Connections(url, location="here")
    await connections.open()
    writer = Writer(connections)

    async def good(connection: Connection) -> str:
        await connection.execute(ADD)
        return "done"

    async def bad(connection: Connection) -> str:
        await connection.execute(b"SELECT 1 / 0")
        return "never"

    async def strange(connection: Connection) -> str:
        await connection.execute("SELECT %s", ("\ud83d",))
        return "never"

    outcomes = await asyncio.gather(*map(writer.run, (good, bad, good, strange, good)), return_exceptions=True)
    assert [type(each) if isinstance(each, Exception) else each for each in outcomes] == [
        "done",
        StoreError,
        "done",
        StoreError,
        "done",
    ]
    assert await happened(url) == 3
    await writer.close()
    with pytest.raises(StoreClosed):
        await writer.run(good)
    await connections.close()
