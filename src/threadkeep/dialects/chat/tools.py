"""Tools in Chat Completions: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import encode_value, read_object
from threadkeep.dialects.request_parts import render_arguments
from threadkeep.dialects.values import ToolCall
from threadkeep.items import Item


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(parameters)}}


def find_calls(item: Item) -> list[ToolCall]:
    listed = (read_object(item.raw) or {}).get("tool_calls")
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    called = ((entry.get("id"), entry.get("function")) for entry in entries)
    return [
        ToolCall(id=call_id, name=str(function.get("name")), arguments=render_arguments(function.get("arguments")))
        for call_id, function in called
        if isinstance(call_id, str) and call_id and isinstance(function, dict)
    ]


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    listed = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    return [Item(encode_value({"role": "assistant", "content": text or None, "tool_calls": listed}))]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    return Item(encode_value({"role": "tool", "tool_call_id": call.id, "content": text}))
