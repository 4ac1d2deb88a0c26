"""The provider's side of one exchange."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from aiohttp import (
    ClientError,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    ClientWSTimeout,
    ConnectionTimeoutError,
    DummyCookieJar,
    ServerTimeoutError,
    TCPConnector,
    TraceConfig,
    TraceRequestEndParams,
)
from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import Payload
from multidict import CIMultiDict
from yarl import URL

from threadkeep.errors import InvalidSetting
from threadkeep.gateway.http.headers import RawHeaders, first
from threadkeep.gateway.http.routes import ERROR_DIALECTS, OPENAI

CONNECT_SECONDS = 30
# A model that thinks for minutes sends nothing meanwhile; a provider silent for longer than this is not coming back.
IDLE_SECONDS = 600

# A socket whose other end is gone says so only if it is asked.
HEARTBEAT_SECONDS = 30
# A client waits for the answer to its own opening meanwhile.
OPEN_SECONDS = 10
CLOSE_SECONDS = 5
MESSAGE_BYTES = 64 * 1024 * 1024

# No total: a stream that flows may flow for hours.
TIMEOUT = ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=IDLE_SECONDS)

# As much as is handed to the connection at once.
PIECE_BYTES = 256 * 1024

# What the client library would add where the client sent nothing.
AUTOMATIC_HEADERS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


def open_upstream_session() -> ClientSession:
    """Return a session that leaves what passes through it alone: no cookie is kept, nothing is decompressed, none waits.

    Must be called inside the event loop that uses it; the caller closes it.
    """
    return ClientSession(auto_decompress=False, connector=TCPConnector(limit=0), cookie_jar=DummyCookieJar(), timeout=TIMEOUT)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamFailure:
    """Why the provider's answer never began, as the client is told."""

    status: int
    code: str
    message: str


class Content(Protocol):
    """The body of an answer as it comes."""

    async def readany(self) -> bytes: ...

    def iter_any(self) -> AsyncIterator[bytes]: ...


class Response(Protocol):
    """An answer of a provider: of an HTTP client, or of a lane on a socket."""

    @property
    def status(self) -> int: ...

    @property
    def raw_headers(self) -> RawHeaders: ...

    @property
    def content(self) -> Content: ...

    def close(self) -> None: ...


class UpstreamAnswer:
    """An answer whose headers are here. Its beginning can be looked at before it is relayed; no byte is lost by that."""

    def __init__(self, response: Response, *, ahead: Sequence[bytes] = ()) -> None:
        self._response = response
        self._ahead = list(ahead)

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> RawHeaders:
        return self._response.raw_headers

    @property
    def is_json(self) -> bool:
        return "json" in first(self.headers, b"content-type")

    @property
    def seen(self) -> bytes:
        """What was looked at so far."""
        return b"".join(self._ahead)

    async def look_ahead(self, *, within_seconds: float) -> bool:
        """Read what comes next without relaying it; false where nothing more came: the end, or the time was over.

        Raises:
            ClientError: The answer broke off.
        """
        try:
            async with asyncio.timeout(within_seconds):
                chunk = await self._response.content.readany()
        except TimeoutError:
            return False
        self._ahead.append(chunk)
        return bool(chunk)

    async def read(self) -> bytes:
        """Return what comes next; nothing at the end.

        Raises:
            ClientError: The answer broke off.
        """
        return self._ahead.pop(0) if self._ahead else await self._response.content.readany()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the whole body as it comes, what was looked at first.

        Raises:
            ClientError: The answer broke off.
        """
        while self._ahead:
            if chunk := self._ahead.pop(0):
                yield chunk
        async for chunk in self._response.content.iter_any():
            yield chunk

    def close(self) -> None:
        """Abandon what was not read: the connection is closed, which the provider can notice."""
        self._response.close()


class Body(Payload):
    """A body that is here whole, written in pieces: others have their turn between them, and none is copied first."""

    _value: bytes

    def __init__(self, body: bytes) -> None:
        super().__init__(body)
        self._size = len(body)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def as_bytes(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        return self._value

    async def write(self, writer: AbstractStreamWriter) -> None:
        await self.write_with_length(writer, None)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        size = len(self._value) if content_length is None else min(content_length, len(self._value))
        view = memoryview(self._value)
        for start in range(0, size, PIECE_BYTES):
            await writer.write(view[start : min(start + PIECE_BYTES, size)])


async def _refuse_redirect(session: ClientSession, context: object, params: object) -> None:
    """Keep the client's credentials from a server that it was not pointed at."""
    raise ClientError("the provider points elsewhere")


