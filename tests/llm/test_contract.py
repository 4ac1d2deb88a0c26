"""Every model that can be opened by its name keeps the contract, in each dialect that a provider is asked in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.doubles.model_server import ModelServer
from tests.llm.wires import CREDENTIAL, WIRES, Wire

from threadkeep.dialects import Dialect, Request, find_dialect
from threadkeep.llm import ProviderModel
from threadkeep.testing.model_checks import CHECKS, Check, HttpReply


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedProvider:
    server: ModelServer
    model: ProviderModel

    @property
    def bodies(self) -> Sequence[bytes]:
        return [received.raw for received in self.server.requests]

    @property
    def abandoned(self) -> asyncio.Event:
        return self.server.abandoned

    async def arrived(self, count: int) -> None:
        await self.server.arrived(count)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """A model as `open_model` makes it, on a server that stands in for its provider."""

    wire: Wire
    credential: str = CREDENTIAL

    @property
    def dialect(self) -> Dialect:
        return find_dialect(self.wire.dialect)

    @property
    def request(self) -> Request:
        return self.wire.request

    @asynccontextmanager
    async def play(self, *replies: HttpReply) -> AsyncIterator[PlayedProvider]:
        async with ModelServer(replies) as server, self.wire.open(server.origin) as model:
            yield PlayedProvider(server=server, model=model)


@pytest.mark.anyio
@pytest.mark.parametrize("check", CHECKS, ids=[getattr(check, "__name__", "") for check in CHECKS])
@pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
async def test_the_model_keeps_the_contract(check: Check, wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """Each fact of the conformance suite holds, and no log holds a credential."""
    caplog.set_level("DEBUG")
    await check(OpenedModel(wire=wire))
    assert CREDENTIAL not in caplog.text
