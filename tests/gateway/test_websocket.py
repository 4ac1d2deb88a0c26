"""The Responses API over WebSocket, before providers with and without it: every request a provider gets is whole and recorded."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, WSMsgType, WSServerHandshakeError
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, failed, http_error, say
from tests.gateway.client import records, threads
from tests.gateway.test_response_chain import LONG, TOOL, texts

from threadkeep import Config, Threadkeep
from threadkeep.gateway.http.keys import Keys, digest_key
from threadkeep.gateway.serve import running_gateway
from threadkeep.store import RecordKind

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.anyio

Json = dict[str, Any]

SECONDS = 60
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")


@dataclass(slots=True)
class SocketClient:
    """A client that keeps nothing but the id of the last answer, on one socket."""

    socket: ClientWebSocketResponse
    last: str | None = None
    events: list[Json] = field(default_factory=list)

    async def create(self, given: str | list[Json], **fields: object) -> None:
        frame = {"type": "response.create", "model": "m", "instructions": "Be brief.", "tools": [TOOL], "store": False, **fields}
        if self.last is not None:
            frame.setdefault("previous_response_id", self.last)
        await self.socket.send_json({**frame, "input": given})

    async def receive(self) -> Json:
        async with asyncio.timeout(SECONDS):
            message = await self.socket.receive()
        assert message.type is WSMsgType.TEXT, message
        event: Json = json.loads(message.data)
        self.events.append(event)
        return event

    async def until(self, *kinds: str) -> Json:
        while (event := await self.receive())["type"] not in kinds:
            pass
        return event

    async def send(self, given: str | list[Json], **fields: object) -> Json:
        await self.create(given, **fields)
        ended = await self.until(*TERMINAL)
        self.last = ended.get("response", {}).get("id", self.last)
        return ended

    async def say(self, text: str, **fields: object) -> str:
        return str((await self.send(text, **fields))["response"]["output"][-1]["content"][0]["text"])


@asynccontextmanager
async def connected(url: str, **headers: str) -> AsyncIterator[SocketClient]:
    async with ClientSession() as session, session.ws_connect(f"{url}/v1/responses", headers=headers) as socket:
        yield SocketClient(socket)


@asynccontextmanager
async def served(
    store: Path, script: Sequence[Reply], *, sockets: bool, mode: str = "on", keys: Keys | None = None, **provider: Any
) -> AsyncIterator[tuple[str, ScriptedProvider, Threadkeep]]:
    """Run a gateway before a provider that has sockets, or has none."""
    async with (
        ScriptedProvider(script, enforcing=True, sockets=sockets, **provider) as upstream,
        Threadkeep(Config(store=str(store), gateway_websocket=mode)) as tk,
        running_gateway(tk, upstream=upstream.url, keys=keys) as url,
    ):
        yield url, upstream, tk


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


both = pytest.mark.parametrize("transport", ["http", "websocket"])


@both
async def test_only_new_items_are_sent_and_the_provider_gets_all(store: Path, transport: str) -> None:
    """Its events are the frames; what it has on its own socket is not sent to it again."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("three")]
    async with served(store, script, sockets=transport == "websocket") as (url, provider, tk), connected(url) as client:
        assert await client.say("ONE") == "one"
        await client.send("TWO")
        await client.send([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])
        kinds = [event["type"] for event in client.events]
        [thread] = await threads(tk)
        recorded = [record.kind for record in await thread.records()]
    assert texts(provider.requests[2].input) == ["ONE", "one", "TWO", "function_call", "function_call_output"]
    assert (kinds[0], kinds[-1], kinds.count("response.completed")) == ("response.created", "response.completed", 3)
    assert (recorded.count(RecordKind.ITEM), recorded.count(RecordKind.REPLY)) == (5, 3)
    assert [len(frame["input"]) for frame in provider.socket_frames] == ([1, 1, 1] if transport == "websocket" else [])


