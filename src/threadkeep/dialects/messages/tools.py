"""Tools in the Messages API: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.messages.blocks import list_blocks, read_text_field
from threadkeep.dialects.raw_json import encode_value, read_object, read_value
from threadkeep.dialects.request_parts import render_arguments
from threadkeep.dialects.values import ToolCall
from threadkeep.items import Item


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": dict(parameters)}


def find_calls(item: Item) -> list[ToolCall]:
    blocks = list_blocks((read_object(item.raw) or {}).get("content")) or []
    return [
        ToolCall(id=call_id, name=str(block.get("name")), arguments=render_arguments(block.get("input")))
        for block in blocks
        if read_text_field(block, "type") == "tool_use" and (call_id := read_text_field(block, "id"))
    ]


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    words = [{"type": "text", "text": text}] if text else []
    uses = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": read_value(call.arguments.encode()) or {}}
        for call in calls
    ]
    return [Item(encode_value({"role": "assistant", "content": [*words, *uses]}))]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": text}
    return Item(encode_value({"role": "user", "content": [{**result, "is_error": True} if is_error else result]}))
