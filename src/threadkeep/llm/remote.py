"""Providers that compact a history themselves, and the accounts that can read the result."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Final

from threadkeep.dialects import Dialect, Reply, Request
from threadkeep.dialects.raw_json import read_fields
from threadkeep.dialects.values import CompactionRequest
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.llm.answers import BROKE_OFF
from threadkeep.llm.base import RemoteCompaction
from threadkeep.llm.failures import parse_error, read_failure
from threadkeep.llm.provider import ProviderModel, Transport

# The answer comes in one piece, after the provider has read a whole window.
COMPACT_IDLE_SECONDS: Final = 1200
NO_ENDPOINT: Final = frozenset({404, 405})


def name_issuer(base_url: str, *, credential: str) -> str:
    """Return the issuer of sealed content: the provider's address, and a digest that tells accounts apart.

    The digest is keyed with the address and short: it cannot be reversed, and reveals nothing about another provider's account.
    """
    key = blake2b(base_url.encode(), digest_size=32).digest()
    return f"{base_url}#{blake2b(credential.encode(), key=key, digest_size=6, person=b'issuer').hexdigest()}"


class CompactingModel(ProviderModel):
    """A model whose provider compacts histories; see `threadkeep.llm.base.RemoteCompactor` for the contract."""

    def __init__(self, name: str, *, model: str, dialect: Dialect, issuer: str, transport: Transport) -> None:
        endpoints, compaction = dialect.api.endpoints, dialect.api.compaction
        if compaction is None:
            raise ValueError(f"no provider compacts histories in {dialect.name}")
        self._mount = endpoints.mount if endpoints.is_mount_added else ""
        super().__init__(name, model=model, dialect=dialect, path=f"{self._mount}{endpoints.turn}", transport=transport)
        self._compaction = compaction
        self._issuer = issuer
        # How many of the requests for a compaction the server does not know.
        self._unknown = 0

    @property
    def issuer(self) -> str:
        return self._issuer

    async def compact(self, request: Request) -> RemoteCompaction:
        *others, last = self._compaction.ask(request, model=self._model)
        for one in (*others[self._unknown :], last):
            try:
                reply = await self._post(one)
            except ModelRejected as rejected:
                if one is last or not (rejected.status in NO_ENDPOINT or (one.names and one.names in rejected.reason)):
                    raise
                continue
            if any(self._compaction.split(item).written for item in reply.items):
                # Only now: a missing model gives the same status everywhere.
                self._unknown = len(others) if one is last else self._unknown
                break
            if any(mark in item.raw for item in reply.items for mark in self._language.sealed_marks):
                raise ModelUnavailable(self._name, reason="its compaction came out empty")
            if one is last:
                raise ModelRejected(self._name, status=200, reason="what it calls a compaction holds no compaction item")
        return RemoteCompaction(
            items=reply.items,
            issuer=self._issuer,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
        )

    async def _post(self, asked: CompactionRequest) -> Reply:
        body = self._language.join(asked.request, asked.request.items)
        path = f"{self._mount}{asked.path}"
        whole = await self._fetch(path, body, headers=asked.headers, idle_s=COMPACT_IDLE_SECONDS)
        reply = self._language.wire.read_reply(whole)
        if reply.outcome == "failed" and (answer := read_fields(whole)) is not None:
            raise read_failure(self._name, parse_error(answer), secrets=self._transport.secrets)
        if reply.outcome == "cut":
            raise ModelUnavailable(self._name, reason=BROKE_OFF)
        return reply

    def _address(self, request: Request) -> tuple[Request, Mapping[str, str]]:
        return self._compaction.address_turn(request)
