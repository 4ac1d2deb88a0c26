"""A provider that says what a test wrote down, over the real wire.

`ScriptedProvider` serves the OpenAI Responses API on the loopback interface from the test's own event loop. It is strict
in both directions: a request the script has no reply for, and a reply nobody asked for, fail the test. What it received
stays readable, without the credential it came with. `enforcing=True` makes it refuse the histories a real provider refuses.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from aiohttp import web

from holdfast.testing.responses_stream import (
    JsonObject,
    Numbering,
    finished_item,
    item_events,
    refusal,
    response_object,
    usage_object,
)

MAX_BODY_BYTES = 64 * 1024 * 1024
CREDENTIAL_HEADERS = frozenset({"authorization", "x-api-key", "api-key", "cookie"})


class Failure(NamedTuple):
    """How a response fails after it has begun, as the provider's `response.failed` event reports it."""

    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One step of a script: what the provider answers to one request.

    Attributes:
        items: Output items in the provider's JSON; ids, statuses and call ids left out are numbered by the provider.
        failure: Ends the response with `response.failed` after its items.
        drop: Ends the stream after its items without `response.completed`.
        status: HTTP status of the answer; only with `body`.
        body: Answers with this JSON instead of a response, on whatever path the request came.
        hold: Awaited after the items were sent and before the event that ends the response.
    """

    items: tuple[Mapping[str, Any], ...] = ()
    input_tokens: int = 100
    output_tokens: int = 10
    failure: Failure | None = None
    drop: bool = False
    status: int = 200
    body: Mapping[str, Any] | None = None
    hold: asyncio.Event | None = None

    def __post_init__(self) -> None:
        if self.status != 200 and self.body is None:
            raise ValueError(f"a reply with status {self.status} needs the body to send with it")


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it arrived. `headers` has lower-case names and no credential; `authorised` says whether one came."""

    method: str
    path: str
    headers: Mapping[str, str]
    authorised: bool
    raw: bytes
    body: Mapping[str, Any]

    @property
    def input(self) -> list[JsonObject]:
        """The history of a Responses request; a plain string counts as one user message."""
        sent = self.body.get("input", [])
        return [{"role": "user", "content": sent}] if isinstance(sent, str) else list(sent)


def message(text: str, *, phase: str | None = None) -> JsonObject:
    """Return an assistant message item with every field a current provider sends."""
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text}
    item: JsonObject = {"type": "message", "role": "assistant", "content": [part]}
    return item if phase is None else item | {"phase": phase}


def reasoning(encrypted_content: str, *, summary: str = "") -> JsonObject:
    """Return a reasoning item of the kind a client must hand back unchanged."""
    parts = [{"type": "summary_text", "text": summary}] if summary else []
    return {"type": "reasoning", "summary": parts, "encrypted_content": encrypted_content}


def say(
    text: str,
    *,
    phase: str | None = None,
    encrypted_reasoning: str | None = None,
    input_tokens: int = 100,
    hold: asyncio.Event | None = None,
) -> Reply:
    """Answer with one assistant message, after reasoning if any is given."""
    items = (*_thoughts(encrypted_reasoning), message(text, phase=phase))
    return Reply(items=items, input_tokens=input_tokens, hold=hold)


def call(
    name: str,
    arguments: Mapping[str, Any],
    *,
    call_id: str | None = None,
    encrypted_reasoning: str | None = None,
    input_tokens: int = 100,
) -> Reply:
    """Answer with one function call, after reasoning if any is given; an omitted call id is numbered by the provider."""
    item: JsonObject = {"type": "function_call", "name": name, "arguments": json.dumps(arguments)}
    if call_id is not None:
        item["call_id"] = call_id
    return Reply(items=(*_thoughts(encrypted_reasoning), item), input_tokens=input_tokens)


def failed(code: str, text: str) -> Reply:
    """Begin a response and fail it; `context_length_exceeded` is what an overflow looks like."""
    return Reply(failure=Failure(code, text))


def http_error(status: int, text: str, *, kind: str = "invalid_request_error", code: str | None = None) -> Reply:
    """Answer with a plain HTTP error in the provider's shape."""
    return Reply(status=status, body=error_body(text, kind=kind, code=code))


def error_body(text: str, *, kind: str, param: str | None = None, code: str | None = None) -> JsonObject:
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}


def _thoughts(encrypted_content: str | None) -> tuple[JsonObject, ...]:
    return () if encrypted_content is None else (reasoning(encrypted_content),)


