"""Many streams at once, for a while, in a process of its own: none is dropped, memory stays flat, and a kill loses nothing.

`THREADKEEP_CHAOS_SECONDS` says for how long; a minute is what a release is judged by.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector, web
from tests.drivers.gateway_process import GatewayProcess, gateway_process

from threadkeep.client import Config, Threadkeep
from threadkeep.dialects import Answer, find_dialect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.gateway.conftest import Provider

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

STREAMS = int(os.environ.get("THREADKEEP_CHAOS_STREAMS", "200"))
SECONDS = float(os.environ.get("THREADKEEP_CHAOS_SECONDS", "6"))
PIECES = 12
PACE_SECONDS = 0.05
TURNS = 12
# Beyond what the caches of a store and of an allocator take while they fill, growth would be a leak.
GROWTH_BYTES = 24 * 1024 * 1024
QUIET = ("--access-log", "off")
PATHS = {"responses": "responses", "chat": "chat/completions", "messages": "messages"}


def stream_for(dialect: str, said: str) -> bytes:
    """Return the one answer there is to a text, so that a client can tell a byte of another stream from its own."""
    answer = Answer(text=f"answer to {said} " + "and so on " * 30, response_id="r", message_id="m", model="m", created_at=1)
    return find_dialect(dialect).wire.render_answer_stream(answer)


@pytest.fixture
async def paced(provider: Provider) -> Provider:
    """A provider that answers at the pace of a model."""

    async def handler(request: web.Request) -> web.StreamResponse:
        body = json.loads(provider.seen.pop().body)
        field_name = "input" if "input" in body else "messages"
        said = body[field_name][-1]["content"]
        stream = stream_for(body["model"], said)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        size = -(-len(stream) // PIECES)
        for start in range(0, len(stream), size):
            await answer.write(stream[start : start + size])
            await asyncio.sleep(PACE_SECONDS)
        return answer

    provider.handler = handler
    return provider


@dataclass(slots=True)
class Client:
    """One agent: a history that grows by what it says and hears, and what of it was answered in full."""

    number: int
    dialect: str
    conversation: int = 0
    history: list[dict[str, Any]] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    refused: int = 0

    async def turn(self, session: ClientSession, base_url: str) -> None:
        """Say one thing and hear the whole answer; after some turns begin anew."""
        if len(self.history) >= 2 * TURNS:
            self.history, self.conversation = [], self.conversation + 1
        said = f"client {self.number}, conversation {self.conversation}, turn {len(self.history) // 2}."
        asked = [*self.history, {"role": "user", "content": said}]
        name = "input" if self.dialect == "responses" else "messages"
        body = json.dumps({"model": self.dialect, "stream": True, name: asked})
        async with session.post(f"{base_url}/{PATHS[self.dialect]}", data=body) as answer:
            heard = await answer.read()
        assert (answer.status, heard) == (200, stream_for(self.dialect, said))
        self.acknowledged.append(said)
        self.history = [*asked, {"role": "assistant", "content": f"answer to {said}"}]

    async def until(
        self, stopped: asyncio.Event, session: ClientSession, base_url: str, *, serving: asyncio.Event | None = None
    ) -> None:
        """Take turns until told to stop; what a gateway that went away did not answer is asked again once one is `serving`.

        With no `serving`, none may go away.
        """
        while not stopped.is_set():
            try:
                await self.turn(session, base_url)
            except ClientError:
                self.refused += 1
                if serving is None:
                    raise
                await serving.wait()


@pytest.fixture
async def session(anyio_backend: str) -> AsyncIterator[ClientSession]:
    timeout = ClientTimeout(total=60)
    async with ClientSession(connector=TCPConnector(limit=0, force_close=True), timeout=timeout) as opened:
        yield opened


def clients() -> list[Client]:
    dialects = list(PATHS)
    return [Client(number=number, dialect=dialects[number % len(dialects)]) for number in range(STREAMS)]


def resident_bytes(gateway: GatewayProcess) -> int:
    pages = int(Path(f"/proc/{gateway.process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


async def check_records(store: Path, agents: list[Client]) -> None:
    """Check that everything that was acknowledged is in the store, each conversation in one thread, and the store sound."""
    async with Threadkeep(Config(store=str(store))) as tk:
        verdict = await tk.verify()
        bodies: list[bytes] = []
        for row in await tk.backend.store.threads(limit=100_000):
            bodies.extend(record.body for record in await (await tk.find(row.id)).records())
    assert verdict.problems == ()
    stored = b"\n".join(bodies)
    lost = [text for agent in agents for text in agent.acknowledged if f'"{text}"'.encode() not in stored]
    assert lost == []
    # A turn that was asked again after a kill may have been recorded before it: the same history is the same thread.
    assert verdict.threads == sum(agent.conversation + 1 for agent in agents)


async def told_more(agents: list[Client], running: list[asyncio.Task[None]], *, by: int) -> None:
    """Return once every client was answered `by` more times than now; a client that failed ends the test here."""
    before = [len(agent.acknowledged) for agent in agents]
    while min(len(agent.acknowledged) - had for agent, had in zip(agents, before, strict=True)) < by:
        done, _ = await asyncio.wait(running, timeout=PACE_SECONDS)
        for task in done:
            task.result()


async def test_many_streams_at_once_are_all_whole_and_memory_stays_flat(
    paced: Provider, session: ClientSession, tmp_path: Path
) -> None:
    """Every byte of every stream arrives, every acknowledged turn is recorded, and the process does not grow."""
    if not Path("/proc/self/statm").exists():
        pytest.skip("this system does not say how much memory a process has")
    store = tmp_path / "many.db"
    agents = clients()
    stopped = asyncio.Event()
    async with asyncio.timeout(SECONDS * 3 + 120), gateway_process(store, upstream=paced.url, flags=QUIET) as gateway:
        running = [asyncio.create_task(agent.until(stopped, session, gateway.base_url)) for agent in agents]
        await told_more(agents, running, by=1)
        await asyncio.wait(running, timeout=SECONDS / 3)
        warm = resident_bytes(gateway)
        await asyncio.wait(running, timeout=SECONDS * 2 / 3)
        await told_more(agents, running, by=1)
        extend = resident_bytes(gateway) - warm
        stopped.set()
        await asyncio.gather(*running)
    assert extend < GROWTH_BYTES
    await check_records(store, agents)


async def test_a_kill_in_the_middle_costs_nothing_that_was_acknowledged(
    paced: Provider, session: ClientSession, tmp_path: Path
) -> None:
    """After `kill -9` and a restart clients ask again and go on in their threads; all they were told is there."""
    store = tmp_path / "killed.db"
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
    agents = clients()
    stopped, serving = asyncio.Event(), asyncio.Event()
    base_url = f"http://127.0.0.1:{port}/v1"
    async with asyncio.timeout(SECONDS * 3 + 180), AsyncExitStack() as stack:
        first = await stack.enter_async_context(gateway_process(store, upstream=paced.url, port=port, flags=QUIET))
        running = [asyncio.create_task(agent.until(stopped, session, base_url, serving=serving)) for agent in agents]
        await told_more(agents, running, by=2)
        await asyncio.wait(running, timeout=SECONDS / 2)
        await first.kill()
        await stack.enter_async_context(gateway_process(store, upstream=paced.url, port=port, flags=QUIET))
        serving.set()
        await told_more(agents, running, by=2)
        stopped.set()
        await asyncio.gather(*running)
    assert sum(agent.refused for agent in agents) > 0
    await check_records(store, agents)
