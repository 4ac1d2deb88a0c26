"""Providers that compact a history themselves, and the accounts that can read the result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Final

import msgspec

from threadkeep.dialects import MESSAGES, RESPONSES, Dialect, Reply, Request
from threadkeep.dialects.raw_json import ABSENT, Fields, join_object, read_fields, split_list, split_object
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.items import Item
from threadkeep.llm.answers import BROKE_OFF
from threadkeep.llm.base import RemoteCompaction
from threadkeep.llm.failures import parse_error, read_failure
from threadkeep.llm.provider import ProviderModel, Transport

# The answer comes in one piece, after the provider has read a whole window.
COMPACT_IDLE_SECONDS: Final = 1200

# The fields of a turn that `/responses/compact` accepts. It answers with no message, so fields that shape one are left out.
OPENAI_FIELDS: Final = (
    "instructions",
    "tools",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "service_tier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
)
OPENAI_ITEMS: Final = frozenset({"compaction", "context_compaction"})
# Without such an endpoint, an ordinary answer is requested that compacts on the way: any history exceeds the lowest threshold,
# and the answer itself is kept as short as possible.
NO_ENDPOINT: Final = frozenset({404, 405})
INLINE: Final[Mapping[str, bytes]] = {
    "context_management": b'[{"type":"compaction","compact_threshold":1000}]',
    "max_output_tokens": b"16",
    "store": b"false",
}

BETA_HEADER: Final = "anthropic-beta"
# The context edit of a turn that its provider compacts on the way, and the beta it needs.
INLINE_EDIT: Final = b'"compact_20260112"'
INLINE_BETA: Final = "compact-2026-01-12"
# The API answers no request without a bound.
SUMMARY_TOKENS: Final = b"8192"
# Refused in a request for compaction: two compactions at once, and fields that only shape an answer.
ANTHROPIC_UNWANTED: Final = frozenset({"context_management", "stop_sequences", "output_format", "stream"})


def name_issuer(base_url: str, *, credential: str) -> str:
    """Return the issuer of sealed content: the provider's address, and a digest that tells accounts apart.

    The digest is keyed with the address and short: it cannot be reversed, and reveals nothing about another provider's account.
    """
    key = blake2b(base_url.encode(), digest_size=32).digest()
    return f"{base_url}#{blake2b(credential.encode(), key=key, digest_size=6, person=b'issuer').hexdigest()}"


class OpenAIModel(ProviderModel):
    """A model that compacts through `POST /responses/compact`, or `context_management` without such an endpoint.

    See `threadkeep.llm.base.RemoteCompactor` for the contract.
    """

    def __init__(self, name: str, *, model: str, issuer: str, transport: Transport) -> None:
        super().__init__(name, model=model, dialect=RESPONSES, path="/responses", transport=transport)
        self._issuer = issuer
        self._has_endpoint = True

    @property
    def issuer(self) -> str:
        return self._issuer

    async def compact(self, request: Request) -> RemoteCompaction:
        kept = {field: request.fields[field] for field in OPENAI_FIELDS if field in request.fields}
        fields = {"model": msgspec.json.encode(self._model), "input": b"[]", **kept}
        reply = await self._request_compaction(replace(request, fields=fields))
        if not any(_read_type(item.raw) in OPENAI_ITEMS for item in reply.items):
            raise ModelRejected(self._name, status=200, reason="what it calls a compaction holds no compaction item")
        return _make_compaction(reply, issuer=self._issuer)

    async def _request_compaction(self, request: Request) -> Reply:
        if self._has_endpoint:
            try:
                return await self._post("/responses/compact", request)
            except ModelRejected as rejected:
                if rejected.status not in NO_ENDPOINT:
                    raise
        made = await self._post(self._path, replace(request, fields={**request.fields, **INLINE}))
        # Only now: a missing model gives the same status at both addresses.
        self._has_endpoint = False
        return made

    async def _post(self, path: str, request: Request) -> Reply:
        whole = await self._fetch(path, RESPONSES.join(request, request.items), idle_s=COMPACT_IDLE_SECONDS)
        return _parse_reply(whole, dialect=RESPONSES, name=self._name, secrets=self._transport.secrets)


class AnthropicModel(ProviderModel):
    """A model that compacts on demand; see `threadkeep.llm.base.RemoteCompactor` for the contract."""

    def __init__(self, name: str, *, model: str, issuer: str, transport: Transport) -> None:
        super().__init__(name, model=model, dialect=MESSAGES, path="/v1/messages", transport=transport)
        self._issuer = issuer

    @property
    def issuer(self) -> str:
        return self._issuer

    async def compact(self, request: Request) -> RemoteCompaction:
        body = MESSAGES.join(replace(request, fields=_make_summary_fields(request.fields, model=self._model)), request.items)
        whole = await self._fetch("/v1/messages", body, headers=MESSAGES.api.compaction_headers, idle_s=COMPACT_IDLE_SECONDS)
        reply = _parse_reply(whole, dialect=MESSAGES, name=self._name, secrets=self._transport.secrets)
        made = _find_compaction_blocks(reply.items)
        if not made:
            raise ModelRejected(self._name, status=200, reason="what it calls a compaction holds no compaction block")
        if all(block.span("content") == ABSENT and block.span("encrypted_content") == ABSENT for block in made):
            raise ModelUnavailable(self._name, reason="its compaction came out empty")
        return _make_compaction(reply, issuer=self._issuer)

    def _render_body(self, request: Request) -> bytes:
        """Return the body of the request.

        A compaction moves the prefix that thinking is bound to: the provider is told to drop thinking that no longer fits,
        instead of refusing the request.
        """
        asked = _find_thinking(request)
        if asked is None or "block_binding" in asked:
            return super()._render_body(request)
        return super()._render_body(_drop_mismatched(request)[0])

    def _make_headers(self, request: Request) -> Mapping[str, str]:
        # A compaction block is refused without a beta. It does not show which beta made it, so both are named if the turn
        # requests one on the way.
        betas = list(MESSAGES.api.compaction_headers.values()) if _find_compaction_blocks(request.items) else []
        betas += [INLINE_BETA] if INLINE_EDIT in request.fields.get("context_management", ABSENT) else []
        betas += list(_drop_mismatched(request)[1].values()) if _find_thinking(request) is not None else []
        return {BETA_HEADER: ",".join(betas)} if betas else super()._make_headers(request)


# The models that compact by themselves, by the dialect they speak.
COMPACTORS: Final[Mapping[str, type[OpenAIModel] | type[AnthropicModel]]] = {
    RESPONSES.name: OpenAIModel,
    MESSAGES.name: AnthropicModel,
}


def _drop_mismatched(request: Request) -> tuple[Request, Mapping[str, str]]:
    thinking = MESSAGES.api.thinking
    return (request, {}) if thinking is None else thinking.drop_mismatched(request)


def _find_thinking(request: Request) -> dict[str, bytes] | None:
    """Return the thinking settings of a request; None if it has none, or disables thinking."""
    asked = split_object(request.fields.get("thinking", ABSENT))
    return None if asked is None or asked.get("type") == b'"disabled"' else asked


def _parse_reply(body: bytes, *, dialect: Dialect, name: str, secrets: Sequence[str]) -> Reply:
    """Return a provider's whole answer.

    Raises:
        ModelOverflow, ModelUnavailable, ModelRejected: The answer is an error, or cannot be read.
    """
    reply = dialect.wire.read_reply(body)
    if reply.outcome == "failed" and (answer := read_fields(body)) is not None:
        raise read_failure(name, parse_error(answer), secrets=secrets)
    if reply.outcome == "cut":
        raise ModelUnavailable(name, reason=BROKE_OFF)
    return reply


def _make_compaction(reply: Reply, *, issuer: str) -> RemoteCompaction:
    return RemoteCompaction(
        items=reply.items,
        issuer=issuer,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        cached_tokens=reply.cached_tokens,
    )


def _make_summary_fields(fields: Mapping[str, bytes], *, model: str) -> dict[str, bytes]:
    """Return a turn's fields as a request for compaction: tools, system and thinking unchanged, so that the prefix is cached."""
    kept = {name: raw for name, raw in fields.items() if name not in ANTHROPIC_UNWANTED}
    if _read_type(kept.get("tool_choice", ABSENT)) in ("any", "tool"):
        del kept["tool_choice"]
    output = split_object(kept.get("output_config", ABSENT))
    if output is not None:
        kept["output_config"] = join_object({name: raw for name, raw in output.items() if name != "format"})
    kept.setdefault("max_tokens", SUMMARY_TOKENS)
    return {**kept, "model": msgspec.json.encode(model), "compaction": b'{"type":"summarize"}'}


def _find_compaction_blocks(items: Iterable[Item]) -> list[Fields]:
    """Return the compaction blocks in these messages."""
    contents = ((split_object(item.raw) or {}).get("content", ABSENT) for item in items if b'"compaction"' in item.raw)
    blocks = [read_fields(block) for content in contents for block in split_list(content) or ()]
    return [block for block in blocks if block is not None and block.text("type") == "compaction"]


def _read_type(raw: bytes) -> str | None:
    fields = read_fields(raw)
    return None if fields is None else fields.text("type")