@both
async def test_a_client_that_connects_anew_goes_on_in_its_thread(store: Path, transport: str) -> None:
    """Codex sends its whole history then, and says in each item of the provider's which turn it was."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("three"), say("four")]
    async with served(store, script, sockets=transport == "websocket") as (url, provider, tk):
        async with connected(url) as client:
            await client.say("ONE")
            await client.send("TWO")
            await client.send([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])
        told = {"internal_chat_message_metadata_passthrough": {"turn_id": "turn_1", "content_item_kinds": ["unknown"]}}
        history = [item if item.get("role") == "user" else {**item, **told} for item in provider.requests[-1].input]
        history += [{"role": "assistant", "content": "three", **told}, {"role": "user", "content": "FOUR"}]
        async with connected(url) as client:
            await client.send(history)
        [thread] = await threads(tk)
        recorded = [record.kind for record in await thread.records()]
    assert texts(provider.requests[3].input) == texts(history)
    assert (recorded.count(RecordKind.ITEM), recorded.count(RecordKind.META)) == (7, 1)


@both
async def test_a_request_may_be_prepared(store: Path, transport: str) -> None:
    """Codex sends its first items ahead and asks for nothing; the provider meets them with the first request."""
    async with served(store, [say("one")], sockets=transport == "websocket") as (url, provider, _), connected(url) as client:
        prepared = await client.send([{"role": "developer", "content": "Never push."}], generate=False)
        assert (prepared["response"]["status"], prepared["response"]["output"]) == ("completed", [])
        assert await client.say("ONE") == "one"
    assert texts(provider.requests[0].input) == ["Never push.", "ONE"]


@both
async def test_a_compaction_on_a_socket(store: Path, transport: str) -> None:
    """A command compacts; the provider gets the shorter window whole, and from then on only what is new."""
    script = [say("one"), call("bash", {}, call_id="call_1"), say("two"), say("three"), say("four")]
    async with served(store, script, sockets=transport == "websocket") as (url, provider, tk), connected(url) as client:
        await client.say("Never touch vendor/. Begin.")
        await client.send("Build it.")
        await client.send([{"type": "function_call_output", "call_id": "call_1", "output": LONG}])
        assert (await client.say("tk compact")).startswith("Compacted")
        await client.say("THREE")
        await client.say("FOUR")
        assert len(await threads(tk)) == 1
        assert (await tk.verify()).ok
    for request in provider.requests[3:]:
        sent = json.dumps(request.input)
        assert [text in sent for text in ("session_compact_state", "Never touch vendor/.", LONG)] == [True, True, False]
    assert [frame.get("previous_response_id") is None for frame in provider.socket_frames] == (
        [True, False, False, True, False] if transport == "websocket" else []
    )


@both
async def test_lanes_are_answered_beside_each_other(store: Path, transport: str) -> None:
    """What is asked in one lane does not wait for another; a lane may go on from an answer of another."""
    held = asyncio.Event()
    script = [say("one"), say("slow", hold=held), say("fast")]
    async with served(store, script, sockets=transport == "websocket") as (url, provider, tk), connected(url) as client:
        first = await client.send("ONE", stream_id="main")
        assert first["stream_id"] == "main"
        await client.create("SLOW", stream_id="main")
        await provider.arrived(2)
        await client.create("FAST", stream_id="side")
        fast = await client.until("response.completed")
        held.set()
        slow = await client.until("response.completed")
        assert (fast["stream_id"], slow["stream_id"]) == ("side", "main")
        assert len(await threads(tk)) == 2
    assert texts(provider.requests[1].input) == ["ONE", "one", "SLOW"]
    assert texts(provider.requests[2].input) == ["ONE", "one", "FAST"]


@both
async def test_an_answer_may_be_steered(store: Path, transport: str) -> None:
    """What a person adds while the model answers begins the next answer, without another request of the client's."""
    held = asyncio.Event()
    async with (
        served(store, [say("plan", hold=held), say("smaller plan")], sockets=transport == "websocket") as (url, provider, _),
        connected(url) as client,
    ):
        await client.create("Plan it.")
        created = await client.until("response.created")
        steer = {"type": "response.steer", "previous_response_id": created["response"]["id"], "input": "Keep it small."}
        await client.socket.send_json(steer)
        accepted = await client.until("response.steer.accepted")
        assert accepted["steer"]["previous_response_id"] == created["response"]["id"]
        held.set()
        await client.until("response.completed")
        second = await client.until("response.completed")
        assert second["response"]["output"][0]["content"][0]["text"] == "smaller plan"
    assert texts(provider.requests[1].input) == ["Plan it.", "plan", "Keep it small."]