def _url(base: str) -> URL:
    try:
        url = URL(base)
        usable = url.scheme in ("http", "https") and url.host is not None and url.port is not None
    except ValueError:
        usable = False
    if not usable:
        raise InvalidSetting("upstream", f"an upstream is an http:// or https:// URL, not {base!r}")
    if url.user is not None or url.password is not None:
        # Not repeated: an error must not show a password.
        text = "the URL of an upstream holds a user or password; leave them out, clients send credentials of their own"
        raise InvalidSetting("upstream", text)
    return url


class Upstream:
    """A provider at a base URL, as its own clients would be given it.

    For OpenAI that is `https://api.openai.com/v1`, and a URL without a path means the provider's root, whose API is under
    `/v1`. Clients of Anthropic are given what stands before `/v1` and add it themselves, whatever the path.

    Raises:
        InvalidSetting: `base` is not an http:// or https:// URL, or holds credentials.
    """

    def __init__(self, base: str, *, session: ClientSession, provider: str = OPENAI) -> None:
        url = _url(base)
        path = url.path.rstrip("/")
        endpoints = ERROR_DIALECTS[provider].api.endpoints
        versioned = path.endswith(endpoints.mount) if endpoints.is_mount_added else bool(path)
        stem = f"{url.origin()}{url.raw_path.rstrip('/')}"
        self._base = stem if versioned else f"{stem}{endpoints.mount}"
        self._root = self._base.removesuffix(endpoints.mount)
        self._place = f"{url.host_subcomponent}:{url.port}"
        self._session = session

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: str,
        *,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
        is_at_root: bool = False,
    ) -> AsyncIterator[UpstreamAnswer | UpstreamFailure]:
        """Send a request and yield the answer once its headers are here; `target` is a path and query, already encoded.

        The path is below the provider's API, or, with `is_at_root`, beside it.

        An answer not read to its end is abandoned: the connection is closed, which the provider can notice.
        """
        base = self._root if is_at_root else self._base
        answer = await self._send(method, URL(base + target, encoded=True), headers=headers, body=body)
        try:
            yield answer
        finally:
            if isinstance(answer, UpstreamAnswer):
                answer.close()

    async def connect(self, target: str, *, headers: CIMultiDict[str]) -> tuple[ClientWebSocketResponse, RawHeaders] | None:
        """Open a WebSocket and return it with the headers of the answer; None where the provider opens none for this client.

        The caller closes it.
        """
        answered: list[RawHeaders] = []

        async def note_answer(session: ClientSession, context: object, params: TraceRequestEndParams) -> None:
            answered.append(params.response.raw_headers)

        tracing = TraceConfig()
        tracing.on_request_redirect.append(_refuse_redirect)
        tracing.on_request_end.append(note_answer)
        session = ClientSession(
            connector=self._session.connector, connector_owner=False, cookie_jar=DummyCookieJar(), trace_configs=[tracing]
        )
        async with session:
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    socket = await session.ws_connect(
                        URL(self._base + target, encoded=True),
                        headers=headers,
                        timeout=ClientWSTimeout(ws_close=CLOSE_SECONDS),
                        heartbeat=HEARTBEAT_SECONDS,
                        max_msg_size=MESSAGE_BYTES,
                    )
            except (ClientError, TimeoutError):
                return None
        return socket, answered[-1]

    async def _send(
        self, method: str, url: URL, *, headers: CIMultiDict[str], body: bytes | AsyncIterator[bytes] | None
    ) -> UpstreamAnswer | UpstreamFailure:
        data = Body(body) if isinstance(body, bytes) else body
        try:
            response = await self._session.request(
                method,
                url,
                headers=headers,
                data=data,
                allow_redirects=False,
                auto_decompress=False,
                skip_auto_headers=AUTOMATIC_HEADERS,
                timeout=TIMEOUT,
            )
        except (ClientError, TimeoutError) as error:
            return self._unanswered(error)
        return UpstreamAnswer(response)

    def _unanswered(self, error: Exception) -> UpstreamFailure:
        # The text of a client error can hold the whole URL; only where it was sent to is said.
        if isinstance(error, ServerTimeoutError) and not isinstance(error, ConnectionTimeoutError):
            message = f"{self._place} did not answer within {IDLE_SECONDS} s"
            return UpstreamFailure(status=504, code="upstream_timeout", message=message)
        message = f"{self._place} could not be reached, or closed the connection before it answered ({type(error).__name__})"
        return UpstreamFailure(status=502, code="upstream_unreachable", message=message)
