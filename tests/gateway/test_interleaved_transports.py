"""Sessions of all dialects through one gateway, on one socket and over HTTP, in any order: nothing of one is ever in another."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.doubles import wires
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Received, Reply, say
from tests.gateway.client import HISTORY, answer, base_fields, echoed, person
from tests.gateway.test_websocket import TERMINAL, SocketClient

from threadkeep import Config, Threadkeep
from threadkeep.gateway.serve import running_gateway

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

pytestmark = [pytest.mark.slow]

Json = dict[str, Any]

LONG = "The build log follows for reference. " * 60
PATHS: dict[WireName, str] = {wire: path for path, wire in wires.PATHS.items()}
# How each session is carried: two on one socket; one that names its answers, one that names a conversation; three that resend.
SESSIONS = ("stream a", "stream b", "named", "conversation", "chat", "messages", "gemini")
STEPS = ("ask", "ask", "compact", "fork", "steer", "cut", "restart")


def reply_alike(received: Received) -> Reply:
    """Answer every session with the same words."""
    return say(f"Done. {LONG}")


@dataclass(slots=True)
class World:
    """One store, one provider, a gateway that can be restarted, and what each session's client keeps."""

    tk: Threadkeep
    provider: ScriptedProvider
    http: ClientSession
    running: AsyncExitStack = field(default_factory=AsyncExitStack)
    url: str = ""
    socket: SocketClient | None = None
    last: dict[str, str | None] = field(default_factory=dict)
    before: dict[str, str | None] = field(default_factory=dict)
    histories: dict[str, list[Json]] = field(default_factory=dict)

    async def restart(self) -> None:
        await self.running.aclose()
        self.running = AsyncExitStack()
        self.url = await self.running.enter_async_context(
            running_gateway(self.tk, upstream=self.provider.url.removesuffix("/v1"))
        )
        self.socket = await self._connect()

    async def _connect(self) -> SocketClient:
        opened = await self.running.enter_async_context(self.http.ws_connect(f"{self.url}/v1/responses"))
        return SocketClient(opened)

    async def step(self, name: str, kind: str, word: str) -> None:
        """Let a session take a step; a client that cannot take it asks instead."""
        text = "tk compact" if kind == "compact" else f"Go on. {LONG}" if name in self.last else f"Never mention {word}."
        if kind == "restart":
            await self.restart()
        if name.startswith("stream"):
            await self._ask_on_socket(name, kind, text)
        elif name in ("named", "conversation"):
            await self._ask_by_name(name, kind, text)
        else:
            await self._resend(name, kind, text)

    async def _ask_on_socket(self, name: str, kind: str, text: str) -> None:
        assert self.socket is not None
        self._go_back(name, kind)
        self.socket.last = self.last.get(name)
        await self.socket.create(text, stream_id=name)
        if kind == "cut" and name in self.last:
            # What was asked is lost for the client; it connects anew and goes on from the answer it has.
            await self.socket.socket.close()
            self.socket = await self._connect()
            return
        ends, outcome = 0, ""
        while True:
            event = await self.socket.receive()
            if event["type"] == "response.created" and kind == "steer" and not ends:
                named = event["response"]["id"]
                await self.socket.socket.send_json({"type": "response.steer", "previous_response_id": named, "input": "Briefly."})
            if event["type"].startswith("response.steer."):
                outcome = event["type"].rpartition(".")[2]
            if event["type"] in TERMINAL:
                assert event["type"] == "response.completed", event
                ends, kept = ends + 1, event["response"]["id"]
                self.before[name], self.last[name] = self.last.get(name), kept
            if (ends and (kind != "steer" or outcome == "failed")) or ends == 2:
                return

    async def _ask_by_name(self, name: str, kind: str, text: str) -> None:
        self._go_back(name, kind)
        body = {**base_fields("responses"), "store": True, "input": text}
        if name == "conversation":
            body["conversation"] = "conv_1"
        elif self.last.get(name):
            body["previous_response_id"] = self.last[name]
        read = await self._post("responses", body)
        self.before[name], self.last[name] = self.last.get(name), read["id"]

    async def _resend(self, name: Any, kind: str, text: str) -> None:
        history = self.histories.setdefault(name, [])
        if kind == "fork":
            del history[2:]
        history.append(person(name, text))
        base = base_fields(name)
        read = await self._post(name, {**base, HISTORY[name]: [*base.pop("head", []), *history]})
        history.extend(echoed(name, read) if read else [answer(name, "")])
        self.last[name] = None

    def _go_back(self, name: str, kind: str) -> None:
        if kind == "fork" and self.before.get(name):
            self.last[name] = self.before[name]

    async def _post(self, wire: WireName, body: Json) -> Json:
        body.pop("head", None)
        async with self.http.post(f"{self.url}{PATHS[wire]}", data=json.dumps(body)) as answered:
            read = await answered.json()
            assert answered.status == 200, read
        return dict(read)


@pytest.mark.moves_prefix(reason="many sessions, forks and compactions")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(st.tuples(st.sampled_from(SESSIONS), st.sampled_from(STEPS)), max_size=24))
@example(steps=[(name, kind) for kind in STEPS for name in SESSIONS])
def test_nothing_of_one_session_is_in_another(steps: list[tuple[str, str]]) -> None:
    """Equal answers and questions, forks, additions, cut sockets and restarts: each request has the word of its session alone."""
    asyncio.run(_interleave(steps))


async def _interleave(steps: list[tuple[str, str]]) -> None:
    words = {name: f"CUSTOMER-{number}11" for number, name in enumerate(SESSIONS, start=1)}
    with tempfile.TemporaryDirectory() as folder:
        config = Config(store=str(Path(folder, "kept.db")), gateway_websocket="on", auto_compact="on", model_context_window=6_000)
        async with (
            ScriptedProvider([], beside=reply_alike, sockets=True) as provider,
            Threadkeep(config) as tk,
            ClientSession() as http,
        ):
            world = World(tk, provider, http)
            async with AsyncExitStack() as stack:
                stack.push_async_callback(lambda: world.running.aclose())
                await world.restart()
                for name, kind in [*((name, "ask") for name in SESSIONS), *steps, *((name, "ask") for name in SESSIONS)]:
                    await world.step(name, kind, words[name])
            told = [[word for word in words.values() if word in request.raw.decode()] for request in provider.side_requests]
            assert len(told) >= 2 * len(SESSIONS)
            assert [found for found in told if len(found) != 1] == []
            assert (await tk.verify()).problems == ()
