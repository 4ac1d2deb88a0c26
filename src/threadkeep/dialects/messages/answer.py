"""Answers the gateway writes by itself, in the shapes a provider uses."""

from __future__ import annotations

from typing import Final

from msgspec.json import encode

from threadkeep.dialects.base import Answer

Json = dict[str, object]

# No model was asked, and nothing was counted.
NO_USAGE: Final[Json] = {
    "input_tokens": 0,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
    "output_tokens": 0,
}

# The provider's own word for each status; clients decide by it whether to try again.
ERROR_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a message with one block of text."""
    events: list[Json] = [
        {"type": "message_start", "message": _message(answer, content=[], stop_reason=None)},
        {"type": "content_block_start", "index": 0, "content_block": _text("")},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer.text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": NO_USAGE},
        {"type": "message_stop"},
    ]
    return b"".join(_event(event) for event in events)


def render_answer(answer: Answer) -> bytes:
    """Return the same message as one JSON object, for a request that asked for no stream."""
    return encode(_message(answer, content=[_text(answer.text)], stop_reason="end_turn"))


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients branch on its type, and may on `code`."""
    kind = ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return encode({"type": "error", "error": {"type": kind, "message": message, "code": code}})


def _event(fields: Json) -> bytes:
    # JSON as it is written here holds no line break, so one data line carries any text.
    return b"event: " + str(fields["type"]).encode() + b"\ndata: " + encode(fields) + b"\n\n"


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _message(answer: Answer, *, content: list[Json], stop_reason: str | None) -> Json:
    return {
        "id": answer.message_id,
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": NO_USAGE,
    }
