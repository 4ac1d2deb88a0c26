"""Functions in `generateContent`: this module is the dialect's `Tools`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.gemini.parts import SIGNATURE, UNSIGNED, read_name
from threadkeep.dialects.raw_json import Json, encode_value, read_value
from threadkeep.items import Item, ToolCall


def define_tool(*, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    declaration = {"name": name, "description": description, "parametersJsonSchema": dict(parameters)}
    return {"functionDeclarations": [declaration]}


def make_calls(calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
    parts: list[Json] = [{"text": text}] if text else []
    for number, call in enumerate(calls):
        made = {**_identify(call), "args": read_value(call.arguments.encode()) or {}}
        parts.append({"functionCall": made, **({} if number else {SIGNATURE: UNSIGNED})})
    return [Item(encode_value({"role": "model", "parts": parts}))]


def make_output(call: ToolCall, text: str, *, is_error: bool = False) -> Item:
    return Item(encode_value({"role": "user", "parts": [make_response(call, text, field="error" if is_error else "output")]}))


def make_response(call: ToolCall, text: str, *, field: str = "output") -> Json:
    """Return the part that answers a call."""
    return {"functionResponse": {**_identify(call), "response": {field: text}}}


def read_call(value: Json) -> ToolCall:
    """Return the call that a `functionCall` makes, or that a `functionResponse` answers, without its arguments."""
    return ToolCall(id=str(value.get("id") or ""), name=read_name(value), arguments="{}")


def _identify(call: ToolCall) -> Json:
    """Return the id and the name of a call; an id that only counts calls of that name is none of the provider's."""
    name, _, number = call.id.rpartition(":")
    is_counted = name == call.name and number.isdecimal()
    return {"name": call.name} if is_counted or not call.id else {"id": call.id, "name": call.name}
