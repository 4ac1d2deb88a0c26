"""A model's server that sends scripted replies byte for byte, in any wire language.

`ModelServer` stands on the loopback interface in the test's own event loop. Like `ScriptedProvider`, which knows the Responses
API and its rules, it is strict: a request without a reply and a reply without a request fail the test. This one knows nothing of
what it sends, so that it can also send what no provider should.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from aiohttp import web
from tests.doubles.provider import CREDENTIAL_HEADERS, MAX_BODY_BYTES
from tests.doubles.script import Received

from threadkeep.dialects import find_dialect
from threadkeep.testing.model_checks import EVENTS, HttpReply, make_whole_reply, stream_reply


def streamed(dialect: str, text: str) -> HttpReply:
    """Say `text` as a stream of events, in pieces that fall into the middle of events."""
    return stream_reply(find_dialect(dialect), text)


def unstreamed(dialect: str, text: str) -> HttpReply:
    """Say `text` as one JSON object, as servers do that do not stream."""
    return make_whole_reply(find_dialect(dialect), text)


def events(*data: Mapping[str, Any] | str) -> HttpReply:
    """Send these events and end."""
    lines = (one if isinstance(one, str) else json.dumps(one) for one in data)
    return HttpReply(headers=EVENTS, chunks=tuple(f"data: {line}\n\n".encode() for line in lines))


class ModelServer:
    """A server on 127.0.0.1 that answers the n-th request with the n-th reply; use it as an async context manager.

    Leaving it raises AssertionError when replies are unused or requests came that there was no reply for, unless another error is
    already on its way out. `abandoned` is set once a client has left before its answer was complete.
    """

    def __init__(self, script: Sequence[HttpReply]) -> None:
        self.requests: list[Received] = []
        self.abandoned = asyncio.Event()
        self._script = tuple(script)
        self._arrival = asyncio.Condition()
        self._port = 0
        application = web.Application(client_max_size=MAX_BODY_BYTES)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=1.0)

    @property
    def origin(self) -> str:
        """Its address, without a path."""
        return f"http://127.0.0.1:{self._port}"

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
        if error is None and len(self.requests) != len(self._script):
            raise AssertionError(f"{len(self._script)} replies were written down, {len(self.requests)} requests came")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        headers = {name.lower(): value for name, value in request.headers.items()}
        async with self._arrival:
            self.requests.append(
                Received(
                    method=request.method,
                    path=request.path,
                    headers={name: value for name, value in headers.items() if name not in CREDENTIAL_HEADERS},
                    authorised=not CREDENTIAL_HEADERS.isdisjoint(headers),
                    raw=raw,
                    body=json.loads(raw),
                )
            )
            number = len(self.requests)
            self._arrival.notify_all()
        if number > len(self._script):
            return web.Response(status=500, text="nothing was written down for this request")
        try:
            return await self._reply(request, self._script[number - 1])
        except (asyncio.CancelledError, ConnectionError):
            self.abandoned.set()
            raise

    async def _reply(self, request: web.Request, reply: HttpReply) -> web.StreamResponse:
        response = web.StreamResponse(status=reply.status, headers=reply.headers)
        await response.prepare(request)
        for chunk in reply.chunks:
            await response.write(chunk)
        if reply.hold is not None:
            await reply.hold.wait()
        if reply.cut and request.transport is not None:
            request.transport.close()
        else:
            await response.write_eof()
        return response
