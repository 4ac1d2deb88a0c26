"""Google's Gemini API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from threadkeep.dialects.api import Api, has_tools
from threadkeep.dialects.gemini.parts import SIGNATURE, UNSIGNED, list_parts, read_name
from threadkeep.dialects.raw_json import (
    Json,
    encode_value,
    join_list,
    join_object,
    read_object,
    read_value,
    split_list,
    split_object,
)
from threadkeep.dialects.values import AnswerForm, Endpoints, Request, Target
from threadkeep.items import Item, ToolCall

STREAM: Final = ":streamGenerateContent"
COUNT: Final = ":countTokens"
INSTRUCTION: Final = ("systemInstruction", "system_instruction")
GENERATION: Final = "generationConfig"
BOUND: Final = "maxOutputTokens"
NO_TOOLS: Final = b'{"functionCallingConfig":{"mode":"NONE"}}'
DECLARATIONS: Final = ("functionDeclarations", "function_declarations")


class GeminiApi(Api):
    """See `threadkeep.dialects.api.Api`. A request's path names its model and whether the answer is streamed."""

    endpoints = Endpoints(
        provider="gemini",
        turn="/models/{model}:generateContent",
        others=(f"/models/{{model}}{STREAM}", f"/models/{{model}}{COUNT}"),
        models="/models/{model}",
        id_prefix="",
        mount="/v1beta",
        is_mount_added=True,
        key_header="x-goog-api-key",
        key_query="key",
    )
    head_fields = (*INSTRUCTION, "tools")
    delivery_fields = ("safetySettings",)

    def read_target(self, fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
        model, _, method = path.removeprefix("/models/").partition(":")
        form: AnswerForm = "whole"
        if f":{method}" == STREAM:
            form = "events" if "sse" in parse_qs(query).get("alt", []) else "list"
        return Target(model=model, form=form)

    def add_instructions(self, request: Request, text: str) -> Request:
        field = next((name for name in INSTRUCTION if name in request.fields), INSTRUCTION[0])
        own = split_object(request.fields.get(field, b"{}")) or {}
        parts = join_list([*(split_list(own.get("parts", b"[]")) or ()), msgspec.json.encode({"text": text})])
        return replace(request, fields={**request.fields, field: join_object({**own, "parts": parts})})

    def find_instructions(self, request: Request) -> str:
        contents = (read_object(request.fields.get(name, b"null")) or {} for name in INSTRUCTION)
        texts = (part.get("text") for content in contents for part in list_parts(content) or [])
        return next((text for text in texts if isinstance(text, str)), "")

    def is_side_request(self, request: Request, *, path: str) -> bool:
        return self.is_count(path)

    def is_count(self, path: str) -> bool:
        return path.endswith(COUNT)

    def render_count(self, tokens: int) -> bytes:
        return encode_value({"totalTokens": tokens})

    def address_request(self, request: Request, *, model: str) -> Request:
        return request

    def limit_answer(self, request: Request, *, tokens: int) -> Request:
        own = split_object(request.fields.get(GENERATION, b"{}")) or {}
        if BOUND in own or "max_output_tokens" in own:
            return request
        bounded = join_object({**own, BOUND: str(tokens).encode()})
        return replace(request, fields={**request.fields, GENERATION: bounded})

    def forbid_tools(self, request: Request) -> Request:
        return replace(request, fields={**request.fields, "toolConfig": NO_TOOLS}) if has_tools(request) else request

    def offer_tool(self, request: Request, definition: Mapping[str, Any]) -> Request:
        tools = merge_declarations([*(split_list(request.fields.get("tools", b"[]")) or ()), encode_value(definition)])
        return replace(request, fields={**request.fields, "tools": join_list(tools)})

    def define_tool(self, *, name: str, description: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        declaration = {"name": name, "description": description, "parametersJsonSchema": dict(parameters)}
        return {DECLARATIONS[0]: [declaration]}

    def make_calls(self, calls: Sequence[ToolCall], *, text: str = "") -> list[Item]:
        parts: list[Json] = [{"text": text}] if text else []
        for number, call in enumerate(calls):
            made = {**_identify(call), "args": read_value(call.arguments.encode()) or {}}
            parts.append({"functionCall": made, **({} if number else {SIGNATURE: UNSIGNED})})
        return [Item(encode_value({"role": "model", "parts": parts}))]

    def make_output(self, call: ToolCall, text: str, *, is_error: bool = False) -> Item:
        return Item(encode_value({"role": "user", "parts": [make_response(call, text, field="error" if is_error else "output")]}))


def make_response(call: ToolCall, text: str, *, field: str = "output") -> Json:
    """Return the part that answers a call."""
    return {"functionResponse": {**_identify(call), "response": {field: text}}}


def read_call(value: Json) -> ToolCall:
    """Return the call that a `functionCall` makes, or that a `functionResponse` answers, without its arguments."""
    return ToolCall(id=str(value.get("id") or ""), name=read_name(value), arguments="{}")


def merge_declarations(tools: Sequence[bytes]) -> list[bytes]:
    """Return tools with all function declarations in the first that has any: older models take no second."""
    merged: list[bytes] = []
    first: tuple[int, str, dict[str, bytes]] | None = None
    for tool in tools:
        fields = split_object(tool) or {}
        name = next((name for name in DECLARATIONS if name in fields), None)
        if name is None or first is None:
            first = first or (None if name is None else (len(merged), name, fields))
            merged.append(tool)
            continue
        at, own, held = first
        held[own] = join_list([*(split_list(held[own]) or ()), *(split_list(fields[name]) or ())])
        merged[at] = join_object(held)
    return merged


def _identify(call: ToolCall) -> Json:
    """Return the id and the name of a call; an id that only counts calls of that name is none of the provider's."""
    name, _, number = call.id.rpartition(":")
    is_counted = name == call.name and number.isdecimal()
    return {"name": call.name} if is_counted or not call.id else {"id": call.id, "name": call.name}
