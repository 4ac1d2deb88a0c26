"""The Anthropic Messages wire as a real provider speaks it.

Pure, and written against the wire format alone; see `tests.doubles.responses_stream`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.doubles.responses_stream import CALLS, DELTAS_PER_TEXT, JsonObject


def thinks(request: Mapping[str, Any]) -> bool:
    """Whether the request lets the model think aloud, so that its thoughts come back as signed blocks."""
    thinking = request.get("thinking")
    return isinstance(thinking, dict) and thinking.get("type") in ("enabled", "adaptive")


def content_blocks(output: Sequence[JsonObject], *, signature: str | None) -> list[JsonObject]:
    """Return finished output items as content blocks; reasoning becomes a thinking block with `signature`, or nothing without."""
    blocks: list[JsonObject] = []
    for item in output:
        if item["type"] == "reasoning":
            if signature is not None:
                thought = "".join(part["text"] for part in item["summary"])
                blocks.append({"type": "thinking", "thinking": thought, "signature": signature})
        elif item["type"] in CALLS:
            used = {"type": "tool_use", "id": item["call_id"], "name": item["name"], "input": json.loads(item["arguments"])}
            blocks.append(used)
        elif item["type"] == "message":
            blocks.extend({"type": "text", "text": part["text"]} for part in item["content"])
    return blocks


def anthropic_message(
    message_id: str, *, request: Mapping[str, Any], blocks: Sequence[JsonObject], usage: JsonObject
) -> JsonObject:
    """Return the object a request that does not stream is answered with."""
    begun = _framing(message_id, request)
    return begun | {"content": list(blocks), "stop_reason": stop_reason(blocks), "stop_sequence": None, "usage": usage}


def stop_reason(blocks: Sequence[JsonObject]) -> str:
    return "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"


def opening(message_id: str, *, request: Mapping[str, Any], input_tokens: int) -> JsonObject:
    """Return the event that begins a stream."""
    usage = anthropic_usage(input_tokens=input_tokens, output_tokens=1)
    begun = _framing(message_id, request) | {"content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
    return {"type": "message_start", "message": begun}


def block_events(blocks: Sequence[JsonObject]) -> Iterator[JsonObject]:
    """Yield the events that stream content blocks: each begins empty, grows by deltas and is closed."""
    for index, block in enumerate(blocks):
        yield {"type": "content_block_start", "index": index, "content_block": _begun(block)}
        for delta in _deltas(block):
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}


def anthropic_usage(*, input_tokens: int, output_tokens: int) -> JsonObject:
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "output_tokens": output_tokens,
    }


def _framing(message_id: str, request: Mapping[str, Any]) -> JsonObject:
    return {"id": message_id, "type": "message", "role": "assistant", "model": request.get("model")}


def _begun(block: JsonObject) -> JsonObject:
    match block["type"]:
        case "thinking":
            return block | {"thinking": "", "signature": ""}
        case "tool_use":
            return block | {"input": {}}
        case _:
            return block | {"text": ""}


def _deltas(block: JsonObject) -> Iterator[JsonObject]:
    match block["type"]:
        case "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        case "tool_use":
            pieces = _pieces(json.dumps(block["input"]))
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces)
        case _:
            yield from ({"type": "text_delta", "text": piece} for piece in _pieces(block["text"]))


def _pieces(text: str) -> Iterator[str]:
    size = max(1, -(-len(text) // DELTAS_PER_TEXT))
    for start in range(0, len(text), size):
        yield text[start : start + size]