class ScriptedProvider:
    """An OpenAI Responses provider on 127.0.0.1 that answers the n-th accepted request with the n-th reply.

    Use it as an async context manager. Leaving it raises AssertionError when replies are unused or requests came that
    the script has no reply for, unless another error is already on its way out. `GET /v1/models` lists nothing and is
    neither scripted nor recorded. A request that `enforcing` refuses is recorded and uses up no reply.
    """

    def __init__(self, script: Sequence[Reply], *, enforcing: bool = False) -> None:
        self.requests: list[Received] = []
        self.refusals: list[str] = []
        self._script = tuple(script)
        self._enforcing = enforcing
        self._used = 0
        self._surplus: list[str] = []
        self._ids = Numbering()
        self._arrival = asyncio.Condition()
        self._port = 0
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_get("/v1/models", self._models)
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
            yield f"reply {number} of {len(self._script)} was never asked for: {_summary(reply)}"
        yield from self._surplus
        if self._used < len(self._script):
            yield from (f"a request was refused: {text}" for text in self.refusals)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [], "models": []})

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        received = await _received(request)
        async with self._arrival:
            self.requests.append(received)
            self._arrival.notify_all()
        number = len(self.requests)
        fault = refusal(received.input) if self._enforcing else None
        if fault is not None:
            self.refusals.append(f"request {number}, {fault}")
            return web.json_response(error_body(fault, kind="invalid_request_error", param="input"), status=400)
        reply = self._script[self._used] if self._used < len(self._script) else None
        if reply is None or (reply.body is None and (received.method, received.path) != ("POST", "/v1/responses")):
            self._surplus.append(f"request {number} ({received.method} {received.path}) has no reply in the script")
            return web.json_response(error_body(self._surplus[-1], kind="server_error"), status=500)
        self._used += 1
        if reply.body is not None:
            return web.json_response(reply.body, status=reply.status)
        if received.body.get("stream"):
            return await self._stream(request, received, reply)
        return await self._whole(request, received, reply)

    async def _whole(self, request: web.Request, received: Received, reply: Reply) -> web.Response:
        if reply.hold is not None:
            await reply.hold.wait()
        if reply.drop and request.transport is not None:
            request.transport.abort()
        output = [finished_item(item, ids=self._ids) for item in reply.items]
        return web.json_response(_ending(self._ids.next("resp"), received, reply, output)["response"])

    async def _stream(self, request: web.Request, received: Received, reply: Reply) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(request)
        response_id = self._ids.next("resp")
        output = [finished_item(item, ids=self._ids) for item in reply.items]
        sent = 0
        for event in _before_ending(response_id, received, output):
            await response.write(_sse(event, sequence_number=sent))
            sent += 1
        if reply.hold is not None:
            await reply.hold.wait()
        if not reply.drop:
            await response.write(_sse(_ending(response_id, received, reply, output), sequence_number=sent))
        await response.write_eof()
        return response


async def _received(request: web.Request) -> Received:
    raw = await request.read()
    try:
        body = json.loads(raw) if raw else {}
    except ValueError:
        body = {}
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Received(
        method=request.method,
        path=request.path,
        headers={name: value for name, value in headers.items() if name not in CREDENTIAL_HEADERS},
        authorised=not CREDENTIAL_HEADERS.isdisjoint(headers),
        raw=raw,
        body=body if isinstance(body, dict) else {},
    )


def _before_ending(response_id: str, received: Received, output: Sequence[JsonObject]) -> Iterator[JsonObject]:
    begun = response_object(response_id, request=received.body, status="in_progress")
    yield {"type": "response.created", "response": begun}
    yield {"type": "response.in_progress", "response": begun}
    for index, item in enumerate(output):
        yield from item_events(item, index=index)


def _ending(response_id: str, received: Received, reply: Reply, output: Sequence[JsonObject]) -> JsonObject:
    if reply.failure is not None:
        error = reply.failure._asdict()
        ended = response_object(response_id, request=received.body, status="failed", output=output, error=error)
        return {"type": "response.failed", "response": ended}
    usage = usage_object(input_tokens=reply.input_tokens, output_tokens=reply.output_tokens)
    ended = response_object(response_id, request=received.body, status="completed", output=output, usage=usage)
    return {"type": "response.completed", "response": ended}


def _sse(event: JsonObject, *, sequence_number: int) -> bytes:
    numbered = {"type": event["type"], "sequence_number": sequence_number} | event
    return f"event: {event['type']}\ndata: {json.dumps(numbered, ensure_ascii=False)}\n\n".encode()


def _summary(reply: Reply) -> str:
    if reply.body is not None:
        return f"HTTP {reply.status}"
    if reply.failure is not None:
        return f"failure {reply.failure.code}"
    return ", ".join(_words(item) for item in reply.items) or "nothing said"


def _words(item: Mapping[str, Any]) -> str:
    match item["type"]:
        case "message":
            return f"say {''.join(part.get('text', '') for part in item['content'])[:60]!r}"
        case "function_call":
            return f"call {item['name']} {item['arguments'][:60]}"
        case kind:
            return str(kind)
