"""A provider that gives scripted replies over the real wire.

`ScriptedProvider` serves the OpenAI Responses, Chat Completions and Anthropic Messages APIs on the loopback interface from the
test's own event loop. It is strict in both directions: a request the script has no reply for, and a reply nobody asked for, fail
the test. What it received stays readable, without the credential it came with. `enforcing=True` makes it refuse the requests a
real provider refuses; see `tests.doubles.provider_rules`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Self

from aiohttp import web
from tests.doubles.messages_stream import thinks
from tests.doubles.prefix_growth import watch
from tests.doubles.provider_rules import Fault, ProviderRules, chat_shape, prefix_signature
from tests.doubles.responses_stream import Numbering
from tests.doubles.script import (
    JsonObject,
    Received,
    Reply,
    error_body,
    summary_of,
)
from tests.doubles.wires import Spoken, WireName, is_streamed, speak, wire_of

MAX_BODY_BYTES = 64 * 1024 * 1024
CREDENTIAL_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "x-goog-api-key", "cookie"})
COUNT_TOKENS = "/v1/messages/count_tokens"
COUNT_GEMINI = ":countTokens"
BYTES_PER_TOKEN = 4


class ScriptedProvider:
    """A provider on 127.0.0.1 that answers the n-th accepted request with the n-th reply, in the language it was asked in.

    Use it as an async context manager. Leaving it raises AssertionError when replies are unused or requests came that
    the script has no reply for, unless another error is already on its way out. `GET /v1/models` lists nothing, a model below it
    has a name and no more; neither is scripted nor recorded. A request that `enforcing` refuses is recorded and uses up no reply.

    Some clients ask for titles and the like whenever they please. `beside` answers those: a request for which it returns a
    reply is kept in `side_requests` and leaves the script alone, and so is a count of tokens.

    `manages=False` refuses requests with `context_management`; `counts_tokens=False` leaves out the path that counts the tokens
    of a request.

    `counting` reports a quarter of each request's bytes as its tokens, whatever the script says.

    `sockets` also serves the Responses API over WebSocket, and keeps the last response of each connection; `socket_frames` are
    the frames it got, which count as requests with their whole history.

    `conversations` are those that the provider holds, by their ids; None where it has no such thing.
    `only_chat` serves Chat Completions and nothing else, and refuses every field that the API's reference does not name.

    `refusing` says why a request of any kind is refused, in the words of the API, or returns None; it is asked after `enforcing`.

    `alternating` also refuses two turns of one side in a row; `issued` are opaque contents that count as this provider's own.
    """

    def __init__(
        self,
        script: Sequence[Reply],
        *,
        enforcing: bool = False,
        alternating: bool = False,
        counting: bool = False,
        issued: Collection[str] = (),
        sockets: bool = False,
        counts_tokens: bool = True,
        manages: bool = True,
        conversations: Mapping[str, Sequence[JsonObject]] | None = None,
        only_chat: bool = False,
        beside: Callable[[Received], Reply | None] | None = None,
        refusing: Callable[[Received], Fault | None] | None = None,
    ) -> None:
        self.requests: list[Received] = []
        watch(self.requests)
        self.side_requests: list[Received] = []
        self.refusals: list[str] = []
        self.unknown_paths: list[str] = []
        self._script = tuple(script)
        self._rules = ProviderRules(alternating=alternating, issued=issued)
        self._enforcing = enforcing
        self._counting = counting
        self._beside = beside
        self._refusing = refusing
        self._sockets = sockets
        self._counts_tokens = counts_tokens
        self._manages = manages
        self._conversations = conversations
        self._only_chat = only_chat
        self.socket_frames: list[JsonObject] = []
        self._used = 0
        self._surplus: list[str] = []
        self._ids = Numbering()
        self._arrival = asyncio.Condition()
        self._port = 0
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_get("/v1/models", self._models)
        application.router.add_get("/v1/models/{model}", self._model)
        application.router.add_get("/v1beta/models/{model}", self._model)
        application.router.add_get("/v1/conversations/{name}/items", self._list_items)
        application.router.add_post("/v1/conversations", self._refuse_conversation)
        application.router.add_route("*", "/{path:.*}", self._serve)
        # A client that leaves while its reply is on hold must not keep the test from ending.
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)

    @property
    def url(self) -> str:
        """The base URL a client is configured with, ending in /v1."""
        return f"http://127.0.0.1:{self._port}/v1"

    async def arrived(self, count: int) -> None:
        """Return once `count` requests have been received in all."""
        async with self._arrival:
            await self._arrival.wait_for(lambda: len(self.requests) >= count)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._runner.cleanup()
        if error is None:
            complaints = list(self._complaints())
            if complaints:
                raise AssertionError("; ".join(complaints))

    def _complaints(self) -> Iterator[str]:
        for number, reply in enumerate(self._script[self._used :], start=self._used + 1):
            yield f"reply {number} of {len(self._script)} was never asked for: {summary_of(reply)}"
        yield from self._surplus
        if self._used < len(self._script):
            yield from (f"a request was refused: {text}" for text in self.refusals)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [], "models": []})

    async def _model(self, request: web.Request) -> web.Response:
        return web.json_response({"id": request.match_info["model"], "object": "model", "type": "model"})

    async def _refuse_conversation(self, request: web.Request) -> web.Response:
        return web.Response(status=404, text="404 page not found")

    async def _list_items(self, request: web.Request) -> web.Response:
        """Return one item of a conversation, and whether there are more."""
        if self._conversations is None:
            return web.Response(status=404, text="404 page not found")
        items = self._conversations.get(name := request.match_info["name"])
        if items is None:
            return web.json_response(error_body(f"Conversation with id '{name}' not found.", kind="not_found"), status=404)
        at = int(request.query.get("after", 0))
        page = {"object": "list", "data": items[at : at + 1], "last_id": str(at + 1), "has_more": at + 1 < len(items)}
        return web.json_response(page)

    async def _serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(max_msg_size=MAX_BODY_BYTES)
        await socket.prepare(request)
        kept: dict[str, list[JsonObject]] = {}
        async for message in socket:
            frame = json.loads(message.data)
            self.socket_frames.append(frame)
            before = kept.get(str(frame.get("previous_response_id")))
            if before is None and frame.get("previous_response_id"):
                error = {"type": "invalid_request_error", "code": "previous_response_not_found", "message": "not found"}
                await socket.send_json({"type": "error", "status": 400, "error": error})
                continue
            body = {name: value for name, value in frame.items() if name not in ("type", "previous_response_id", "stream_id")}
            body["input"] = [*(before or []), *frame["input"]]
            received = await _received(request, body)
            aside = self._beside(received) if self._beside else None
            if aside is not None:
                self.side_requests.append(received)
                spoken = speak("responses", received, aside, ids=self._ids, signature=None)
                for event in (*spoken.before, spoken.ending):
                    await socket.send_str(_data_of(event))
                kept = {str(spoken.whole["id"]): [*body["input"], *spoken.whole["output"]]}
                continue
            async with self._arrival:
                self.requests.append(received)
                self._arrival.notify_all()
            fault = self._rules.refusal("responses", received) if self._enforcing else None
            reply = self._script[self._used] if self._used < len(self._script) else None
            if fault is not None or reply is None or reply.body is not None:
                self._surplus.append(fault.message if fault is not None else "a frame has no reply in the script")
                await socket.send_json(
                    {"type": "error", "status": 400, "error": {"code": "refused", "message": self._surplus[-1]}}
                )
                continue
            self._used += 1
            counted = replace(reply, input_tokens=len(received.raw) // BYTES_PER_TOKEN) if self._counting else reply
            spoken = speak("responses", received, counted, ids=self._ids, signature=None)
            self._rules.issue(reply.items, spoken)
            for event in spoken.before:
                await socket.send_str(_data_of(event))
            if reply.hold is not None:
                await reply.hold.wait()
            if reply.drop:
                break
            await socket.send_str(_data_of(spoken.ending))
            kept = {str(spoken.whole["id"]): [*body["input"], *spoken.whole["output"]]}
        return socket

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("upgrade", "").lower() == "websocket":
            return await self._serve_socket(request) if self._sockets else web.Response(status=404)
        received = await _received(request)
        wire = wire_of(received)
        if self._only_chat and wire != "chat":
            self.unknown_paths.append(received.path)
            return web.json_response({"detail": "Not Found"}, status=404)
        if received.path == COUNT_TOKENS or received.path.endswith(COUNT_GEMINI):
            self.side_requests.append(received)
            if not self._counts_tokens:
                return web.Response(status=404)
            counted = len(received.raw) // BYTES_PER_TOKEN
            return web.json_response({"input_tokens": counted} if received.path == COUNT_TOKENS else {"totalTokens": counted})
        aside = self._beside(received) if self._beside and wire else None
        fault = self._rules.refusal(wire, received, is_side=aside is not None) if self._enforcing and wire else None
        if fault is None and wire and self._refusing:
            fault = self._refusing(received)
        if aside is not None and wire is not None:
            self.side_requests.append(received)
            if fault is None:
                return await self._say(request, received, aside, wire=wire)
            return self._refuse(fault, wire=wire, number=f"side request {len(self.side_requests)}")
        async with self._arrival:
            self.requests.append(received)
            self._arrival.notify_all()
        fault = chat_shape(received.body) or fault if self._only_chat else fault
        if not self._manages and "context_management" in received.body:
            fault = Fault("context_management: Extra inputs are not permitted", param="context_management")
        return await self._answer(request, received, wire=wire) if fault is None else self._refuse(fault, wire=wire)

    def _refuse(self, fault: Fault, *, wire: WireName | None, number: str = "") -> web.Response:
        self.refusals.append(f"{number or f'request {len(self.requests)}'}, {fault.message}")
        body = error_body(fault.message, kind="invalid_request_error", param=fault.param, code=fault.code)
        return web.json_response(_shaped(body, wire=wire), status=400)

    async def _answer(self, request: web.Request, received: Received, *, wire: WireName | None) -> web.StreamResponse:
        reply = self._script[self._used] if self._used < len(self._script) else None
        if reply is None or (reply.body is None and wire is None):
            number = len(self.requests)
            self._surplus.append(f"request {number} ({received.method} {received.path}) has no reply in the script")
            return web.json_response(_shaped(error_body(self._surplus[-1], kind="server_error"), wire=wire), status=500)
        self._used += 1
        if reply.body is not None or wire is None:
            return web.json_response(_shaped(dict(reply.body or {}), wire=wire), status=reply.status)
        return await self._say(request, received, reply, wire=wire)

    async def _say(self, request: web.Request, received: Received, reply: Reply, *, wire: WireName) -> web.StreamResponse:
        signature = prefix_signature(received.body) if wire == "messages" and thinks(received.body) else None
        counted = replace(reply, input_tokens=len(received.raw) // BYTES_PER_TOKEN) if self._counting else reply
        spoken = speak(wire, received, counted, ids=self._ids, signature=signature)
        self._rules.issue(reply.items, spoken)
        if is_streamed(received):
            return await _stream(request, reply, spoken)
        if reply.hold is not None:
            await reply.hold.wait()
        if reply.drop and request.transport is not None:
            request.transport.abort()
        return web.json_response(spoken.whole)


async def _stream(request: web.Request, reply: Reply, spoken: Spoken) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    await response.prepare(request)
    for event in spoken.before:
        await response.write(event)
    if reply.hold is not None:
        await reply.hold.wait()
    if not reply.drop:
        await response.write(spoken.ending)
    await response.write_eof()
    return response


def _data_of(event: bytes) -> str:
    """Return what a server-sent event holds."""
    return event.decode().partition("data: ")[2].strip()


async def _received(request: web.Request, framed: JsonObject | None = None) -> Received:
    raw = await request.read() if framed is None else json.dumps(framed).encode()
    try:
        body = json.loads(raw) if raw else {}
    except ValueError:
        body = {}
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Received(
        method=request.method if framed is None else "POST",
        path=request.path,
        headers={name: value for name, value in headers.items() if name not in CREDENTIAL_HEADERS},
        authorised=not CREDENTIAL_HEADERS.isdisjoint(headers),
        raw=raw,
        body=body if isinstance(body, dict) else {},
    )


def _shaped(body: JsonObject, *, wire: WireName | None) -> JsonObject:
    """Return an error in the shape of its wire: Anthropic's says at the top that it is one."""
    return {"type": "error", **body} if wire == "messages" and "error" in body else body
