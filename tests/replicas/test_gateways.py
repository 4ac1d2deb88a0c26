"""Three gateways on one database: killed, restarted, their server restarted under them, and nothing acknowledged is lost.

`THREADKEEP_REPLICA_TURNS` says how long each conversation is; a long one is what `make test-chaos` is for.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout
from tests.replicas.clusters import Cluster, servers
from tests.replicas.fleet import Replica, provider
from tests.replicas.stored import compactions, is_answered, known_items

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

TURNS = int(os.environ.get("THREADKEEP_REPLICA_TURNS", "14"))
CONVERSATIONS = 4
REPLICAS = 3
PATIENCE_SECONDS = 120

Json = dict[str, object]


class Conversation:
    """A client that resends its whole history, to whichever gateway is there, until it is answered."""

    def __init__(self, number: int, replicas: list[Replica], chance: random.Random, database: asyncio.Event) -> None:
        self._number = number
        self._replicas = replicas
        self._chance = chance
        self._database = database
        self.history: list[Json] = []
        # How many items were in the last request that was answered to its end.
        self.acknowledged = 0

    async def play(self, client: ClientSession, said: asyncio.Queue[int]) -> None:
        for turn in range(TURNS):
            text = f"Conversation {self._number}: you must never rename table_{self._number}_{turn}."
            self.history.append({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
            output = await self._answered(client)
            self.acknowledged = len(self.history)
            self.history += output
            said.put_nowait(turn)

    async def _answered(self, client: ClientSession) -> list[Json]:
        body = json.dumps({"model": "m", "input": self.history}).encode()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                url = self._chance.choice([replica.url for replica in self._replicas if replica.url is not None])
                try:
                    async with client.post(f"{url}/v1/responses", data=body) as answer:
                        told = await answer.json(content_type=None)
                        if answer.status == 200:
                            output: list[Json] = told["output"]
                            return output
                except (ClientError, TimeoutError, ValueError):
                    pass
                await self._database.wait()


async def begun(loss: str, clusters: list[Cluster]) -> tuple[str, list[Callable[[], None]]]:
    """Begin the servers; return the address of the database, and what is to happen to it half way."""
    primary, standby = clusters
    if loss == "restart":
        await asyncio.to_thread(primary.begin)
        return primary.url, [primary.stop, primary.start]
    await asyncio.to_thread(primary.begin, f"synchronous_standby_names = 's{standby.port}'")
    await asyncio.to_thread(standby.copy_of, primary)
    hosts = f"host={primary.folder},{standby.folder}&port={primary.port},{standby.port}"
    return f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write", [primary.stop, standby.promote]


@pytest.mark.parametrize("loss", ["restart", pytest.param("failover", marks=pytest.mark.chaos)])
async def test_replicas_die_and_nothing_acknowledged_is_lost(loss: str, tmp_path: Path) -> None:
    """Gateways are killed in turn and the database is lost once; conversations run on, all is there, compacted once a need."""
    chance = random.Random(9)
    async with AsyncExitStack() as stack:
        store, steps = await begun(loss, stack.enter_context(servers(2)))
        upstream = await stack.enter_async_context(provider())
        client = await stack.enter_async_context(ClientSession(timeout=ClientTimeout(total=60)))
        replicas = [Replica(store, upstream=upstream, folder=tmp_path) for _ in range(REPLICAS)]
        for replica in replicas:
            stack.push_async_callback(replica.kill)
            await replica.start()
        said: asyncio.Queue[int] = asyncio.Queue()
        database = asyncio.Event()
        database.set()
        talks = [Conversation(number, replicas, chance, database) for number in range(CONVERSATIONS)]
        playing = [asyncio.create_task(talk.play(client, said)) for talk in talks]
        await harm(replicas, said, database, steps=steps)
        await asyncio.gather(*playing)
        for replica in replicas:
            await replica.kill()
        await check(store, talks)


async def harm(
    replicas: list[Replica], said: asyncio.Queue[int], database: asyncio.Event, *, steps: Sequence[Callable[[], None]]
) -> None:
    """Kill a replica after every few answers, and let happen to the database, half way, what is to happen.

    `database` is set whenever there is one.
    """
    total = CONVERSATIONS * TURNS
    for count in range(total):
        await said.get()
        if count % max(1, total // 5) == total // 10:
            replica = replicas[count % REPLICAS]
            await replica.kill()
            await replica.start()
        if count == total // 2:
            database.clear()
            for step in steps:
                await asyncio.to_thread(step)
            database.set()


async def check(url: str, talks: list[Conversation]) -> None:
    async with Threadkeep(Config(store=url)) as tk:
        for talk in talks:
            assert await known_items(tk, talk.history[: talk.acknowledged], dialect="responses") == talk.acknowledged
            assert await is_answered(tk, talk.history[: talk.acknowledged], dialect="responses")
        assert (await tk.verify()).problems == ()
        assert sum([await compactions(tk, row) for row in await tk.backend.store.threads(limit=1_000)]) > 0