async def test_a_steering_waits_for_a_tools_output(store: Path) -> None:
    """The addition stands in front of what the client hands over; an answer that is over cannot be steered."""
    held = asyncio.Event()
    calls = call("bash", {}, call_id="call_1")
    script = [Reply(items=calls.items, hold=held), say("two")]
    async with served(store, script, sockets=False) as (url, provider, _), connected(url) as client:
        await client.create("ONE")
        created = await client.until("response.created")
        client.last = created["response"]["id"]
        steer = {"type": "response.steer", "previous_response_id": client.last, "input": "Be careful."}
        await client.socket.send_json(steer)
        await client.until("response.steer.accepted")
        held.set()
        pending = await client.until("response.steer.pending")
        assert pending["required_input"] == [{"type": "function_call_output", "call_id": "call_1", "name": "bash"}]
        await client.send([{"type": "function_call_output", "call_id": "call_1", "output": "done"}])
        await client.socket.send_json(steer)
        refused = await client.until("response.steer.failed")
        assert (refused["error"]["code"], refused["steer"]["input"]) == ("response_not_found", "Be careful.")
    assert texts(provider.requests[1].input) == ["ONE", "function_call", "Be careful.", "function_call_output"]


async def test_an_answer_nobody_recorded_is_not_found(store: Path) -> None:
    """The client is told at once, and sends its history."""
    async with served(store, [say("one")], sockets=False) as (url, provider, _), connected(url) as client:
        refused = await client.send("ONE", previous_response_id="resp_x")
        assert (refused["status"], refused["error"]["code"]) == (400, "previous_response_not_found")
        assert await client.say("ONE") == "one"
    assert len(provider.requests) == 1


async def test_what_a_provider_refuses_is_told(store: Path) -> None:
    """Status and error are those of the provider; the socket stays open."""
    script = [http_error(429, "slow down", code="rate_limit_exceeded"), failed("server_error", "broken"), say("one")]
    async with served(store, script, sockets=False) as (url, _, _), connected(url) as client:
        refused = await client.send("ONE")
        assert (refused["status"], refused["error"]["code"]) == (429, "rate_limit_exceeded")
        assert (await client.send("ONE"))["type"] == "response.failed"
        client.last = None
        assert await client.say("ONE") == "one"


@both
async def test_an_answer_that_breaks_off_is_told_and_recorded(store: Path, transport: str) -> None:
    """The part that came is in the records, the client hears an error, and can go on."""
    script = [say("one"), Reply(items=say("half").items, drop=True), say("two")]
    async with served(store, script, sockets=transport == "websocket") as (url, _, tk), connected(url) as client:
        await client.say("ONE")
        broken = await client.send("TWO")
        assert (broken["status"], broken["error"]["code"]) == (502, "upstream_cut")
        assert await client.say("TWO") == "two"
        bodies = [record.body for each in await records(tk) for record in each if record.kind is RecordKind.REPLY]
    assert sum(b'"outcome":"cut"' in body and b"half" in body for body in bodies) == 1


@both
async def test_a_client_that_leaves_leaves_its_turn_recorded(store: Path, transport: str) -> None:
    """Its request and what was answered by then are durable when the gateway has stopped."""
    held = asyncio.Event()
    async with (
        served(store, [say("half", hold=held)], sockets=transport == "websocket") as (url, _, _),
        connected(url) as client,
    ):
        await client.create("ONE")
        await client.until("response.output_item.done")
    async with Threadkeep(Config(store=str(store))) as tk:
        [recorded] = await records(tk)
    kept = [record for record in recorded if record.kind in (RecordKind.ITEM, RecordKind.REPLY)]
    assert [record.kind for record in kept] == [RecordKind.ITEM, RecordKind.REPLY]
    assert b"half" in kept[1].body


