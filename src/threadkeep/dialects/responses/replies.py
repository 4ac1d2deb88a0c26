"""Answers of the Responses API, read and written: this module is the dialect's `Wire`.

The answer is hostile input: a reader never raises, keeps nothing it does not need, and does work in proportion to the
bytes it was given. What it cannot read it skips.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.openai_parts import read_speech_parts
from threadkeep.dialects.raw_json import ABSENT, Fields, Json, encode_value, read_fields, read_item, read_object, render_json
from threadkeep.dialects.reply_reader import ReplyReader
from threadkeep.dialects.responses import answer_filter
from threadkeep.dialects.translation import CUT_SHORT, FREE_TEXT, AnswerWriter, PlainRequest, StopReason, Tool, Usage
from threadkeep.dialects.values import Answer, Delta, Outcome, Reply, Speech
from threadkeep.items import Item

TERMINAL: Final[dict[str, Outcome]] = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "error": "failed",
}

STATUSES: Final[dict[str, Outcome]] = {
    "completed": "completed",
    "incomplete": "incomplete",
    "failed": "failed",
    "cancelled": "failed",
    "queued": "incomplete",
    "in_progress": "incomplete",
}


def _items(spans: list[bytes]) -> tuple[Item, ...]:
    return tuple(item for item in map(read_item, spans) if item is not None)


def _reply(response: Fields, *, outcome: Outcome) -> Reply:
    """Return what a response object says, its own output list included."""
    usage = response.inner("usage")
    return Reply(
        items=_items(response.elements("output") or []),
        input_tokens=usage.count("input_tokens"),
        output_tokens=usage.count("output_tokens"),
        cached_tokens=usage.inner("input_tokens_details").count("cached_tokens"),
        response_id=response.text("id"),
        outcome=outcome,
    )


def read_reply(body: bytes) -> Reply:
    """Return the reply that an answer which was not streamed carries; `cut` if it is no JSON object."""
    response = read_fields(body)
    if response is None:
        return Reply(outcome="cut")
    status = response.text("status")
    if status is None:
        # Servers that imitate the API leave the status out; an output list and no error is then the sign of success.
        succeeded = response.span("error") == ABSENT and response.elements("output") is not None
        return _reply(response, outcome="completed" if succeeded else "failed")
    return _reply(response, outcome=STATUSES.get(status, "incomplete"))


class ResponsesReplyReader(ReplyReader):
    """See `threadkeep.dialects.reply_reader.ReplyReader`."""

    def __init__(self) -> None:
        super().__init__()
        self._streamed: dict[int, Item] = {}
        self._next_index = 0

    @property
    def reply(self) -> Reply:
        if not self._streamed:
            return self._said
        return replace(self._said, items=tuple(self._streamed[index] for index in sorted(self._streamed)))

    def _take(self, event: Fields, *, size: int) -> None:
        kind = event.text("type") or ""
        if kind == "response.output_item.done":
            self._take_item(event, size=size)
        elif kind in TERMINAL:
            said = _reply(event.inner("response"), outcome=TERMINAL[kind])
            self._said = replace(said, response_id=said.response_id or self._said.response_id)
            self._done = True
        elif kind == "response.created":
            self._said = replace(self._said, response_id=event.inner("response").text("id"))

    def _forget(self) -> None:
        self._streamed.clear()

    def _take_item(self, event: Fields, *, size: int) -> None:
        item = read_item(event.span("item"))
        if not self._has_room(size) or item is None:
            return
        index = event.count("output_index")
        place = self._next_index if index is None else index
        self._streamed[place] = item
        self._next_index = max(self._next_index, place + 1)


class ResponsesAnswerWriter(AnswerWriter):
    """Every event of the API, numbered; a part of an answer is an output item."""

    def __init__(self, answer: Answer, request: PlainRequest | None = None) -> None:
        super().__init__(answer, request)
        self._output: list[Json] = []
        self._item: Json = {}
        self._number = 0
        self._ended = _make_response(answer, status="in_progress")

    def begin(self) -> None:
        for kind in ("response.created", "response.in_progress"):
            self._emit(kind, {"response": self._ended})

    def finish(self, reason: StopReason, usage: Usage) -> None:
        status = "incomplete" if reason in CUT_SHORT else "completed"
        why = {"length": "max_output_tokens"}.get(reason, reason)
        self._end(status, incomplete_details={"reason": why} if status == "incomplete" else None, usage=count_usage(usage))

    def fail(self, code: str, message: str) -> None:
        self._end("failed", error={"code": code, "message": message})

    def whole(self) -> bytes:
        return encode_value(self._ended)

    def _end(self, status: str, **more: object) -> None:
        self._ended = {**self._ended, "status": status, "output": self._output, **more}
        self._emit(f"response.{status}", {"response": self._ended})

    def _open(self) -> None:
        place = self._answer.message_id.rpartition("_")[2] + (f"_{len(self._output)}" if self._output else "")
        match self._kind:
            case "thought":
                self._item = {"type": "reasoning", "id": f"rs_{place}", "summary": [], "encrypted_content": None}
            case "call":
                self._item = self._make_call(place)
            case _:
                made = {"id": f"msg_{place}", "type": "message", "status": "in_progress", "role": "assistant", "content": []}
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
        return {"type": "refusal", "refusal": text} if self._kind == "refusal" else _make_part(text)

    def _emit_here(self, kind: str, fields: Mapping[str, object]) -> None:
        self._emit(kind, {"item_id": self._item["id"], "output_index": len(self._output), **fields})

    def _emit(self, kind: str, fields: Mapping[str, object]) -> None:
        self._events.append(_render_event(kind, sequence_number=self._number, fields=fields))
        self._number += 1


def _summary(text: str) -> Json:
    return {"type": "summary_text", "text": text}


def count_usage(usage: Usage) -> Json:
    return {
        "input_tokens": usage.read,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.written,
        "output_tokens_details": {"reasoning_tokens": usage.thought},
        "total_tokens": usage.read + usage.written,
    }


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a completed response whose output is one assistant message."""
    return ResponsesAnswerWriter(answer).write_text(answer.text).take()


