"""Answers the gateway writes by itself, in the shapes a provider uses."""

from __future__ import annotations

from typing import Final

from msgspec.json import encode

from threadkeep.dialects.base import Answer

Json = dict[str, object]

# No model was asked, and nothing was counted.
NO_USAGE: Final[Json] = {
    "prompt_tokens": 0,
    "completion_tokens": 0,
    "total_tokens": 0,
    "prompt_tokens_details": {"cached_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 0},
}


def render_answer_stream(answer: Answer) -> bytes:
    """Return the whole event stream of a completed answer.

    The usage stands in the last chunk that has a choice: a chunk without any breaks clients that did not ask for usage.
    """
    chunks = [
        _chunk(answer, delta={"role": "assistant", "content": ""}),
        _chunk(answer, delta={"content": answer.text}),
        _chunk(answer, delta={}, finish_reason="stop") | {"usage": NO_USAGE},
    ]
    # JSON as it is written here holds no line break, so one data line carries any text.
    return b"".join(b"data: " + encode(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


def render_answer(answer: Answer) -> bytes:
    """Return the same answer as one JSON object, for a request that asked for no stream."""
    message: Json = {"role": "assistant", "content": answer.text, "refusal": None, "annotations": []}
    choice: Json = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return encode(_envelope(answer, kind="chat.completion") | {"choices": [choice], "usage": NO_USAGE})


def render_error(status: int, code: str, message: str) -> bytes:
    """Return the body of an answer with HTTP status `status`; clients show `message` and branch on `code`."""
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return encode({"error": {"message": message, "type": kind, "param": None, "code": code}})


def _chunk(answer: Answer, *, delta: Json, finish_reason: str | None = None) -> Json:
    choice: Json = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _envelope(answer, kind="chat.completion.chunk") | {"choices": [choice]}


def _envelope(answer: Answer, *, kind: str) -> Json:
    return {"id": answer.response_id, "object": kind, "created": answer.created_at, "model": answer.model}
