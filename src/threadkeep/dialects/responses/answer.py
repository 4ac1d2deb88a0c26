"""Answers the gateway writes by itself, in the shapes a provider uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.json import encode

from threadkeep.dialects.base import Answer

Json = dict[str, object]

# No model was asked, and nothing was counted.
NO_USAGE: Final[Json] = {
    "input_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 0,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 0,
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a completed response whose output is one assistant message."""
    empty = _response(answer, status="in_progress")
    message = _message(answer)
    part = _part(answer.text)
    place: Json = {"item_id": answer.message_id, "output_index": 0, "content_index": 0}
    completed = empty | {"status": "completed", "output": [message], "usage": NO_USAGE}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": empty}),
        ("response.in_progress", {"response": empty}),
        ("response.output_item.added", {"output_index": 0, "item": message | {"status": "in_progress", "content": []}}),
        ("response.content_part.added", place | {"part": _part("")}),
        ("response.output_text.delta", place | {"delta": answer.text, "logprobs": []}),
        ("response.output_text.done", place | {"text": answer.text, "logprobs": []}),
        ("response.content_part.done", place | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": message}),
        ("response.completed", {"response": completed}),
    ]
    return b"".join(_event(kind, sequence_number=number, fields=fields) for number, (kind, fields) in enumerate(events))


def render_answer(answer: Answer) -> bytes:
    """Return the same completed response as one JSON object, for a request that asked for no stream."""
    return encode(_response(answer, status="completed") | {"output": [_message(answer)], "usage": NO_USAGE})


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _event(kind: str, *, sequence_number: int, fields: Mapping[str, object]) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    body = encode({"type": kind, "sequence_number": sequence_number, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(answer: Answer) -> Json:
    content = [_part(answer.text)]
    return {"id": answer.message_id, "type": "message", "status": "completed", "role": "assistant", "content": content}


def _response(answer: Answer, *, status: str) -> Json:
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
