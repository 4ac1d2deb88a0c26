"""Anthropic's API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.api import Api, BoundThinking, CacheMarkers, ProviderCompaction
from threadkeep.dialects.messages import client_translation as plain_form
from threadkeep.dialects.messages import compaction as provider_compaction
from threadkeep.dialects.messages import markers
from threadkeep.dialects.messages import thinking_blocks as bound_thinking
from threadkeep.dialects.messages.blocks import list_blocks
from threadkeep.dialects.messages.compaction import COMPACTION_BETA
from threadkeep.dialects.messages.thinking_blocks import BETA_HEADER
from threadkeep.dialects.raw_json import encode_value, join_list, make_text_part, read_value, split_list
from threadkeep.dialects.translation import ClientForm
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item, ToolCall

# The API answers no request without a bound. Every current model can write this much, and no state needs more.
MAX_TOKENS: Final = b"8192"
SEPARATOR: Final = "\n\n"
# The vendor's models read so much, and more only if a request says so.
WINDOW_TOKENS: Final = 200_000
LONG_WINDOW_TOKENS: Final = 1_000_000
LONG_WINDOW_BETA: Final = "context-1m"


MANAGEMENT_BETAS: Final = ("context-management-", "compact-")


class MessagesApi(Api):
    """See `threadkeep.dialects.api.Api`."""

    endpoints = Endpoints(
        provider="anthropic",
        turn="/messages",
        others=("/messages/count_tokens",),
        models="/models/{model}",
        is_mount_added=True,
        key_header="x-api-key",
    )
    head_fields = ("model", "system", "tools")
    delivery_fields = ("model", "stream", "max_tokens")
    compaction: ClassVar[ProviderCompaction | None] = provider_compaction
    thinking: ClassVar[BoundThinking | None] = bound_thinking
    cache_markers: ClassVar[CacheMarkers | None] = markers
    client_form: ClassVar[ClientForm | None] = plain_form

    def add_instructions(self, request: Request, text: str) -> Request:
        # A block more in `system`: the client's own cache markers stay where they are.
        system = request.fields.get("system", b"null")
        own = read_value(system)
        if isinstance(own, str):
            longer = msgspec.json.encode(f"{own}{SEPARATOR}{text}")
        else:
            longer = join_list([*(split_list(system) or ()), make_text_part(msgspec.json.encode(text))])
        return replace(request, fields={**request.fields, "system": longer})

    def find_instructions(self, request: Request) -> str:
        blocks = list_blocks(read_value(request.fields.get("system", b"null"))) or []
        return next((text for block in blocks if isinstance(text := block.get("text"), str)), "")

    def read_window(self, model: str, headers: Mapping[str, str]) -> int | None:
        if LONG_WINDOW_BETA in headers.get(BETA_HEADER, ""):
            return LONG_WINDOW_TOKENS
        return WINDOW_TOKENS if model.startswith("claude-") else None

    def is_side_request(self, request: Request, *, path: str) -> bool:
        return self.is_count(path)

    def drop_management(self, headers: Mapping[str, str]) -> Mapping[str, str]:
        betas = [beta.strip() for beta in headers.get(BETA_HEADER, "").split(",")]
        kept = [beta for beta in betas if not beta.startswith(MANAGEMENT_BETAS)]
        return {} if kept == betas else {BETA_HEADER: ",".join(kept)}

    def is_count(self, path: str) -> bool:
        return path in self.endpoints.others

    def copy_delivery(self, request: Request, client: Request) -> Request:
        return _bound_answer(super().copy_delivery(request, client))

    def address_request(self, request: Request, *, model: str) -> Request:
        return super().address_request(_bound_answer(request), model=model)

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        return replace(request, fields={"max_tokens": str(tokens).encode(), **request.fields})

    def forbid_tools(self, request: Request) -> Request:
        # Another `tool_choice` would cost the prompt cache; the instruction alone forbids tools.
        return request

    def mark_cache_end(self, items: Sequence[Item]) -> tuple[Item, ...]:
        return (*items[:-1], markers.set_marker(items[-1])) if items else ()

    def headers_for(self, items: Sequence[Item]) -> Mapping[str, str]:
        # Without the beta the provider refuses the block that it put itself in place of a history.
        return {BETA_HEADER: COMPACTION_BETA} if any(b'"compaction"' in item.raw for item in items) else {}

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"name": name, "description": description, "input_schema": dict(parameters)}

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        words = [{"type": "text", "text": text}] if text else []
        uses = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": read_value(call.arguments.encode()) or {}}
            for call in calls
        ]
        return [Item(encode_value({"role": "assistant", "content": [*words, *uses]}))]

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": text}
        return Item(encode_value({"role": "user", "content": [{**result, "is_error": True} if is_error else result]}))


def _bound_answer(request: Request) -> Request:
    return replace(request, fields={"max_tokens": MAX_TOKENS, **request.fields})
