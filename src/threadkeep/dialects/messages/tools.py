"""Tools in the Messages API: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import encode_value, read_value
from threadkeep.items import Item, ToolCall


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "description": description, "input_schema": dict(parameters)}


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
