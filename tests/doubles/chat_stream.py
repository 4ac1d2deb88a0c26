"""The Chat Completions wire as a real provider speaks it.

Pure, and written against the wire format alone; see `tests.doubles.responses_stream`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.doubles.responses_stream import CALLS, DELTAS_PER_TEXT, JsonObject

CREATED_AT = 1_700_000_000


def chat_message(output: Sequence[JsonObject]) -> JsonObject:
    """Return finished output items as the one assistant message this wire has for them; reasoning is not shown here."""
    texts = [part["text"] for item in output if item["type"] == "message" for part in item["content"]]
    calls = [
        {"id": item["call_id"], "type": "function", "function": {"name": item["name"], "arguments": item["arguments"]}}
        for item in output
        if item["type"] in CALLS
    ]
    said: JsonObject = {"role": "assistant", "content": "".join(texts) or None}
    return said | {"tool_calls": calls} if calls else said


def completion(completion_id: str, *, request: Mapping[str, Any], output: Sequence[JsonObject], usage: JsonObject) -> JsonObject:
    """Return the object a request that does not stream is answered with."""
    said = chat_message(output)
    choice = {"index": 0, "message": said, "logprobs": None, "finish_reason": _reason(said)}
    framing = {"id": completion_id, "object": "chat.completion", "created": CREATED_AT, "model": request.get("model")}
    return framing | {"choices": [choice], "usage": usage}


def chunks(completion_id: str, *, request: Mapping[str, Any], output: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the chunks that stream an answer up to its finish reason."""
    said = chat_message(output)
    yield chunk(completion_id, request=request, delta={"role": "assistant", "content": ""})
    for piece in _pieces(said["content"] or ""):
        yield chunk(completion_id, request=request, delta={"content": piece})
    for index, called in enumerate(said.get("tool_calls", [])):
        opened = called | {"index": index, "function": {"name": called["function"]["name"], "arguments": ""}}
        yield chunk(completion_id, request=request, delta={"tool_calls": [opened]})
        for piece in _pieces(called["function"]["arguments"]):
            yield chunk(
                completion_id, request=request, delta={"tool_calls": [{"index": index, "function": {"arguments": piece}}]}
            )
    yield chunk(completion_id, request=request, delta={}, finish_reason=_reason(said))


def chunk(
    completion_id: str, *, request: Mapping[str, Any], delta: JsonObject | None, finish_reason: str | None = None
) -> JsonObject:
    """Return one chunk; without a delta it has no choices, as the one that reports usage."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}]
    framing = {"id": completion_id, "object": "chat.completion.chunk", "created": CREATED_AT, "model": request.get("model")}
    return framing | {"choices": choices}


def chat_usage(*, input_tokens: int, output_tokens: int) -> JsonObject:
    return {
        "prompt_tokens": input_tokens,
        "completion_tokens": output_tokens,
        "total_tokens": input_tokens + output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }


def _reason(said: JsonObject) -> str:
    return "tool_calls" if "tool_calls" in said else "stop"


def _pieces(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // DELTAS_PER_TEXT))
    for start in range(0, len(text), size):
        yield text[start : start + size]