def render_answer(answer: Answer) -> bytes:
    """Return the same completed response as one JSON object, for a request that asked for no stream."""
    return ResponsesAnswerWriter(answer).write_text(answer.text).whole()


def render_empty_stream(answer: Answer) -> bytes:
    """Return the event stream of a completed response without any output."""
    writer = ResponsesAnswerWriter(answer)
    writer.begin()
    writer.finish("stop", Usage())
    return writer.take()


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _render_event(kind: str, *, sequence_number: int, fields: Mapping[str, object]) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    body = encode({"type": kind, "sequence_number": sequence_number, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def _make_part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _make_response(answer: Answer, *, status: str) -> Json:
    return {
        "id": answer.response_id,
        "object": "response",
        "created_at": answer.created_at,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": answer.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": False,
        "temperature": 1.0,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
    }


make_reader = ResponsesReplyReader
make_filter = answer_filter.ResponsesAnswerFilter
merge_answers = answer_filter.merge_answers

streams_items: Final = True
# What an event of each type says, and whether it is a thought.
WORDS: Final = {
    "response.output_text.delta": False,
    "response.refusal.delta": False,
    "response.reasoning_summary_text.delta": True,
    "response.reasoning_text.delta": True,
}


def read_delta(event: Fields) -> Delta | None:
    kind = event.text("type") or ""
    text = event.text("delta") if kind in WORDS else None
    return Delta(text=text, is_thought=WORDS[kind]) if text else None


def read_finished_item(event: Fields) -> Item | None:
    return read_item(event.span("item")) if event.text("type") == "response.output_item.done" else None


def read_stop_reason(event: Fields) -> str | None:
    return (event.object("response") or event).inner("incomplete_details").text("reason")


def read_speech(item: Item) -> Speech:
    fields = read_object(item.raw) or {}
    return read_speech_parts(fields) if fields.get("type", "message") == "message" else Speech(text="")
