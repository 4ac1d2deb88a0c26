"""A model behind a provider's HTTP interface."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from importlib import import_module
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Final, Protocol, Self

from threadkeep.dialects import Delta, Dialect, Request
from threadkeep.errors import ModelError, ModelRejected, ModelUnavailable
from threadkeep.items import Item
from threadkeep.llm.answers import AnswerReader, DeltaReader, read_answer
from threadkeep.llm.base import ModelReply
from threadkeep.llm.failures import read_refusal

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

CONNECT_SECONDS: Final = 30
# A model that thinks for minutes sends nothing meanwhile; a provider silent for longer than this is not coming back.
IDLE_SECONDS: Final = 600
# No model writes more than this.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
MAX_REFUSAL_BYTES: Final = 64 * 1024

NO_HEADERS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Incoming:
    """An answer whose headers have arrived, and whose body is still to be read."""

    content_type: str
    chunks: AsyncIterator[bytes]

    @property
    def is_stream(self) -> bool:
        """Whether it comes as events. A server that names no content type is expected to stream, as it was asked to."""
        return "json" not in self.content_type.lower()


class Transport(Protocol):
    """Sends a body to one provider and returns its answer. It retries nothing."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """The credentials it sends; no error may hold one."""
        ...

    def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AbstractAsyncContextManager[Incoming]:
        """Send `body` as it is and yield the answer. Leaving the context, or cancelling, abandons what was not read.

        Raises:
            ModelOverflow, ModelUnavailable, ModelRejected: On entering, if the answer is an error or none came; while its chunks
                are read, if it breaks off.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection. It may be closed more than once."""
        ...


class Server:
    """A provider's server at a base URL such as `https://api.openai.com/v1`; see `Transport` for the contract.

    aiohttp, which takes long to import, is imported with the first request, in a thread.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str,
        headers: Mapping[str, str] = NO_HEADERS,
        secrets: tuple[str, ...] = (),
        proxy: str | None = None,
    ) -> None:
        self._secrets = secrets
        self._name = name
        self._base_url = base_url
        self._headers = {"content-type": "application/json", "user-agent": "threadkeep", **headers}
        self._proxy = proxy
        self._session: ClientSession | None = None
        # All that aiohttp raises over a request: its own errors, which it adds once it is imported, and those of sockets.
        self._errors: tuple[type[Exception], ...] = (OSError, TimeoutError)
        self._opening = asyncio.Lock()

    @property
    def secrets(self) -> tuple[str, ...]:
        return self._secrets

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        response = await self._send(path, body, headers=headers, idle_s=idle_s)
        try:
            if response.status >= 300:
                raise await self._read_refusal(response)
            yield Incoming(content_type=response.headers.get("content-type", ""), chunks=self._read_chunks(response))
        finally:
            # Closed, not released: a connection with half an answer in it is useless, and the server notices that we stopped.
            response.close()

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()
        self._session = None

    async def _send(self, path: str, body: bytes, *, headers: Mapping[str, str], idle_s: float) -> ClientResponse:
        session = await self._open_session()
        aiohttp = import_module("aiohttp")
        try:
            response: ClientResponse = await session.post(
                self._base_url + path,
                # aiohttp warns about raw bytes beyond 1 MB, which it writes at once.
                data=BytesIO(body),
                headers={**self._headers, **headers},
                # A credential never follows a redirect.
                allow_redirects=False,
                proxy=self._proxy,
                timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=idle_s),
            )
        except self._errors as error:
            failure = self._name_error(error)
        else:
            return response
        raise failure

    async def _open_session(self) -> ClientSession:
        async with self._opening:
            if self._session is None:
                aiohttp = await asyncio.to_thread(import_module, "aiohttp")
                self._errors = (aiohttp.ClientError, OSError, TimeoutError)
                # A server may close a kept connection just as it is used again, and a request is never repeated unasked. A new
                # connection costs little beside an answer.
                connector = aiohttp.TCPConnector(force_close=True)
                self._session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
            return self._session

    async def _read_chunks(self, response: ClientResponse) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.content.iter_any():
                yield chunk
        except self._errors as error:
            failure = self._name_error(error)
        else:
            return
        raise failure

    async def _read_refusal(self, response: ClientResponse) -> ModelError:
        body = b""
        async for chunk in self._read_chunks(response):
            body += chunk
            if len(body) > MAX_REFUSAL_BYTES:
                break
        lowered = {name.lower(): value for name, value in response.headers.items()}
        return read_refusal(self._name, status=response.status, body=body, headers=lowered, secrets=self.secrets)

    def _name_error(self, error: Exception) -> ModelUnavailable:
        # The text of a client's error can hold the whole URL, and more; its type says enough.
        if isinstance(error, TimeoutError):
            return ModelUnavailable(self._name, reason=f"it was silent for too long ({type(error).__name__})")
        return ModelUnavailable(self._name, reason=f"the connection failed or was closed ({type(error).__name__})")


