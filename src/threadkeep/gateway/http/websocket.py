"""Serves an API over WebSocket: each frame of a client becomes the request it would be over HTTP, and each event a frame.

Keys, limits, conversations and records behind this module know HTTP alone. A client may name lanes: what it asks in one is
answered in order, and lanes are answered beside each other. Steering is done here, whatever the provider can do: the addition
waits until the answer is whole, and then begins the next one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from aiohttp import ClientError

from threadkeep.dialects import Answer, Dialect, Reply
from threadkeep.dialects.api import Frames
from threadkeep.dialects.raw_json import read_object, read_value
from threadkeep.dialects.sse import EventReader
from threadkeep.dialects.values import Frame
from threadkeep.gateway.http.exchange import Call, Message, Receive, Send
from threadkeep.gateway.http.headers import RawHeaders, first
from threadkeep.gateway.http.proxy import AnswerStamp
from threadkeep.gateway.http.upstream_socket import Lane, Lanes
from threadkeep.items import Item, ItemKind, Role

# The limits of the API itself.
LANES: Final = 32
IN_FLIGHT: Final = 16
LIFETIME_SECONDS: Final = 3600
STEERINGS: Final = 8
ERROR_BYTES: Final = 256 * 1024
# Why a connection is closed, as RFC 6455 says it.
NORMAL, RESTART = 1000, 1012
FRAMING: Final = frozenset(
    {b"connection", b"upgrade", b"content-length", b"transfer-encoding", b"content-type", b"date", b"server"}
)
FRAMING_PREFIX: Final = b"sec-websocket-"
# A provider that is asked over HTTP has no use for what switches its sockets on.
SOCKET_BETA: Final = b"responses_websockets="

# Answers a request as if it had come over HTTP, and asks the provider through a lane.
Post = Callable[[Call, Receive, Send, Lane], Awaitable[None]]


@dataclass(slots=True, kw_only=True)
class Stream:
    """A lane of a client: what waits to be answered, what is being answered, and what was added to that."""

    name: str | None
    lane: Lane
    waiting: asyncio.Queue[Frame] = field(default_factory=asyncio.Queue)
    answering: Exchange | None = None
    steerings: list[tuple[dict[str, object], Frame]] = field(default_factory=list)


class ClientSocket:
    """One client's socket. It holds the client's credentials, and lives as long as the connection."""

    def __init__(
        self,
        call: Call,
        receive: Receive,
        send: Send,
        *,
        dialect: Dialect,
        frames: Frames,
        post: Post,
        lanes: Lanes,
        stamp: AnswerStamp,
        stopping: asyncio.Event,
    ) -> None:
        self._call = call
        self._receive = receive
        self._send_message = send
        self._dialect = dialect
        self._frames = frames
        self._post = post
        self._lanes = lanes
        self._stamp = stamp
        self._stopping = stopping
        self._gone = asyncio.Event()
        self._room = asyncio.Semaphore(IN_FLIGHT)
        self._streams: dict[str | None, Stream] = {}
        self._tasks: list[asyncio.Task[None]] = []
        # What later requests on this socket may go on from: requests that were only prepared, and what was added to an answer.
        self._prepared: dict[str, Frame] = {}
        self._pending: dict[str, list[Item]] = {}

    async def run(self, headers: RawHeaders) -> None:
        """Accept the socket, with these headers, and serve it until the client leaves, its time is over, or the gateway stops."""
        await self._send_message({"type": "websocket.accept", "headers": list(headers)})
        reading, stopping = asyncio.create_task(self._read_frames()), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait((reading, stopping), timeout=LIFETIME_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
            else:
                await self._leave(stops=stopping.done())
        finally:
            self._gone.set()
            reading.cancel()
            stopping.cancel()
            for stream in self._streams.values():
                stream.waiting.put_nowait(STOP)
            if self._tasks:
                await asyncio.wait(self._tasks)
            await self._lanes.close()

    async def _leave(self, *, stops: bool) -> None:
        """Let running answers end, and make the client connect again."""
        await asyncio.gather(*(stream.waiting.join() for stream in self._streams.values()))
        if not stops:
            message = "this connection is an hour old; open another"
            await self._refuse("websocket_connection_limit_reached", message, stream=None)
        with suppress(OSError):
            await self._send_message({"type": "websocket.close", "code": RESTART if stops else NORMAL})

    async def _read_frames(self) -> None:
        while (data := await self._read()) is not None:
            await self._take(data)

    async def _read(self) -> bytes | None:
        """Return the next frame; None once the client is gone."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return None
            if (text := message.get("text")) is not None:
                return bytes(text.encode())
            if (data := message.get("bytes")) is not None:
                return bytes(data)

    async def _take(self, data: bytes) -> None:
        frame = self._frames.read_frame(data)
        if frame is None or not frame.kind:
            stream = frame.stream if frame is not None else None
            await self._refuse("unknown_event", "a frame is response.create or response.steer", stream=stream)
        elif frame.kind == "steer":
            await self._steer(frame)
        elif frame.kind == "create" and frame.input is None:
            await self._refuse("invalid_request", "the input is neither text nor a list of items", stream=frame.stream)
        elif frame.kind == "create":
            found = self._find_stream(frame.stream)
            if found is None:
                message = f"a connection has at most {LANES} streams"
                await self._refuse("websocket_stream_limit_reached", message, stream=frame.stream)
                return
            await self._room.acquire()
            found.waiting.put_nowait(frame)

    def _find_stream(self, name: str | None) -> Stream | None:
        if name not in self._streams:
            if len(self._streams) >= LANES:
                return None
            stream = self._streams[name] = Stream(name=name, lane=self._lanes.make_lane())
            self._tasks.append(asyncio.create_task(self._work(stream)))
        return self._streams[name]

    async def _work(self, stream: Stream) -> None:
        while (frame := await stream.waiting.get()) is not STOP and not self._gone.is_set():
            try:
                await self._answer(stream, frame)
            finally:
                self._room.release()
                stream.waiting.task_done()

    async def _answer(self, stream: Stream, frame: Frame) -> None:
        """Answer a frame, and what is added to the answer while it is given."""
        if not frame.generates:
            await self._prepare(stream, frame)
            return
        following: Frame | None = frame
        while following is not None and not self._gone.is_set():
            reply = await self._exchange(stream, following)
            following = await self._follow(stream, following, reply)

    async def _prepare(self, stream: Stream, frame: Frame) -> None:
        """Answer a request that asks for nothing; the client goes on from it with the rest."""
        model = read_value(frame.fields.get("model", b"null"))
        answer = Answer(
            text="",
            response_id=f"{self._dialect.api.endpoints.id_prefix}{self._stamp.new_id()}",
            message_id="",
            model=model if isinstance(model, str) else "",
            created_at=int(self._stamp.now()),
        )
        previous, before = self._resolve(frame)
        self._prepared[answer.response_id] = replace(frame, previous=previous, input=(*before, *(frame.input or ())))
        while len(self._prepared) > LANES:
            del self._prepared[next(iter(self._prepared))]
        for event in self._frames.make_empty_answer(answer):
            await self._send(self._frames.make_event(event, stream=stream.name))

    def _resolve(self, frame: Frame) -> tuple[str | None, Sequence[Item]]:
        """Return the recorded answer that a frame goes on from, and the items of this socket that stand before its own."""
        if frame.previous is None:
            return None, ()
        prepared = self._prepared.get(frame.previous)
        if prepared is not None:
            return prepared.previous, prepared.input or ()
        return frame.previous, self._pending.pop(frame.previous, ())

    async def _exchange(self, stream: Stream, frame: Frame) -> Reply:
        previous, before = self._resolve(frame)
        body = self._frames.make_body(frame, previous=previous, items=(*before, *(frame.input or ())))
        said = self._frames.read_headers(frame)
        opening = drop_framing(self._call.headers)
        kept = ((name, value) for name, value in opening if name.decode("latin-1") not in said)
        headers = [(name, value) for name, value in kept if not value.startswith(SOCKET_BETA)]
        headers += [(name.encode(), value.encode()) for name, value in said.items()]
        headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        call = replace(self._call, method="POST", headers=headers)
        exchange = stream.answering = Exchange(body, gone=self._gone, dialect=self._dialect, send=self._sender(stream))
        try:
            await self._post(call, exchange.receive, exchange.send, stream.lane)
        except ClientError:
            # What broke off was recorded so.
            pass
        finally:
            stream.answering = None
        if not exchange.ended and not self._gone.is_set():
            await self._refuse("upstream_cut", "the provider's answer broke off", stream=stream.name, status=502)
        return exchange.reply

    def _sender(self, stream: Stream) -> Callable[[bytes], Awaitable[None]]:
        async def send(event: bytes) -> None:
            await self._send(self._frames.make_event(event, stream=stream.name))

        return send

    async def _steer(self, frame: Frame) -> None:
        """Add to an answer that is being given on this socket."""
        steer: dict[str, object] = {"id": f"steer_{self._stamp.new_id()}", "previous_response_id": frame.previous}
        steered = (each for each in self._streams.values() if each.answering and each.answering.response_id == frame.previous)
        stream = next(steered, None) if frame.previous is not None else None
        if not frame.input or not all(map(self._is_user_message, frame.input)):
            await self._fail_steering(stream, steer, frame, code="invalid_input")
        elif stream is None:
            await self._fail_steering(stream, steer, frame, code="response_not_found")
        elif len(stream.steerings) >= STEERINGS:
            await self._fail_steering(stream, steer, frame, code="too_many_pending_steers")
        else:
            stream.steerings.append((steer, frame))
            await self._send(self._frames.make_steer_event("accepted", steer, stream=stream.name))

    def _is_user_message(self, item: Item) -> bool:
        view = self._dialect.view(item)
        return view.kind is ItemKind.MESSAGE and view.role is Role.USER

    async def _fail_steering(self, stream: Stream | None, steer: dict[str, object], frame: Frame, *, code: str) -> None:
        given = read_value(frame.fields.get("input", b"null"))
        error = {"type": "invalid_request_error", "code": code, "message": f"the input was not taken: {code}"}
        name = stream.name if stream is not None else None
        event = self._frames.make_steer_event("failed", {**steer, "input": given}, stream=name, error=error)
        await self._send(event)

    async def _follow(self, stream: Stream, frame: Frame, reply: Reply) -> Frame | None:
        """Return what the model is asked next, if something was added to the answer it just gave."""
        steerings, stream.steerings = stream.steerings, []
        if not steerings or self._gone.is_set():
            return None
        if reply.response_id is None or reply.outcome not in ("completed", "incomplete"):
            for steer, steering in steerings:
                await self._fail_steering(stream, steer, steering, code="response_failed")
            return None
        added = tuple(item for _, steering in steerings for item in steering.input or ())
        views = [self._dialect.view(item) for item in reply.items]
        closed = {call for view in views for call in view.closes}
        open_calls = [call for view in views for call in view.opens if call not in closed]
        if not open_calls:
            return replace(frame, previous=reply.response_id, input=added)
        self._pending[reply.response_id] = list(added)
        required = self._frames.list_required(reply.items, open_calls)
        for steer, _ in steerings:
            waits = {"reason": "waiting_for_required_input", "required_input": required}
            await self._send(self._frames.make_steer_event("pending", steer, stream=stream.name, **waits))
        return None

    async def _refuse(self, code: str, message: str, *, stream: str | None, status: int = 400) -> None:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"type": kind, "code": code, "message": message}
        await self._send(self._frames.make_error(status, error, stream=stream))

    async def _send(self, frame: bytes) -> None:
        if self._gone.is_set():
            return
        try:
            await self._send_message({"type": "websocket.send", "text": frame.decode("utf-8", "replace")})
        except OSError:
            self._gone.set()


