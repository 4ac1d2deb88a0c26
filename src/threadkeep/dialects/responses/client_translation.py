"""Requests and answers of the Responses API where the provider speaks another language: this module is the dialect's
`ClientForm`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, cast

from msgspec.json import encode

from threadkeep.dialects.raw_json import Json, read_object, read_value
from threadkeep.dialects.responses.compaction import TYPES
from threadkeep.dialects.responses.item_views import ROLES, TOOLS_ITEM, read_kind, read_view
from threadkeep.dialects.responses.replies import ResponsesAnswerWriter
from threadkeep.dialects.translation import (
    FREE_TEXT,
    THOUGHT_SEAL,
    Image,
    Message,
    Output,
    PlainRequest,
    Tool,
    find_effort,
    list_dropped,
    make_wire_name,
    name_tools,
)
from threadkeep.dialects.values import UNREADABLE, Request
from threadkeep.items import ItemKind, Role

# What is translated, and what says nothing about the answer: who asks, what is kept and cached, how the answer comes.
KNOWN: Final = frozenset(
    {
        *("model", "instructions", "input", "tools", "tool_choice", "parallel_tool_calls", "max_output_tokens", "temperature"),
        *("top_p", "reasoning", "text", "stream", "stream_options", "store", "include", "metadata", "client_metadata", "user"),
        *("prompt_cache_key", "prompt_cache_retention", "prompt_cache_options", "safety_identifier", "service_tier"),
        *("truncation", "background", "context_management"),
    }
)
FOUND_TOOLS: Final = "tool_search_output"
CHOICES: Final = frozenset({"auto", "none", "required"})


def read_request(request: Request) -> PlainRequest:
    fields = {name: read_value(raw) for name, raw in request.fields.items() if name != "input"}
    items = [each for item in (*request.head, *request.items) if (each := read_object(item.raw)) is not None]
    instructions = fields.get("instructions")
    told = (Message(role="system", content=(instructions,)),) if isinstance(instructions, str) else ()
    lists = [fields.get("tools"), *(item.get("tools") for item in items if read_kind(item) in (TOOLS_ITEM, FOUND_TOOLS))]
    offered = [tool for listed in lists for tool in (listed if isinstance(listed, list) else ()) if isinstance(tool, dict)]
    tools = name_tools([tool for each in offered for tool in _read_tools(each)])
    hosted = [str(tool.get("type")) for tool in offered if not any(True for _ in _read_tools(tool))]
    messages = [_read_item(item) for item in items]
    unread = [read_kind(item) for item, message in zip(items, messages, strict=True) if message is None]
    choice, text = fields.get("tool_choice"), fields.get("text")
    picked = make_wire_name(str(choice.get("name"))) if isinstance(choice, dict) else None
    limit, parallel, effort = fields.get("max_output_tokens"), fields.get("parallel_tool_calls"), fields.get("reasoning")
    return PlainRequest(
        model=str(fields.get("model") or ""),
        is_streamed=fields.get("stream") is True,
        messages=(*told, *(message for message in messages if message is not None)),
        tools=tools,
        tool_choice=(picked,) if picked in tools else choice if choice in CHOICES else None,
        is_parallel=parallel if isinstance(parallel, bool) else None,
        max_tokens=limit if isinstance(limit, int) else None,
        temperature=fields.get("temperature"),
        top_p=fields.get("top_p"),
        effort=find_effort(effort.get("effort")) if isinstance(effort, dict) else None,
        schema=_read_schema(text.get("format")) if isinstance(text, dict) else None,
        dropped=(*list_dropped(fields, known=KNOWN), *dict.fromkeys((*hosted, *(kind for kind in unread if kind)))),
    )


def _read_tools(tool: Json, *, namespace: str = "") -> Iterator[Tool]:
    """Yield the tools that a client's tool is; none where the provider would have to run it."""
    kind, name, description = tool.get("type"), tool.get("name"), tool.get("description")
    described = description if isinstance(description, str) else ""
    if kind == "namespace" and isinstance(listed := tool.get("tools"), list):
        for each in listed:
            if isinstance(each, dict):
                yield from _read_tools(each, namespace=str(name))
    elif kind == "custom" and isinstance(name, str):
        form = tool.get("format")
        syntax, grammar = (form.get("syntax"), form.get("definition")) if isinstance(form, dict) else (None, None)
        told = f"\n\nThe text in `{FREE_TEXT}` must match this {syntax} grammar:\n{grammar}" if isinstance(grammar, str) else ""
        yield Tool(name=name, kind="custom", namespace=namespace, description=described + told)
    elif kind == "function" or (kind == "tool_search" and tool.get("execution") == "client"):
        parameters = tool.get("parameters")
        yield Tool(
            name=name if isinstance(name, str) else str(kind),
            kind=str(kind),
            namespace=namespace,
            description=described,
            parameters=parameters if isinstance(parameters, dict) else {"type": "object", "properties": {}},
            is_strict=tool.get("strict") is True,
        )


