"""The client's own provider, asked on the client's behalf to compact a history by itself."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from threadkeep.dialects import Request
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.gateway.exchange import AnswerTooLong, SendBeside
from threadkeep.gateway.own_model import OwnModel
from threadkeep.llm.base import ModelReply, RemoteCompaction, RemoteCompactor
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import IDLE_SECONDS, NO_HEADERS, Incoming
from threadkeep.llm.remote import COMPACTORS

# What the gateway's upstreams take the place of.
MOUNT: Final = "/v1"


class ClientTransport:
    """Implements `threadkeep.llm.provider.Transport` with a client's own headers; it never sees a credential."""

    def __init__(self, send_beside: SendBeside, *, name: str) -> None:
        self._send_beside = send_beside
        self._name = name

    @property
    def secrets(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        try:
            heard = await self._send_beside(path.removeprefix(MOUNT), body, headers)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if heard.status >= 400:
            raise read_refusal(self._name, status=heard.status, body=heard.body, headers=heard.headers)
        yield Incoming(content_type=heard.headers.get("content-type", ""), chunks=_once(heard.body))

    async def aclose(self) -> None:
        """There is no connection of its own."""


class OwnCompactor:
    """The client's own model, whose provider compacts too; see `Model` and `RemoteCompactor` in `threadkeep.llm.base`.

    What is made for its account is shown to no other.
    """

    def __init__(self, model: OwnModel, send_beside: SendBeside) -> None:
        transport = ClientTransport(send_beside, name=model.name)
        self._model = model
        self._remote: RemoteCompactor = COMPACTORS[model.dialect](
            model.name, model=model.name, issuer=model.issuer, connect=lambda: transport
        )

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
        return await self._remote.compact(replace(request, items=tuple(self._model.permitted(request.items))))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