def _ignore_delta(delta: Delta) -> None:
    """Ignore the pieces of an answer."""


async def _ignore_item(item: Item) -> None:
    """Ignore the items of an answer as they come."""


class ProviderModel:
    """A model at a provider; see `threadkeep.llm.base.Model`. Close it, or use it as an async context manager."""

    def __init__(
        self,
        name: str,
        *,
        model: str,
        dialect: Dialect,
        path: str,
        transport: Transport,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        # The server's own names for fields that limit an answer, where they differ from the dialect's.
        self._renamed = renamed or {}
        self._model = model
        self._language = dialect
        self._path = path
        self._transport = transport

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r})"

    @property
    def name(self) -> str:
        return self._name

    @property
    def dialect(self) -> str:
        return self._language.name

    @property
    def window_tokens(self) -> int | None:
        """None: no provider reports it with an answer, so the configured window counts."""
        return None

    def bound(self, request: Request, *, answer_tokens: int) -> Request:
        """See `threadkeep.llm.base.BoundableModel`."""
        limited = self._language.api.limit_answer(request, tokens=answer_tokens)
        added = limited.fields.keys() - request.fields.keys()
        fields = {self._renamed.get(name, name) if name in added else name: raw for name, raw in limited.fields.items()}
        return replace(limited, fields=fields)

    async def ask(self, request: Request) -> ModelReply:
        return await self.stream(request, on_delta=_ignore_delta)

    async def stream(self, request: Request, *, on_delta: Callable[[Delta], None]) -> ModelReply:
        """Ask, and call `on_delta` with each piece as it comes; see `threadkeep.llm.base.StreamingModel` for the contract."""
        return await self.stream_items(request, on_delta=on_delta, on_item=_ignore_item)

    async def stream_items(
        self, request: Request, *, on_delta: Callable[[Delta], None], on_item: Callable[[Item], Awaitable[None]]
    ) -> ModelReply:
        """Ask as `stream` does, and await `on_item` with each item as soon as it is whole; an error it raises ends the call.

        If a dialect's answer is one message, that is at its end.
        """
        request, headers = self._address(request)
        request = self._language.api.address_request(request, model=self._model)
        body = self._language.join(request, request.items)
        secrets = self._transport.secrets
        async with self._transport.exchange(self._path, body, headers=headers) as incoming:
            has_items = False
            if not incoming.is_stream:
                whole = await self._read_whole(incoming)
                reply = read_answer(whole, name=self._name, dialect=self._language, secrets=secrets)
            else:
                reader, words = AnswerReader(self._language), DeltaReader(self._language)
                size = 0
                async for chunk in incoming.chunks:
                    size += len(chunk)
                    for delta in words.feed(chunk) if on_delta is not _ignore_delta else ():
                        on_delta(delta)
                    is_over = reader.feed(chunk)
                    for item in reader.take_items():
                        has_items = True
                        await on_item(item)
                    if is_over or size > MAX_ANSWER_BYTES:
                        break
                reply = reader.reply(self._name, secrets=secrets)
            for item in () if has_items else reply.items:
                await on_item(item)
            return reply

    async def aclose(self) -> None:
        """Close every connection. A model may be closed more than once."""
        await self._transport.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def _address(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        """Return a request as the provider takes it, and the headers it needs beside the body."""
        return request, NO_HEADERS

    async def _fetch(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> bytes:
        """Return the whole body of an answer that is not streamed."""
        async with self._transport.exchange(path, body, headers=headers, idle_s=idle_s) as incoming:
            return await self._read_whole(incoming)

    async def _read_whole(self, incoming: Incoming) -> bytes:
        chunks: list[bytes] = []
        size = 0
        async for chunk in incoming.chunks:
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                # A retry would not make it shorter.
                raise ModelRejected(self._name, status=200, reason=f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
        return b"".join(chunks)