STOP: Final = Frame(kind="", stream=None, previous=None, generates=False, fields={}, input=None)


class Exchange:
    """One request and its answer, as an ASGI server would carry them; what is answered goes out as frames.

    `ended` is whether the client was told how the answer ends.
    """

    def __init__(self, body: bytes, *, gone: asyncio.Event, dialect: Dialect, send: Callable[[bytes], Awaitable[None]]) -> None:
        self._body: bytes | None = body
        self._gone = gone
        self._frames = dialect.api.frames
        self._send = send
        self._events = EventReader()
        self._reader = dialect.wire.make_reader()
        self._status = 0
        self._is_stream = False
        self._refusal = bytearray()
        self.ended = False

    @property
    def reply(self) -> Reply:
        return self._reader.reply

    @property
    def response_id(self) -> str | None:
        return self._reader.reply.response_id

    async def receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            is_stream = "text/event-stream" in first(message["headers"], b"content-type")
            self._is_stream = is_stream and self._status < 400
        elif self._is_stream:
            chunk = message.get("body", b"")
            self.ended = self._reader.feed(chunk) or self.ended
            for event in self._events.feed(chunk):
                if event != b"[DONE]":
                    await self._send(event)
        else:
            self._refusal += message.get("body", b"")[: ERROR_BYTES - len(self._refusal)]
            if not message.get("more_body", False):
                await self._say_refusal()

    async def _say_refusal(self) -> None:
        self.ended = True
        error = (read_object(bytes(self._refusal)) or {}).get("error")
        if self._status < 400 or not isinstance(error, dict):
            error = {"type": "server_error", "code": "no_stream", "message": "the provider did not stream its answer"}
        if self._frames is not None:
            await self._send(self._frames.make_error(self._status if self._status >= 400 else 502, error, stream=None))


def drop_framing(headers: RawHeaders) -> RawHeaders:
    """Return the headers of an opening, or of the answer to it, without those that both ends of one connection write anew."""
    lowered = [(name.lower(), value) for name, value in headers]
    return [(name, value) for name, value in lowered if name not in FRAMING and not name.startswith(FRAMING_PREFIX)]


def answer_opening(send: Send) -> Send:
    """Return a `send` that answers the opening of a socket as a request is answered."""

    async def answer(message: Message) -> None:
        await send({**message, "type": f"websocket.{message['type']}"})

    return answer
