"""Three gateways on one database under real clients, for as long as `THREADKEEP_REPLICA_SECONDS` says.

Gateways are killed at random, the database restarts, then a standby takes its place. Afterwards everything that was answered is
there, no thread was compacted twice for one need, and nothing is damaged.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from tests.drivers.npm import CODEX_0_166, install
from tests.drivers.process import ClientUnavailable
from tests.replicas.client_turns import SECONDS, Answers, ChatClient, Client, CodexClient, MessagesClient, ResponsesClient
from tests.replicas.clusters import Cluster, servers
from tests.replicas.fleet import Balancer, Replica, provider
from tests.replicas.stored import compactions, is_answered, known_items

from threadkeep import Config, Threadkeep
from threadkeep.store import RecordKind, Span

LENGTH_SECONDS = float(os.environ.get("THREADKEEP_REPLICA_SECONDS", "45"))
# Beside its length, the servers' beginning, and reading everything that was written once more.
pytestmark = [pytest.mark.anyio, pytest.mark.chaos, pytest.mark.timeout(LENGTH_SECONDS + 900)]

REPLICAS = 3
BETWEEN_KILLS_SECONDS = (2.0, 6.0)
CLIENTS = Path(os.environ.get("THREADKEEP_CLIENTS") or Path(__file__).parents[2] / ".cache" / "clients")


@dataclass(slots=True)
class Harm:
    """What was done to the gateways and to the database, and the answers it waits for."""

    kills: int = 0
    restarts: int = 0
    failovers: int = 0
    answers: Answers = field(default_factory=Answers)


@asynccontextmanager
async def two_servers() -> AsyncIterator[tuple[str, Cluster, Cluster]]:
    """A database and a standby that has everything before it is acknowledged, and the address of both."""
    with servers(2) as (primary, standby):
        await asyncio.to_thread(primary.begin, f"synchronous_standby_names = 's{standby.port}'")
        await asyncio.to_thread(standby.copy_of, primary)
        hosts = f"host={primary.folder},{standby.folder}&port={primary.port},{standby.port}"
        yield f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=read-write", primary, standby


async def kill_now_and_then(replicas: list[Replica], chance: random.Random, harm: Harm) -> None:
    while True:
        await harm.answers.after(chance.uniform(*BETWEEN_KILLS_SECONDS))
        replica = chance.choice(replicas)
        await replica.kill()
        harm.kills += 1
        while replica.url is None:
            await replica.start()


async def lose_the_database(primary: Cluster, standby: Cluster, harm: Harm) -> None:
    """A third of the way the server restarts; after two thirds it is gone for good, and its standby is promoted."""
    await harm.answers.after(LENGTH_SECONDS / 3)
    await asyncio.to_thread(primary.stop)
    await asyncio.to_thread(primary.start)
    harm.restarts += 1
    await harm.answers.after(LENGTH_SECONDS / 3)
    await asyncio.to_thread(primary.stop)
    await asyncio.to_thread(standby.promote)
    harm.failovers += 1


async def codex_there() -> Path | None:
    """Return Codex's command, or nothing where npm is not there to get it."""
    if shutil.which("npm") is None:
        return None
    try:
        return await install(CODEX_0_166, CLIENTS)
    except ClientUnavailable:
        return None


