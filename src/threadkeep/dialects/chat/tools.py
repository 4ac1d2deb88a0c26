"""Tools in Chat Completions: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import encode_value
from threadkeep.items import Item, ToolCall


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": dict(parameters)}}


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    listed = [{"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in calls]
    return [Item(encode_value({"role": "assistant", "content": text or None, "tool_calls": listed}))]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    return Item(encode_value({"role": "tool", "tool_call_id": call.id, "content": text}))
