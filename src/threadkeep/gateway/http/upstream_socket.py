"""The provider's side of a lane: a WebSocket where the provider has one, else HTTP.

A lane is a run of requests that are answered one after the other. What the provider still has from the last one on this socket is
not sent again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import ClientError, ClientPayloadError, ClientWebSocketResponse, WSMsgType
from multidict import CIMultiDict

from threadkeep.dialects import Dialect, Reply, ReplyReader
from threadkeep.dialects.api import Frames
from threadkeep.dialects.raw_json import read_fields
from threadkeep.gateway.http.headers import RawHeaders
from threadkeep.gateway.http.upstream import IDLE_SECONDS, Upstream, UpstreamAnswer, UpstreamFailure

EVENTS = ((b"content-type", b"text/event-stream"),)
# The provider no longer has what a request goes on from, or has had enough of this socket: the whole window is sent once more.
STARTS_AGAIN = frozenset({"previous_response_not_found", "websocket_connection_limit_reached"})

Connect = Callable[[], Awaitable[ClientWebSocketResponse | None]]


class Lanes:
    """The lanes to a provider that one client's socket needs; they hold the client's credentials."""

    def __init__(self, upstream: Upstream, target: str, *, headers: CIMultiDict[str], dialect: Dialect, frames: Frames) -> None:
        self._upstream = upstream
        self._target = target
        self._headers = headers
        self._dialect = dialect
        self._frames = frames
        self._has_sockets = False
        self._spare: ClientWebSocketResponse | None = None
        self._lanes: list[Lane] = []

    async def open(self) -> RawHeaders | None:
        """Open a socket for the first lane; return the headers with which the provider accepts it, None where it opens none."""
        opened = await self._upstream.connect(self._target, headers=self._headers)
        if opened is None:
            return None
        self._spare, headers = opened
        self._has_sockets = True
        return headers

    def make_lane(self) -> Lane:
        connect = self._connect if self._has_sockets else None
        lane = Lane(self._upstream, frames=self._frames, make_reader=self._dialect.wire.make_reader, connect=connect)
        self._lanes.append(lane)
        return lane

    async def _connect(self) -> ClientWebSocketResponse | None:
        socket, self._spare = self._spare, None
        if socket is not None:
            return socket
        opened = await self._upstream.connect(self._target, headers=self._headers)
        return None if opened is None else opened[0]

    async def close(self) -> None:
        for lane in self._lanes:
            await lane.close()
        if self._spare is not None:
            await self._spare.close()


class Lane:
    """A provider as one lane meets it; `connect` opens a socket, and returns None where the provider has none for this client.

    A provider that opens no socket is asked over HTTP from then on.
    """

    def __init__(
        self, upstream: Upstream, *, frames: Frames, make_reader: Callable[[], ReplyReader], connect: Connect | None
    ) -> None:
        self._upstream = upstream
        self._frames = frames
        self._make_reader = make_reader
        self._connect = connect
        self._socket: ClientWebSocketResponse | None = None
        self._sent: tuple[bytes, ...] = ()
        self._previous: str | None = None

    @asynccontextmanager
    async def exchange(
        self, method: str, target: str, *, headers: CIMultiDict[str], body: bytes
    ) -> AsyncIterator[UpstreamAnswer | UpstreamFailure]:
        """Send a request and yield the answer once its first event is here; see `Upstream.exchange`."""
        events = await self._ask(body) if self._connect is not None else None
        if events is None:
            async with self._upstream.exchange(method, target, headers=headers, body=body) as answer:
                yield answer
            return
        try:
            yield UpstreamAnswer(events)
        finally:
            if not events.ended:
                # A response that is under way cannot be stopped otherwise.
                await self.close()

    async def close(self) -> None:
        """Close the socket, if there is one; the next request opens another."""
        socket, self._socket, self._sent, self._previous = self._socket, None, (), None
        if socket is not None:
            await socket.close()

    async def _ask(self, body: bytes) -> SocketEvents | None:
        """Return the events of an answer; None where no socket gives one."""
        for _ in range(2):
            if self._socket is None:
                self._socket = await self._connect() if self._connect is not None else None
            if self._socket is None:
                self._connect = None
                return None
            events = await self._send(self._socket, body)
            if events is not None:
                return events
            await self.close()
        return None

    async def _send(self, socket: ClientWebSocketResponse, body: bytes) -> SocketEvents | None:
        """Send what the provider does not have yet; None where it does not begin to answer."""
        frame, sent = self._frames.make_create_frame(body, sent=self._sent, previous=self._previous)
        events = SocketEvents(socket, reader=self._make_reader(), on_end=lambda reply: self._remember(sent, reply))
        try:
            await socket.send_str(frame.decode())
            opening = await events.look()
        except (ClientError, ConnectionError, TimeoutError):
            return None
        error = read_fields(opening)
        code = error.inner("error").text("code") if error is not None and error.text("type") == "error" else None
        return None if code in STARTS_AGAIN and (self._sent or code != "previous_response_not_found") else events

    def _remember(self, sent: tuple[bytes, ...], reply: Reply) -> None:
        is_whole = reply.outcome in ("completed", "incomplete") and sent
        self._previous = reply.response_id if is_whole else None
        self._sent = (*sent, *(item.raw for item in reply.items)) if is_whole else ()


class SocketEvents:
    """The answer to one request on a socket, as the stream of events that HTTP would carry; `ended` once it is whole."""

    status = 200
    raw_headers: RawHeaders = EVENTS

    def __init__(self, socket: ClientWebSocketResponse, *, reader: ReplyReader, on_end: Callable[[Reply], None]) -> None:
        self._socket = socket
        self._reader = reader
        self._on_end = on_end
        self._first = b""
        self.ended = False

    @property
    def content(self) -> SocketEvents:
        return self

    async def look(self) -> bytes:
        """Return the first event without taking it."""
        self._first = await self._receive()
        return self._first

    async def readany(self) -> bytes:
        """Return the next event, nothing at the end.

        Raises:
            ClientPayloadError: The answer broke off.
        """
        if self.ended:
            return b""
        try:
            data, self._first = self._first or await self._receive(), b""
        except TimeoutError as error:
            raise ClientPayloadError("the provider fell silent") from error
        event = b"".join(b"data: " + line + b"\n" for line in data.splitlines()) + b"\n"
        if self._reader.feed(event):
            self.ended = True
            self._on_end(self._reader.reply)
        return event

    async def iter_any(self) -> AsyncIterator[bytes]:
        while event := await self.readany():
            yield event

    def close(self) -> None:
        """Nothing: the lane decides what becomes of its socket."""

    async def _receive(self) -> bytes:
        async with asyncio.timeout(IDLE_SECONDS):
            message = await self._socket.receive()
        if message.type is not WSMsgType.TEXT:
            raise ClientPayloadError("the provider closed the socket")
        return bytes(message.data.encode())
