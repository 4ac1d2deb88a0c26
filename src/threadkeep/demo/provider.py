"""The demo's stand-in for a model provider: it answers what the story says and keeps what it was sent.

It serves the OpenAI Responses API on loopback, as strict as a real one where that matters here: a request larger than the
model's window is refused.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from threadkeep.demo.session import Session, turn_items
from threadkeep.tokens import estimate_bytes

Json = dict[str, object]

MODEL = "demo-model"
LARGEST_BODY = 64 * 1024 * 1024
DELTA_CHARS = 24
FROM_CLIENT = ("user", "function_call_output")


class _Body(msgspec.Struct):
    input: list[msgspec.Raw]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it reached the provider: its items as exact bytes, and how it continues the request before it.

    `unchanged` counts the leading items that are byte for byte those of the request before; `grew` says that all of them are.
    """

    items: tuple[bytes, ...]
    tokens: int
    unchanged: int
    unchanged_tokens: int
    grew: bool
    at: float


def script_of(session: Session) -> list[list[Json]]:
    """Return what the model says to each request of the session, in order: reasoning and calls, or a turn's answer."""
    script: list[list[Json]] = []
    for number, turn in enumerate(session.turns):
        asked = True
        for item in turn_items(turn, number=number):
            if item.get("role", item["type"]) in FROM_CLIENT:
                asked = True
            elif asked:
                script.append([item])
                asked = False
            else:
                script[-1].append(item)
    return script


class DemoProvider:
    """Answers each request with the next part of the script. `received` is everything it accepted, oldest first."""

    def __init__(self, script: Sequence[Sequence[Json]], *, window_tokens: int) -> None:
        self.received: list[Received] = []
        self._script = script
        self._window_tokens = window_tokens

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on a free port of the loopback interface inside the block, which is given the URL."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/v1/responses", self._respond)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            port: int = runner.addresses[0][1]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            await runner.cleanup()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        received = self._noted(body, at=time.perf_counter())
        if received.tokens > self._window_tokens:
            return _refusal("context_length_exceeded", f"{received.tokens} tokens; this model holds {self._window_tokens}")
        if len(self.received) >= len(self._script):
            return _refusal("nothing_to_say", "the story is over")
        output = self._script[len(self.received)]
        self.received.append(received)
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(request)
        for sequence, event in enumerate(_events(output, received, number=len(self.received))):
            await response.write(_written(event, sequence=sequence))
        await response.write_eof()
        return response

    def _noted(self, body: bytes, *, at: float) -> Received:
        items = tuple(bytes(raw) for raw in msgspec.json.decode(body, type=_Body).input)
        before = self.received[-1].items if self.received else ()
        pairs = zip(before, items, strict=False)
        unchanged = next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(before), len(items)))
        return Received(
            items=items,
            tokens=estimate_bytes(len(body)),
            unchanged=unchanged,
            unchanged_tokens=estimate_bytes(sum(len(item) + 1 for item in items[:unchanged])),
            grew=unchanged == len(before),
            at=at,
        )


def _refusal(code: str, message: str) -> web.Response:
    return web.json_response({"error": {"type": "invalid_request_error", "code": code, "message": message}}, status=400)


def _events(output: Sequence[Json], received: Received, *, number: int) -> Iterator[Json]:
    """Yield the events of one answer: each item is announced, its text streamed in pieces, and reported done."""
    begun: Json = {"id": f"resp_{number}", "object": "response", "model": MODEL, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(output):
        yield {"type": "response.output_item.added", "output_index": index, "item": _announced(item)}
        for piece in _pieces(item):
            yield {
                "type": "response.output_text.delta",
                "item_id": item["id"],
                "output_index": index,
                "content_index": 0,
                "delta": piece,
            }
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    written = estimate_bytes(len(msgspec.json.encode(output)))
    usage = {
        "input_tokens": received.tokens,
        "input_tokens_details": {"cached_tokens": received.unchanged_tokens},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": received.tokens + written,
    }
    yield {"type": "response.completed", "response": begun | {"status": "completed", "output": list(output), "usage": usage}}


def _announced(item: Json) -> Json:
    """Return an item as it looks before any of its text has come."""
    return item | {name: type(item[name])() for name in ("content", "arguments") if name in item}


def _pieces(item: Json) -> list[str]:
    if item["type"] != "message":
        return []
    text = "".join(
        part["text"] for part in msgspec.convert(item["content"], list[dict[str, object]]) if isinstance(part["text"], str)
    )
    return [text[start : start + DELTA_CHARS] for start in range(0, len(text), DELTA_CHARS)]


def _written(event: Json, *, sequence: int) -> bytes:
    line = msgspec.json.encode({"type": event["type"], "sequence_number": sequence} | event)
    return f"event: {event['type']}\n".encode() + b"data: " + line + b"\n\n"
