"""OpenAI's Chat Completions endpoint, and the servers that copy it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.api import Api
from threadkeep.dialects.chat import upstream_translation as plain_form
from threadkeep.dialects.chat.item_views import read_view
from threadkeep.dialects.prompt_cache import OpenAIPromptCache
from threadkeep.dialects.raw_json import (
    encode_value,
    join_list,
    join_object,
    make_text_part,
    read_object,
    read_value,
    split_list,
    split_object,
)
from threadkeep.dialects.translation import UpstreamForm
from threadkeep.dialects.values import Endpoints, Request
from threadkeep.items import Item, ToolCall

# Servers have several names for the bound of an answer; all know the first.
BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
SEPARATOR: Final = "\n\n"


class ChatApi(Api):
    """See `threadkeep.dialects.api.Api`."""

    endpoints = Endpoints(provider="openai", turn="/chat/completions", id_prefix="chatcmpl-")
    head_fields = ("model", "tools")
    delivery_fields = ("model", "stream", "store", "max_tokens", "max_completion_tokens")
    prompt_cache = OpenAIPromptCache(text_kind=b"text")
    upstream_form: ClassVar[UpstreamForm | None] = plain_form

    def add_instructions(self, request: Request, text: str) -> Request:
        # Templates of many models allow one message in the system's role, and only at the very beginning.
        longer = _append_text(request.head[-1], text) if request.head else None
        if longer is not None:
            return replace(request, head=(*request.head[:-1], longer))
        own = Item(msgspec.json.encode({"role": "system", "content": text}))
        return replace(request, head=(*request.head, own))

    def find_instructions(self, request: Request) -> str:
        return next((text for item in request.head if (text := read_view(read_object(item.raw) or {}).text)), "")

    def address_request(self, request: Request, *, model: str) -> Request:
        # Without the option a streamed answer carries no counts.
        fields = {"stream_options": b'{"include_usage":true}', **request.fields}
        return super().address_request(replace(request, fields=fields), model=model)

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        if any(name in request.fields for name in BOUNDS):
            return request
        return replace(request, fields={**request.fields, BOUNDS[0]: str(tokens).encode()})

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(parameters)}}

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        listed = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls
        ]
        return [Item(encode_value({"role": "assistant", "content": text or None, "tool_calls": listed}))]

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        return Item(encode_value({"role": "tool", "tool_call_id": call.id, "content": text}))


def _append_text(item: Item, text: str) -> Item | None:
    """Return a message with `text` at its end; None where its content is of no form that takes one."""
    fields = split_object(item.raw) or {}
    content = fields.get("content", b"null")
    own = read_value(content)
    if isinstance(own, str):
        return Item(join_object({**fields, "content": msgspec.json.encode(f"{own}{SEPARATOR}{text}")}))
    parts = split_list(content)
    if parts is None:
        return None
    return Item(join_object({**fields, "content": join_list([*parts, make_text_part(msgspec.json.encode(text))])}))
