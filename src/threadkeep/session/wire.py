"""Tools and what is said, in the words of each dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from threadkeep.dialects.messages.markers import set_marker
from threadkeep.items import Item, decode_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool the model wants to be run; `arguments` are JSON as it wrote them, which may be none."""

    id: str
    name: str
    arguments: str


def tool_field(dialect: str, *, name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool as it is offered to a model."""
    match dialect:
        case "responses":
            return {"type": "function", "name": name, "description": description, "parameters": dict(schema)}
        case "chat":
            function = {"name": name, "description": description, "parameters": dict(schema)}
            return {"type": "function", "function": function}
        case _:
            return {"name": name, "description": description, "input_schema": dict(schema)}


def user_item(dialect: str, text: str) -> dict[str, Any]:
    """Return what a person says."""
    match dialect:
        case "responses":
            return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        case "chat":
            return {"role": "user", "content": text}
        case _:
            return {"role": "user", "content": [{"type": "text", "text": text}]}


def output_item(dialect: str, call: Call, text: str, *, failed: bool) -> dict[str, Any]:
    """Return what a tool returned."""
    match dialect:
        case "responses":
            return {"type": "function_call_output", "call_id": call.id, "output": text}
        case "chat":
            return {"role": "tool", "tool_call_id": call.id, "content": text}
        case _:
            result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call.id, "content": text}
            return {"role": "user", "content": [{**result, "is_error": True} if failed else result]}


def calls_in(dialect: str, items: Iterable[Item]) -> list[Call]:
    """Return the calls of our tools in an answer, in order; what runs at the provider is not ours to run."""
    return [call for item in items for call in _calls(dialect, decode_json(item.raw))]


def warmed(dialect: str, items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Return a history as it goes out: where a provider caches only what is marked, its end is."""
    return (*items[:-1], set_marker(items[-1])) if dialect == "messages" and items else items


def _calls(dialect: str, item: dict[str, Any]) -> list[Call]:
    match dialect:
        case "responses":
            found = (
                [(item.get("call_id"), item.get("name"), item.get("arguments"))] if item.get("type") == "function_call" else []
            )
        case "chat":
            listed = [entry for entry in item.get("tool_calls") or () if isinstance(entry, dict)]
            called = [(entry.get("id"), entry.get("function") or {}) for entry in listed]
            found = [(call_id, function.get("name"), function.get("arguments")) for call_id, function in called]
        case _:
            content = item.get("content")
            blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
            uses = [block for block in blocks if block.get("type") == "tool_use"]
            found = [(block.get("id"), block.get("name"), block.get("input")) for block in uses]
    return [
        Call(
            id=call_id,
            name=str(name),
            arguments=arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode(),
        )
        for call_id, name, arguments in found
        if isinstance(call_id, str) and call_id
    ]
