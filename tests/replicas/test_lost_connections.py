"""Processes are killed, a server restarts, another takes its place: what was acknowledged is there, and the next call works."""

from __future__ import annotations

import asyncio

import pytest
from tests.replicas.clusters import pooler, servers
from tests.store.appender import record

from threadkeep import Config, Threadkeep
from threadkeep.items import digest_body
from threadkeep.store import NewThread, Span
from threadkeep.store.postgres import PostgresDatabase, PostgresStore

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

WRITERS = ("a", "b", "c")


async def opened(url: str) -> PostgresStore:
    return await (await PostgresDatabase.open(url, searchable=lambda _, body: body.decode())).open_tenant()


async def check_lanes(store: PostgresStore, reached: dict[str, int]) -> None:
    """Every lane has all that was acknowledged, without a gap, each record with its own bytes, and takes the next one."""
    for lane, acknowledged in reached.items():
        end = (await store.get(lane)).next
        assert end >= acknowledged
        found = [(each.ordinal, each.body, each.digest) for each in await store.read(Span(thread_id=lane, start=0, stop=10**9))]
        bodies = [record(f"{lane}-{ordinal}").body for ordinal in range(end)]
        assert found == [(ordinal, body, digest_body(body)) for ordinal, body in enumerate(bodies)]
        assert await store.append(lane, [record(f"{lane}-{end}")], expected=end) == end + 1


class Progress:
    """How far writers have come, and waiting until all of them have come further."""

    def __init__(self) -> None:
        self.reached: dict[str, int] = {}
        self.stopping = False
        self._moved = asyncio.Condition()

    async def write(self, store: PostgresStore, lane: str) -> None:
        """Append one record after another, with no care for what happens to the server, until told to stop."""
        await store.create(NewThread(id=lane, dialect="chat", created_at_ms=0), [])
        ordinal = 0
        while not self.stopping:
            ordinal = await store.append(lane, [record(f"{lane}-{ordinal}")], expected=ordinal)
            async with self._moved:
                self.reached[lane] = ordinal
                self._moved.notify_all()

    async def beyond(self, mark: dict[str, int], *, by: int) -> None:
        async with self._moved:
            await self._moved.wait_for(lambda: all(self.reached.get(lane, 0) >= mark.get(lane, 0) + by for lane in WRITERS))


async def test_a_restart_in_mid_append_is_not_noticed() -> None:
    """A server is stopped at once and started again, twice, under three writers: none of them sees an error, nothing is lost."""
    with servers(1) as (server,):
        await asyncio.to_thread(server.begin)
        store = await opened(server.url)
        progress = Progress()
        writers = [asyncio.create_task(progress.write(store, lane)) for lane in WRITERS]
        for _ in range(2):
            await progress.beyond({}, by=5)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            await progress.beyond(dict(progress.reached), by=5)
        progress.stopping = True
        await asyncio.gather(*writers)
        await check_lanes(store, progress.reached)
        await store.close()


async def test_a_standby_takes_over() -> None:
    """The primary dies, its standby is promoted: writers go on there by the same address, with all that was acknowledged."""
    with servers(2) as (primary, standby):
        await asyncio.to_thread(primary.begin, f"synchronous_standby_names = 's{standby.port}'", "synchronous_commit = on")
        await asyncio.to_thread(standby.copy_of, primary)
        folder = primary.folder
        url = (
            f"postgresql://postgres@/postgres?host={folder},{folder}&port={primary.port},{standby.port}"
            "&target_session_attrs=read-write"
        )
        store = await opened(url)
        progress = Progress()
        writers = [asyncio.create_task(progress.write(store, lane)) for lane in WRITERS]
        await progress.beyond({}, by=5)
        await asyncio.to_thread(primary.stop)
        await asyncio.to_thread(standby.promote)
        await progress.beyond(dict(progress.reached), by=5)
        progress.stopping = True
        await asyncio.gather(*writers)
        await check_lanes(store, progress.reached)
        await store.close()


async def test_a_pooler_in_transaction_mode_may_stand_in_between() -> None:
    """Behind PgBouncer two tenants record, compact, search, roll back and verify, each seeing its own."""
    with servers(1) as (server,):
        await asyncio.to_thread(server.begin)
        with pooler(server) as url:
            await asyncio.gather(*(talk(url, tenant) for tenant in ("mine", "theirs")))


async def talk(url: str, tenant: str) -> None:
    async with Threadkeep(Config(store=url, tenant=tenant)) as tk:
        thread = await tk.thread("t")
        for turn in range(8):
            said = f"{tenant}: never push to branch {turn} before the review"
            await thread.record(
                [
                    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]},
                    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "understood " * 400}]},
                ]
            )
        await thread.compact()
        await thread.rollback(turns=1)
        hits = await thread.recall("which branch before the review?")
        assert hits
        assert all(tenant in hit.text for hit in hits if "branch" in hit.text)
        assert [each.id for each in await tk.threads()] == ["t"]
        assert (await tk.verify()).problems == ()
