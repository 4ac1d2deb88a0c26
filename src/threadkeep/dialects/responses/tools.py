"""Tools in the Responses API: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import encode_value, read_object
from threadkeep.dialects.request_parts import render_arguments
from threadkeep.dialects.values import ToolCall
from threadkeep.items import Item


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": dict(parameters)}


def find_calls(item: Item) -> list[ToolCall]:
    fields = read_object(item.raw) or {}
    call_id, arguments = fields.get("call_id"), fields.get("arguments")
    if fields.get("type") != "function_call" or not isinstance(call_id, str) or not call_id:
        return []
    return [ToolCall(id=call_id, name=str(fields.get("name")), arguments=render_arguments(arguments))]


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said = [{"type": "message", "role": "assistant", "content": content}] if text else []
    made = ({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments} for call in calls)
    return [Item(encode_value(value)) for value in (*said, *made)]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    return Item(encode_value({"type": "function_call_output", "call_id": call.id, "output": text}))
