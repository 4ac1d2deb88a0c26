"""Word of mail and checkpoints reaches other processes at once; where it cannot, they look, and find them all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from tests.postgres import PostgresServer
from tests.replicas.clusters import pooler, servers

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import StoreUnreachable
from threadkeep.store import NewRecord, NewThread, RecordKind
from threadkeep.store.postgres import PostgresDatabase

pytestmark = pytest.mark.anyio

SECONDS = 60


def only_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everybody who is not told look so seldom that a test would not see it."""
    monkeypatch.setattr("threadkeep.store.watchers.FIRST_PAUSE_S", 10.0 * SECONDS)
    monkeypatch.setattr("threadkeep.store.postgres.listener.ALIVE_SECONDS", 10.0 * SECONDS)
    monkeypatch.setattr("threadkeep.threads.mailbox.LOOK_ANYWAY_S", 10.0 * SECONDS)


@asynccontextmanager
async def waiting(url: str, *, listen: str | None = None) -> AsyncIterator[tuple[Thread, asyncio.Task[list[str]]]]:
    """A thread as one process has it, and another process that waits for its mail."""
    async with (
        asyncio.timeout(SECONDS),
        Threadkeep(Config(store=url)) as here,
        Threadkeep(Config(store=url, store_listen=listen)) as there,
    ):
        thread = await here.thread("t")

        async def wait() -> list[str]:
            box = await (await there.thread("t")).wait_for_mail()
            return [mail.sender for mail in box.pending]

        task = asyncio.create_task(wait())
        yield thread, task
        await task


async def listeners(url: str) -> list[int]:
    """Return the servers' processes that listen, once there is one."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        while True:
            rows = await (await connection.execute(LISTENING)).fetchall()
            if rows:
                return [process for (process,) in rows]


LISTENING = b"SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query = 'LISTEN threadkeep'"


async def test_mail_wakes_another_process(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for mail is told by the server, and does not have to look for it."""
    only_told(monkeypatch)
    url = await postgres_server.new_store()
    async with waiting(url) as (thread, task):
        await listeners(url)
        await thread.deliver("hello", sender="her")
        assert await task == ["her"]


async def test_a_commit_is_told_after_listening_began(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch is woken once when word begins to arrive; after that only a commit wakes it, of its thread or of any."""
    only_told(monkeypatch)
    url = await postgres_server.new_store()
    mail = NewRecord(kind=RecordKind.MAIL, at_ms=0, turn=0, tokens=0, body=b"{}")
    here, there = [await (await PostgresDatabase.open(url, searchable=lambda _, body: "")).open_tenant() for _ in range(2)]
    await here.create(NewThread(id="t", dialect="chat", created_at_ms=0), [])
    async with asyncio.timeout(SECONDS), there.watch("t") as one, there.watch() as every:
        assert [await watch.wait(within_s=2 * SECONDS) for watch in (one, every)] == [True, True]
        for ordinal in range(3):
            await here.append("t", [mail], expected=ordinal)
            assert [await watch.wait(within_s=2 * SECONDS) for watch in (one, every)] == [True, True]
    await here.close()
    await there.close()


async def test_mail_and_checkpoints_are_told_by_number_and_nothing_else_is(postgres_server: PostgresServer) -> None:
    """A listener hears the numbers of tenant and thread for those two kinds, once a commit, and no word of what was said."""
    url = await postgres_server.new_store()
    store = await (await PostgresDatabase.open(url, searchable=lambda _, body: "")).open_tenant()
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as heard:
        await heard.execute(b"LISTEN threadkeep")
        for name in ("first", "second"):
            await store.create(NewThread(id=name, dialect="chat", created_at_ms=0), [])
        kinds = [*RecordKind, RecordKind.MAIL]
        for ordinal, kind in enumerate(kinds):
            record = NewRecord(kind=kind, at_ms=0, turn=0, tokens=0, body=b"private")
            await store.append("second", [record], expected=ordinal)
        await store.append("second", [record, record], expected=len(kinds))
        notices = [(notice.channel, notice.payload) async for notice in heard.notifies(stop_after=4, timeout=SECONDS)]
        more = [notice.payload async for notice in heard.notifies(timeout=0)]
    await store.close()
    assert notices == [("threadkeep", "1 2")] * 4
    assert more == []


async def test_who_listens_listens_again_after_the_connection_was_lost(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends the listening connection; another takes its place, and mail that comes then is told through it."""
    only_told(monkeypatch)
    url = await postgres_server.new_store()
    async with waiting(url) as (thread, task):
        lost = await listeners(url)
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            for process in lost:
                await connection.execute(b"SELECT pg_terminate_backend(%s)", [process])
        while set(await listeners(url)) & set(lost):
            pass
        await thread.deliver("hello", sender="her")
        assert await task == ["her"]


async def test_an_address_to_listen_at_that_nobody_answers_is_told_at_once(postgres_server: PostgresServer) -> None:
    """A mistyped `store_listen` is an error when the store is opened, without its password, and not a silence later."""
    wrong = "postgresql://me:hunter22@127.0.0.1:1/none"
    with pytest.raises(StoreUnreachable) as told:
        async with Threadkeep(Config(store=await postgres_server.new_store(), store_listen=wrong)):
            pass
    assert "hunter22" not in str(told.value)


async def test_behind_a_pooler_mail_is_found_by_looking() -> None:
    """Through PgBouncer in transaction mode nobody listens; who waits for mail looks for it and finds it."""
    with servers(1) as (server,):
        await asyncio.to_thread(server.begin)
        with pooler(server) as url:
            async with waiting(url) as (thread, task):
                await thread.deliver("hello", sender="her")
                assert await task == ["her"]
            async with await psycopg.AsyncConnection.connect(server.url, autocommit=True) as connection:
                assert await (await connection.execute(LISTENING)).fetchall() == []


async def test_behind_a_pooler_with_an_address_to_listen_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `store_listen` naming the server itself, mail is told past the pooler."""
    only_told(monkeypatch)
    with servers(1) as (server,):
        await asyncio.to_thread(server.begin)
        with pooler(server) as url:
            async with waiting(url, listen=server.url) as (thread, task):
                await listeners(server.url)
                await thread.deliver("hello", sender="her")
                assert await task == ["her"]