async def test_a_gateway_that_stops_lets_an_answer_end(store: Path) -> None:
    """The client gets the rest of it, and is told to connect again."""
    held = asyncio.Event()
    async with (
        ScriptedProvider([say("one", hold=held)]) as provider,
        Threadkeep(Config(store=str(store), gateway_websocket="on")) as tk,
        ClientSession() as session,
    ):
        async with running_gateway(tk, upstream=provider.url) as url:
            socket = await session.ws_connect(f"{url}/v1/responses")
            client = SocketClient(socket)
            await client.create("ONE")
            await client.until("response.output_item.done")

            async def finish() -> tuple[str, int]:
                held.set()
                ended = await client.until(*TERMINAL)
                return ended["type"], (await socket.receive()).data

            ending = asyncio.create_task(finish())
        assert await ending == ("response.completed", 1012)


async def test_headers_of_each_request_are_in_its_frame(store: Path) -> None:
    """Codex opens one socket, and says in each frame what would be its headers; no credential comes from there."""
    said = {
        "x-codex-turn-metadata": '{"request_kind":"turn"}',
        "ws_request_header_x_openai_internal_lite": "true",
        "authorization": "Bearer other",
        "x-codex-broken": "two\nlines",
    }
    async with (
        served(store, [say("one")], sockets=False) as (url, provider, _),
        connected(url, **{"x-codex-turn-metadata": '{"request_kind":"prewarm"}', "authorization": "Bearer k"}) as client,
    ):
        await client.say("ONE", client_metadata=said)
    headers = provider.requests[0].headers
    assert headers["x-codex-turn-metadata"] == '{"request_kind":"turn"}'
    assert headers["x-openai-internal-lite"] == "true"
    assert "x-codex-broken" not in headers
    assert not any(name.startswith("sec-websocket") for name in headers)


@pytest.mark.parametrize(
    ("mode", "transport", "status"), [("off", "websocket", 426), ("auto", "http", 426), ("auto", "websocket", 101)]
)
async def test_a_socket_is_opened_where_the_provider_opens_one(store: Path, mode: str, transport: str, status: int) -> None:
    """426 makes a client use HTTP at once."""
    async with served(store, [], sockets=transport == "websocket", mode=mode) as (url, _, _):
        try:
            async with connected(url):
                seen = 101
        except WSServerHandshakeError as refused:
            seen = refused.status
    assert seen == status


async def test_the_door_is_the_same_for_sockets(store: Path) -> None:
    """Host, origin, key and path are checked before a socket is opened; a key opens its own tenant's threads."""
    keys = Keys({digest_key("tkk_of-alice"): "alice"})

    async def knock(url: str, **headers: str) -> int:
        try:
            async with connected(url, **headers):
                return 101
        except WSServerHandshakeError as refused:
            return refused.status

    async with served(store, [], sockets=False) as (url, _, _):
        origin = await knock(url, Origin="https://evil.test")
        host = await knock(url, Host="evil.test")
        path = await knock(f"{url}/elsewhere")
    async with served(store, [say("one")], sockets=False, keys=keys) as (url, provider, _):
        without = await knock(url)
        async with connected(f"{url}/k/tkk_of-alice") as client:
            assert await client.say("ONE") == "one"
    assert (origin, host, path, without) == (403, 403, 404, 401)
    assert "tkk_of-alice" not in str(provider.requests[0])


async def test_frames_that_are_none(store: Path) -> None:
    """What cannot be read is refused, and the next frame is served."""
    async with served(store, [say("one")], sockets=False) as (url, _, _), connected(url) as client:
        for text in ("no json", "[]", '{"type":"response.cancel"}', '{"type":"response.create","input":3}'):
            await client.socket.send_str(text)
            assert (await client.receive())["error"]["type"] == "invalid_request_error"
        await client.socket.send_json({"type": "response.processed", "response_id": "resp_1"})
        await client.socket.send_bytes(b'{"type":"response.create","model":"m","input":"ONE"}')
        assert (await client.until(*TERMINAL))["type"] == "response.completed"


async def test_a_connection_has_a_limited_number_of_lanes(store: Path) -> None:
    """The limit of the API itself, said in its words."""
    async with served(store, [say(str(number)) for number in range(32)], sockets=False) as (url, _, _), connected(url) as client:
        for number in range(32):
            await client.send("ONE", stream_id=f"s{number}", previous_response_id=None)
        refused = await client.send("ONE", stream_id="one more")
    assert refused["error"]["code"] == "websocket_stream_limit_reached"
