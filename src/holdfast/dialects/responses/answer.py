"""Answers the gateway writes by itself, in the shapes a provider uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.json import encode

Json = dict[str, object]

NO_TOKENS: Final = (0, 0)


def answer_stream(
    text: str,
    *,
    response_id: str,
    message_id: str,
    model: str,
    created_at: int,
    usage_tokens: tuple[int, int] = NO_TOKENS,
) -> bytes:
    """Return the whole event stream of a completed response whose output is one assistant message.

    `usage_tokens` is what the response claims to have cost, input before output.
    """
    empty = _response(response_id, model=model, created_at=created_at, status="in_progress")
    message = _message(message_id, text=text)
    part = _part(text)
    place: Json = {"item_id": message_id, "output_index": 0, "content_index": 0}
    completed = empty | {"status": "completed", "output": [message], "usage": _usage(usage_tokens)}
    events: list[tuple[str, Json]] = [
        ("response.created", {"response": empty}),
        ("response.in_progress", {"response": empty}),
        ("response.output_item.added", {"output_index": 0, "item": message | {"status": "in_progress", "content": []}}),
        ("response.content_part.added", place | {"part": _part("")}),
        ("response.output_text.delta", place | {"delta": text, "logprobs": []}),
        ("response.output_text.done", place | {"text": text, "logprobs": []}),
        ("response.content_part.done", place | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": message}),
        ("response.completed", {"response": completed}),
    ]
    return b"".join(_event(kind, sequence_number=number, fields=fields) for number, (kind, fields) in enumerate(events))


def answer_json(
    text: str,
    *,
    response_id: str,
    message_id: str,
    model: str,
    created_at: int,
    usage_tokens: tuple[int, int] = NO_TOKENS,
) -> bytes:
    """Return the same completed response as one JSON object, for a request that asked for no stream."""
    response = _response(response_id, model=model, created_at=created_at, status="completed")
    return encode(response | {"output": [_message(message_id, text=text)], "usage": _usage(usage_tokens)})


def error_json(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def failed_stream(
    code: str,
    message: str,
    *,
    response_id: str,
    model: str,
    created_at: int,
    sequence_number: int,
) -> bytes:
    """Return the event that ends a stream which began and cannot be completed; it follows event `sequence_number - 1`."""
    failed = _response(response_id, model=model, created_at=created_at, status="failed")
    fields: Json = {"response": failed | {"error": {"code": code, "message": message}}}
    return _event("response.failed", sequence_number=sequence_number, fields=fields)


def _event(kind: str, *, sequence_number: int, fields: Mapping[str, object]) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    body = encode({"type": kind, "sequence_number": sequence_number, **fields})
    return b"event: " + kind.encode() + b"\ndata: " + body + b"\n\n"


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(message_id: str, *, text: str) -> Json:
    return {"id": message_id, "type": "message", "status": "completed", "role": "assistant", "content": [_part(text)]}


def _usage(tokens: tuple[int, int]) -> Json:
    read, written = tokens
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": read + written,
    }


def _response(response_id: str, *, model: str, created_at: int, status: str) -> Json:
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "model": model,
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
