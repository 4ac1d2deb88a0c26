"""The client's side of one exchange, over ASGI."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote_to_bytes

from threadkeep.gateway.http.headers import RawHeaders, first

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class Caller:
    """Reads one request's body and writes its answer. Writing waits until the client can take more.

    `gone` is whether the client was seen to leave before its answer was whole; `status` is what it was answered with (0 until
    then), `received` and `sent` count the bytes of both bodies.
    """

    def __init__(self, receive: Receive, send: Send, *, has_body: bool) -> None:
        self._receive = receive
        self._send = send
        self._body_read = asyncio.Event()
        if not has_body:
            self._body_read.set()
        self.gone = False
        self.status = 0
        self.received = 0
        self.sent = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives.

        Raises:
            ConnectionResetError: The client left before the body was whole.
        """
        while not self._body_read.is_set():
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self.gone = True
                self._body_read.set()
                raise ConnectionResetError("the client left before its request was whole")
            if not message.get("more_body", False):
                self._body_read.set()
            if chunk := message.get("body", b""):
                self.received += len(chunk)
                yield chunk

    async def read(self, *, limit: int) -> bytes | None:
        """Return the whole body, or None as soon as it is longer than `limit`.

        Raises:
            ConnectionResetError: The client left before the body was whole.
        """
        pieces: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                return None
            pieces.append(chunk)
        return b"".join(pieces)

    async def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(self, chunk: bytes) -> None:
        self.sent += len(chunk)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def end(self, chunk: bytes = b"") -> None:
        """Write the last bytes and with them the end of the answer."""
        self.sent += len(chunk)
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})

    async def answer(self, status: int, body: bytes, *, content_type: bytes = b"application/json") -> None:
        """Write a whole answer of our own."""
        length = str(len(body)).encode()
        await self.start(status, [(b"content-type", content_type), (b"content-length", length)])
        await self.end(body)

    async def run_while_connected(self, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` to its end, but cancel it when the client leaves; what it raises is raised here.

        If the client left before, `work` is never begun.
        """
        watching = asyncio.create_task(self._leave())
        working: asyncio.Task[None] | None = None
        try:
            # One turn of the loop is what it takes to see that nobody is there to answer any more.
            await asyncio.sleep(0)
            if watching.done():
                self.gone = True
                return
            working = asyncio.create_task(work)
            await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
            self.gone = self.gone or not working.done()
        finally:
            watching.cancel()
            if working is None:
                work.close()
            else:
                working.cancel()
                await asyncio.wait((working, watching))
        if not working.cancelled():
            working.result()

    async def _leave(self) -> None:
        """Return once the client is gone. Until the body is read the one who reads it must be the one who notices."""
        await self._body_read.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass


DECODED_TIMES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request line and its headers; both may hold credentials."""

    method: str
    path: bytes = field(repr=False)
    query: bytes = field(repr=False)
    headers: RawHeaders = field(repr=False)

    @classmethod
    def of(cls, scope: MutableMapping[str, Any]) -> Self:
        """Return the request an ASGI server announces."""
        return cls(method=scope["method"], path=scope["raw_path"], query=scope["query_string"], headers=scope["headers"])

    @property
    def length(self) -> int:
        """The announced length of the body; 0 where none is announced."""
        announced = first(self.headers, b"content-length")
        return int(announced) if announced.isascii() and announced.isdigit() else 0

    @property
    def has_body(self) -> bool:
        return self.length > 0 or bool(first(self.headers, b"transfer-encoding"))

    @property
    def has_parent_segment(self) -> bool:
        """Whether the path names a folder's parent: behind a proxy it could leave the part of a server it was meant for."""
        decoded = self.path
        # A server behind the provider may decode once more, take `\\` for `/`, and leave out what follows a `;`.
        for _ in range(DECODED_TIMES):
            decoded = unquote_to_bytes(decoded)
        return any(segment.partition(b";")[0] in (b".", b"..") for segment in decoded.replace(b"\\", b"/").split(b"/"))

    def target(self, path: str) -> str:
        """Return `path` with the query this request came with.

        Raises:
            UnicodeDecodeError: The query holds bytes that no URL may hold.
        """
        return f"{path}{'&' if '?' in path else '?'}{self.query.decode('ascii')}" if self.query else path
