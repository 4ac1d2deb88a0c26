"""The demo's model provider: it gives the recorded replies and keeps the requests it received.

It serves the OpenAI Responses API on loopback and, like a real provider, refuses a request larger than the model's window.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import msgspec
from aiohttp import web

from threadkeep.demo.session import Session
from threadkeep.tokens import estimate_bytes

MODEL = "demo-model"
LARGEST_BODY = 64 * 1024 * 1024


class _Body(msgspec.Struct):
    input: list[msgspec.Raw]


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """One request as it reached the provider, its items as exact bytes.

    `unchanged_tokens` is the size of the leading items that are byte for byte those of the request before; `grew` says that all
    of them are.
    """

    items: tuple[bytes, ...]
    tokens: int
    unchanged_tokens: int
    grew: bool
    at: float


class DemoProvider:
    """Answers each request with the next recorded reply. `received` is every request it accepted, oldest first."""

    def __init__(self, session: Session) -> None:
        self.received: list[Received] = []
        self._replies = [step.reply for turn in session.turns for step in turn.steps]
        self._window_tokens = session.window_tokens

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Serve on a free port of the loopback interface inside the block; yields the base URL."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/v1/responses", self._respond)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        finally:
            await runner.cleanup()

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        received = self._read_request(await request.read())
        if received.tokens > self._window_tokens:
            return _refuse("context_length_exceeded", f"{received.tokens} tokens; this model holds {self._window_tokens}")
        if len(self.received) >= len(self._replies):
            return _refuse("nothing_to_say", "the recorded session is over")
        reply = self._replies[len(self.received)]
        self.received.append(received)
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
        await response.prepare(request)
        for event in _list_events(reply, received, number=len(self.received)):
            await response.write(b"data: " + msgspec.json.encode(event) + b"\n\n")
        await response.write_eof()
        return response

    def _read_request(self, body: bytes) -> Received:
        at = time.perf_counter()
        items = tuple(map(bytes, msgspec.json.decode(body, type=_Body).input))
        before = self.received[-1].items if self.received else ()
        pairs = zip(before, items, strict=False)
        unchanged = next((index for index, (old, new) in enumerate(pairs) if old != new), min(len(before), len(items)))
        return Received(
            items=items,
            tokens=estimate_bytes(len(body)),
            unchanged_tokens=estimate_bytes(sum(len(item) + 1 for item in items[:unchanged])),
            grew=unchanged == len(before),
            at=at,
        )


def _refuse(code: str, message: str) -> web.Response:
    return web.json_response({"error": {"type": "invalid_request_error", "code": code, "message": message}}, status=400)


def _list_events(output: Sequence[msgspec.Raw], received: Received, *, number: int) -> Iterator[dict[str, object]]:
    """Yield the events of one streamed reply."""
    response = {"id": f"resp_{number}", "object": "response", "model": MODEL, "status": "in_progress", "output": []}
    yield {"type": "response.created", "response": response}
    for index, item in enumerate(output):
        yield {"type": "response.output_item.added", "output_index": index, "item": item}
        yield {"type": "response.output_item.done", "output_index": index, "item": item}
    written = estimate_bytes(sum(len(bytes(item)) for item in output))
    usage = {
        "input_tokens": received.tokens,
        "input_tokens_details": {"cached_tokens": received.unchanged_tokens},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": received.tokens + written,
    }
    yield {"type": "response.completed", "response": response | {"status": "completed", "output": output, "usage": usage}}
