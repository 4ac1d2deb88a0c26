"""A model behind a provider's HTTP interface, over any transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Final, Protocol, Self

from threadkeep.dialects import Delta, Dialect, Request
from threadkeep.errors import ModelRejected
from threadkeep.items import Item
from threadkeep.llm.answers import AnswerReader, DeltaReader, read_answer
from threadkeep.llm.base import ModelReply

CONNECT_SECONDS: Final = 30
# A model that thinks for minutes sends nothing meanwhile; a provider silent for longer than this is not coming back.
IDLE_SECONDS: Final = 600
# No model writes more than this.
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024

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
        """Close every connection."""
        ...


Connect = Callable[[], Transport]


def _ignore_delta(delta: Delta) -> None:
    """Ignore the pieces of an answer."""


async def _ignore_item(item: Item) -> None:
    """Ignore the items of an answer as they come."""


class ProviderModel:
    """A model at a provider; see `threadkeep.llm.base.Model` for the contract. Close it, or use it as an async context manager.

    Its transport is made when it is first asked, in a thread: importing a provider's SDK takes up to a second.
    """

    def __init__(
        self,
        name: str,
        *,
        model: str,
        dialect: Dialect,
        path: str,
        connect: Connect,
        renamed: Mapping[str, str] | None = None,
    ) -> None:
        self._name = name
        # The server's own names for fields that limit an answer, where they differ from the dialect's.
        self._renamed = renamed or {}
        self._model = model
        self._language = dialect
        self._path = path
        self._connect = connect
        self._connecting = asyncio.Lock()
        self._connected: Transport | None = None

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
        limited = self._language.calls.limit_answer(request, tokens=answer_tokens)
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
        body = self._render_body(request)
        transport = await self._open_transport()
        async with transport.exchange(self._path, body, headers=self._make_headers(request)) as incoming:
            has_items = False
            if not incoming.is_stream:
                whole = await self._read_whole(incoming)
                reply = read_answer(whole, name=self._name, dialect=self._language, secrets=transport.secrets)
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
                reply = reader.reply(self._name, secrets=transport.secrets)
            for item in () if has_items else reply.items:
                await on_item(item)
            return reply

    async def aclose(self) -> None:
        """Close every connection. A model may be closed more than once."""
        async with self._connecting:
            if self._connected is not None:
                await self._connected.aclose()
            self._connected = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _open_transport(self) -> Transport:
        async with self._connecting:
            if self._connected is None:
                self._connected = await asyncio.to_thread(self._connect)
            return self._connected

    def _make_headers(self, request: Request) -> Mapping[str, str]:
        """Return the headers the provider needs beside the body of this request."""
        return NO_HEADERS

    def _render_body(self, request: Request) -> bytes:
        """Return the body of the request: addressed to this model, and streamed; everything else unchanged."""
        addressed = self._language.calls.address_request(request, model=self._model)
        return self._language.join(addressed, request.items)

    async def _fetch(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> bytes:
        """Return the whole body of an answer that is not streamed."""
        transport = await self._open_transport()
        async with transport.exchange(path, body, headers=headers, idle_s=idle_s) as incoming:
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
