"""Requests and answers of the Responses API where the provider speaks another language: this module is the dialect's
`ClientForm`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, cast

from msgspec.json import encode

from threadkeep.dialects.raw_json import Json, encode_value, read_object, read_value, render_json
from threadkeep.dialects.responses.compaction import TYPES
from threadkeep.dialects.responses.item_views import ROLES, TOOLS_ITEM, read_kind, read_view
from threadkeep.dialects.responses.replies import make_part, make_response, render_event
from threadkeep.dialects.translation import (
    CUT_SHORT,
    FREE_TEXT,
    THOUGHT_SEAL,
    AnswerWriter,
    Image,
    Message,
    Output,
    PlainRequest,
    StopReason,
    Tool,
    Usage,
    find_effort,
    list_dropped,
    make_wire_name,
    name_tools,
)
from threadkeep.dialects.values import UNREADABLE, Answer, Request
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


class ResponsesAnswerWriter(AnswerWriter):
    """Every event of the API, numbered; a part of an answer is an output item."""

    def __init__(self, answer: Answer, request: PlainRequest) -> None:
        super().__init__(answer, request)
        self._output: list[Json] = []
        self._item: Json = {}
        self._number = 0
        self._ended = make_response(answer, status="in_progress")

    def begin(self) -> None:
        for kind in ("response.created", "response.in_progress"):
            self._emit(kind, {"response": self._ended})

    def finish(self, reason: StopReason, usage: Usage) -> None:
        status = "incomplete" if reason in CUT_SHORT else "completed"
        why = {"length": "max_output_tokens"}.get(reason, reason)
        counted = {
            "input_tokens": usage.read,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.written,
            "output_tokens_details": {"reasoning_tokens": usage.thought},
            "total_tokens": usage.read + usage.written,
        }
        self._end(status, incomplete_details={"reason": why} if status == "incomplete" else None, usage=counted)

    def fail(self, code: str, message: str) -> None:
        self._end("failed", error={"code": code, "message": message})

    def whole(self) -> bytes:
        return encode_value(self._ended)

    def _end(self, status: str, **more: object) -> None:
        self._ended = {**self._ended, "status": status, "output": self._output, **more}
        self._emit(f"response.{status}", {"response": self._ended})

    def _open(self) -> None:
        place = f"{self._answer.message_id.rpartition('_')[2]}_{len(self._output)}"
        match self._kind:
            case "thought":
                self._item = {"type": "reasoning", "id": f"rs_{place}", "summary": [], "encrypted_content": None}
            case "call":
                self._item = self._make_call(place)
            case _:
                made = {"type": "message", "id": f"msg_{place}", "status": "in_progress", "role": "assistant", "content": []}
                self._item = made
        self._emit("response.output_item.added", {"output_index": len(self._output), "item": self._item})
        if self._kind == "thought":
            self._emit_here("response.reasoning_summary_part.added", {"summary_index": 0, "part": _summary("")})
        elif self._kind != "call":
            self._emit_here("response.content_part.added", {"content_index": 0, "part": self._make_part("")})

    def _grow(self, text: str) -> None:
        match self._kind:
            case "thought":
                self._emit_here("response.reasoning_summary_text.delta", {"summary_index": 0, "delta": text})
            case "text":
                self._emit_here("response.output_text.delta", {"content_index": 0, "delta": text, "logprobs": []})
            case "refusal":
                self._emit_here("response.refusal.delta", {"content_index": 0, "delta": text})
            case _ if self._item["type"] == "function_call":
                self._emit_here("response.function_call_arguments.delta", {"delta": text})

    def _close(self, text: str, *, seal: str) -> None:
        part: Json = {}
        match self._kind:
            case "thought":
                part = {"summary_index": 0}
                self._emit_here("response.reasoning_summary_text.done", part | {"text": text})
                self._emit_here("response.reasoning_summary_part.done", part | {"part": _summary(text)})
                done: Json = {"summary": [_summary(text)], "encrypted_content": seal}
            case "call":
                done = self._finish_call(text)
            case _:
                part = {"content_index": 0}
                kind, said = ("refusal", {"refusal": text}) if self._kind == "refusal" else ("output_text", {"text": text})
                self._emit_here(f"response.{kind}.done", part | said | ({"logprobs": []} if kind == "output_text" else {}))
                self._emit_here("response.content_part.done", part | {"part": self._make_part(text)})
                done = {"content": [self._make_part(text)], "status": "completed"}
        self._item = self._item | done
        self._emit("response.output_item.done", {"output_index": len(self._output), "item": self._item})
        self._output.append(self._item)

    def _make_call(self, place: str) -> Json:
        tool = self._tools.get(self._call.name) or Tool(name=self._call.name)
        called: Json = {"call_id": self._call.id, "status": "in_progress"}
        if tool.kind == "tool_search":
            return {"type": "tool_search_call", "id": f"tsc_{place}", "execution": "client", "arguments": {}, **called}
        # Clients take a call without a namespace for one of the tools that stand in none.
        inside = {"namespace": tool.namespace} if tool.namespace not in ("", "functions") else {}
        if tool.kind == "custom":
            return {"type": "custom_tool_call", "id": f"ctc_{place}", "name": tool.name, "input": "", **inside, **called}
        return {"type": "function_call", "id": f"fc_{place}", "name": tool.name, "arguments": "", **inside, **called}

    def _finish_call(self, arguments: str) -> Json:
        read = read_object(arguments.encode())
        match self._item["type"]:
            case "tool_search_call":
                return {"arguments": read or {}, "status": "completed"}
            case "custom_tool_call":
                text = read.get(FREE_TEXT) if read is not None else arguments
                text = text if isinstance(text, str) else render_json(read)
                self._emit_here("response.custom_tool_call_input.delta", {"delta": text})
                self._emit_here("response.custom_tool_call_input.done", {"input": text})
                return {"input": text, "status": "completed"}
            case _:
                self._emit_here("response.function_call_arguments.done", {"arguments": arguments, "name": self._item["name"]})
                return {"arguments": arguments, "status": "completed"}

    def _make_part(self, text: str) -> Json:
        return {"type": "refusal", "refusal": text} if self._kind == "refusal" else make_part(text)

    def _emit_here(self, kind: str, fields: Mapping[str, object]) -> None:
        self._emit(kind, {"item_id": self._item["id"], "output_index": len(self._output), **fields})

    def _emit(self, kind: str, fields: Mapping[str, object]) -> None:
        self._events.append(render_event(kind, sequence_number=self._number, fields=fields))
        self._number += 1


make_writer = ResponsesAnswerWriter


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}
