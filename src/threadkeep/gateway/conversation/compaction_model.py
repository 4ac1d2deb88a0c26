"""The client's own model, asked on the client's behalf: same provider, same headers, same account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from threadkeep.dialects import Dialect, Request, find_dialect
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.gateway.conversation.proxy_interface import AnswerTooLong, AskPath, AskProvider
from threadkeep.items import Item
from threadkeep.llm.answers import AnswerReader, read_answer
from threadkeep.llm.base import ModelReply, RemoteCompaction
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import IDLE_SECONDS, NO_HEADERS, Incoming
from threadkeep.llm.remote import CompactingModel


class ClientModel:
    """Implements `threadkeep.llm.base.Model` with what a client's request came with. It holds the client's credentials, through
    `ask_provider`, and lives no longer than the compaction it was made for.

    `clean` takes out of an item what the provider would refuse in the request that is asked; None leaves the item out.
    """

    def __init__(
        self,
        ask_provider: AskProvider,
        *,
        own: Request,
        dialect: Dialect,
        name: str,
        issuer: str,
        window_tokens: int,
        clean: Callable[[Item], Item | None],
    ) -> None:
        self._ask_provider = ask_provider
        self._own = own
        self._dialect = dialect
        self._name = name
        self._issuer = issuer
        self._window_tokens = window_tokens
        self._clean = clean

    @property
    def name(self) -> str:
        return self._name

    @property
    def issuer(self) -> str:
        """The account as the gateway tells accounts apart."""
        return self._issuer

    @property
    def dialect(self) -> str:
        return self._dialect.name

    @property
    def window_tokens(self) -> int | None:
        return self._window_tokens

    async def ask(self, request: Request) -> ModelReply:
        api, items = self._dialect.api, self.clean_items(request.items)
        request = api.copy_delivery(request, self._own)
        if api.cache_markers is not None:
            items = api.cache_markers.limit_markers(items, request)
        body = self._dialect.join(request, items)
        try:
            answer = await self._ask_provider(body)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if answer.status >= 400:
            raise read_refusal(self._name, status=answer.status, body=answer.body, headers=answer.headers)
        if "json" in answer.headers.get("content-type", ""):
            return read_answer(answer.body, name=self._name, dialect=self._dialect)
        reader = AnswerReader(self._dialect)
        reader.feed(answer.body)
        return reader.reply(self._name)

    def clean_items(self, items: Sequence[Item]) -> list[Item]:
        """Return items as the provider takes them."""
        return [item for raw in items if (item := self._clean(raw)) is not None]


# What the gateway's upstreams take the place of.
MOUNT: Final = "/v1"


class ClientTransport:
    """Implements `threadkeep.llm.provider.Transport` with a client's own headers; it never sees a credential."""

    def __init__(self, ask_path: AskPath, *, name: str) -> None:
        self._ask_path = ask_path
        self._name = name

    @property
    def secrets(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        try:
            answer = await self._ask_path(path.removeprefix(MOUNT), body, headers)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if answer.status >= 400:
            raise read_refusal(self._name, status=answer.status, body=answer.body, headers=answer.headers)
        yield Incoming(content_type=answer.headers.get("content-type", ""), chunks=_once(answer.body))

    async def aclose(self) -> None:
        """There is no connection of its own."""


class ClientCompactor:
    """The client's own model, whose provider compacts too; see `Model` and `RemoteCompactor` in `threadkeep.llm.base`.

    What is made for its account is shown to no other.
    """

    def __init__(self, model: ClientModel, ask_path: AskPath) -> None:
        transport = ClientTransport(ask_path, name=model.name)
        self._model = model
        dialect = find_dialect(model.dialect)
        self._remote = CompactingModel(model.name, model=model.name, dialect=dialect, issuer=model.issuer, transport=transport)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def dialect(self) -> str:
        return self._model.dialect

    @property
    def window_tokens(self) -> int | None:
        return self._model.window_tokens

    @property
    def issuer(self) -> str:
        return self._remote.issuer

    async def ask(self, request: Request) -> ModelReply:
        return await self._model.ask(request)

    async def compact(self, request: Request) -> RemoteCompaction:
        return await self._remote.compact(replace(request, items=tuple(self._model.clean_items(request.items))))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