async def test_real_clients_lose_nothing_to_kills_a_restart_and_a_failover(
    tmp_path: Path, record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> None:
    """What was answered to its end is stored, whatever was killed meanwhile; each need was compacted once; verify is clean."""
    chance, harm = random.Random(9), Harm()
    binary = await codex_there()
    async with AsyncExitStack() as stack:
        store, primary, standby = await stack.enter_async_context(two_servers())
        upstream = await stack.enter_async_context(provider())
        replicas = [Replica(store, upstream=upstream, folder=tmp_path) for _ in range(REPLICAS)]
        for replica in replicas:
            stack.push_async_callback(replica.kill)
            await replica.start()
        url = await stack.enter_async_context(Balancer(replicas, chance).serving())
        clients, codex = await talked(url, tmp_path, binary, harming(replicas, primary, standby, chance, harm), harm.answers)
        for replica in replicas:
            await replica.kill()
        figures = await check(store, clients, codex)
    assert (harm.restarts, harm.failovers) == (1, 1)
    assert harm.kills > 0
    figures |= {"kills": harm.kills, "seconds": int(LENGTH_SECONDS)}
    for name, value in figures.items():
        record_property(name, value)
    with capsys.disabled():
        sys.stdout.write(f"\n{figures}\n")


@asynccontextmanager
async def harming(
    replicas: list[Replica], primary: Cluster, standby: Cluster, chance: random.Random, harm: Harm
) -> AsyncIterator[asyncio.Task[None]]:
    """Do harm inside the block; it is given the task that is done when the database has been lost for good."""
    killing = asyncio.create_task(kill_now_and_then(replicas, chance, harm))
    losing = asyncio.create_task(lose_the_database(primary, standby, harm))
    try:
        yield losing
    finally:
        killing.cancel()
        losing.cancel()
        await asyncio.gather(killing, losing, return_exceptions=True)


async def talked(
    url: str, folder: Path, binary: Path | None, harm: AbstractAsyncContextManager[asyncio.Task[None]], answers: Answers
) -> tuple[list[Client], CodexClient | None]:
    """Let every client talk for as long as the test is to last, and until they were answered once more after that."""
    loop = asyncio.get_running_loop()
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key="sk-mock", timeout=SECONDS) as by_openai,
        AsyncAnthropic(base_url=url, api_key="sk-ant-mock", timeout=SECONDS) as by_anthropic,
        harm as lost,
    ):
        clients: list[Client] = [
            ResponsesClient("a", by_openai),
            ResponsesClient("b", by_openai),
            ChatClient("c", by_openai),
            MessagesClient("d", by_anthropic),
            MessagesClient("e", by_anthropic),
        ]
        codex = CodexClient(binary, folder=folder / "codex", base_url=f"{url}/v1") if binary is not None else None
        until = loop.time() + LENGTH_SECONDS

        def is_over() -> bool:
            return loop.time() > until and lost.done()

        await asyncio.gather(*(client.talk(is_over, answers) for client in clients), *([codex.talk(is_over)] if codex else []))
    return clients, codex


async def check(url: str, clients: list[Client], codex: CodexClient | None) -> dict[str, int]:
    """Hold what the clients were told against what is stored, and return figures."""
    async with Threadkeep(Config(store=url)) as tk:
        for told in (told for client in clients for told in client.told if told.acknowledged):
            assert await known_items(tk, told.history[: told.acknowledged], dialect=told.dialect) == told.acknowledged
            assert await is_answered(tk, told.history[: told.acknowledged], dialect=told.dialect)
        rows = await tk.backend.store.threads(limit=100_000)
        if codex is not None:
            spans = [Span(thread_id=row.id, start=row.start, stop=row.next) for row in rows if row.dialect == "responses"]
            read = [await tk.backend.store.read(span, kinds={RecordKind.ITEM}) for span in spans]
            stored = b"\n".join(record.body for records in read for record in records)
            assert [said for said in codex.answered if said.encode() not in stored] == []
        compacted = [await compactions(tk, row) for row in rows]
        assert sum(compacted) > 0
        verdict = await tk.verify()
        assert verdict.problems == ()
    return {
        "conversations": sum(len(client.told) for client in clients),
        "answered": sum(client.turns for client in clients),
        "asked again": sum(client.asked_again for client in clients),
        "codex turns": len(codex.answered) if codex else 0,
        "codex asked again": codex.asked_again if codex else 0,
        "threads": len(rows),
        "records": verdict.records,
        "compactions": sum(compacted),
    }
