"""Tools in the Responses API: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import encode_value
from threadkeep.items import Item, ToolCall


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": description, "parameters": dict(parameters)}


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    said = [{"type": "message", "role": "assistant", "content": content}] if text else []
    made = ({"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments} for call in calls)
    return [Item(encode_value(value)) for value in (*said, *made)]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    return Item(encode_value({"type": "function_call_output", "call_id": call.id, "output": text}))