def _read_schema(form: object) -> Json | None:
    fields = form if isinstance(form, dict) else {}
    if isinstance(schema := fields.get("schema"), dict):
        named = {name: fields[name] for name in ("description", "strict") if fields.get(name) is not None}
        return {"name": fields.get("name") or "answer", "schema": schema, **named}
    return {} if fields.get("type") == "json_object" else None


def _read_item(item: Json) -> Message | None:
    """Return what an item says; None where it says nothing, or nothing that another language has."""
    kind, view = read_kind(item), read_view(item)
    if kind == "message":
        role = ROLES.get(str(item.get("role")), Role.ASSISTANT)
        name = cast(Any, {Role.SYSTEM: "system", Role.USER: "user"}.get(role, "assistant"))
        return Message(role=name, content=_read_content(item.get("content")))
    if kind == "reasoning":
        seal = item.get("encrypted_content")
        ours = isinstance(seal, str) and seal.startswith(THOUGHT_SEAL)
        return Message(role="assistant", thought=(str(seal).removeprefix(THOUGHT_SEAL), view.text) if ours else None)
    if kind in TYPES:
        return Message(role="user", content=(UNREADABLE,))
    if kind == TOOLS_ITEM:
        return Message(role="system")
    if view.kind is ItemKind.OUTPUT and view.outputs:
        images = tuple(part for part in _read_content(item.get("output")) if isinstance(part, Image))
        told = (Output(call_id=each.call_id, text=each.text, images=images) for each in view.outputs)
        return Message(role="user", outputs=tuple(told))
    if view.calls:
        name = make_wire_name(str(item.get("name") or kind.removesuffix("_call")), namespace=str(item.get("namespace") or ""))
        free = kind == "custom_tool_call"
        calls = (replace(call, name=name, arguments=_wrap(call.arguments) if free else call.arguments) for call in view.calls)
        return Message(role="assistant", calls=tuple(calls))
    if view.kind is ItemKind.MESSAGE:
        return Message(role="user", content=(view.text,))
    return None


def _wrap(text: str) -> str:
    return encode({FREE_TEXT: text}).decode()


def _read_content(content: object) -> tuple[str | Image, ...]:
    if isinstance(content, str):
        return (content,)
    parts = content if isinstance(content, list) else []
    return tuple(_read_part(part) for part in parts if isinstance(part, dict))


def _read_part(part: Json) -> str | Image:
    kind, text, url, detail = part.get("type"), part.get("text", part.get("refusal")), part.get("image_url"), part.get("detail")
    if isinstance(text, str):
        return text
    if isinstance(url, str):
        return Image(url=url, detail=detail if detail in ("auto", "low", "high") else None)
    return f"({str(kind).removeprefix('input_')} that cannot be shown here: {part.get('filename') or part.get('file_id') or ''})"


make_writer = ResponsesAnswerWriter
