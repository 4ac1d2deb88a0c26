"""The Gemini wire (`generateContent`) as a real provider speaks it.

Pure, and written against the wire format alone; see `tests.doubles.responses_stream`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any

from tests.doubles.responses_stream import CALLS, DELTAS_PER_TEXT, JsonObject

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBwcm92aWRlcg=="


def content_parts(output: Sequence[JsonObject]) -> list[JsonObject]:
    """Return finished output items as parts; the first call is signed."""
    parts: list[JsonObject] = []
    for item in output:
        if item["type"] == "reasoning":
            parts.extend({"text": part["text"], "thought": True} for part in item["summary"])
        elif item["type"] in CALLS:
            called = {"id": item["call_id"], "name": item["name"], "args": json.loads(item["arguments"])}
            is_signed = any("functionCall" in part for part in parts)
            parts.append({"functionCall": called} | ({} if is_signed else {"thoughtSignature": SIGNATURE}))
        elif item["type"] == "message":
            parts.extend({"text": part["text"]} for part in item["content"])
    return parts


def answer_object(
    response_id: str, parts: Sequence[JsonObject], *, usage: JsonObject | None = None, finish: str | None = None
) -> JsonObject:
    """Return an answer, or a piece of a streamed one; the last piece says why the answer ended and what it cost."""
    candidate: JsonObject = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    ended = {"finishReason": finish} if finish else {}
    return {"candidates": [candidate | ended], "modelVersion": "gemini-3-pro", "responseId": response_id} | (
        {"usageMetadata": usage} if usage else {}
    )


def pieces(response_id: str, parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the pieces of a streamed answer, texts cut in several; the last one is left to `answer_object`."""
    cut: list[JsonObject] = []
    for part in parts:
        text = part.get("text")
        if not text:
            cut.append(part)
            continue
        size = max(1, len(text) // DELTAS_PER_TEXT)
        cut.extend({**part, "text": text[start : start + size]} for start in range(0, len(text), size))
    return [answer_object(response_id, [part]) for part in cut]


def usage_metadata(*, input_tokens: int, output_tokens: int) -> JsonObject:
    return {
        "promptTokenCount": input_tokens,
        "candidatesTokenCount": output_tokens,
        "totalTokenCount": input_tokens + output_tokens,
    }


def pairing_fault(contents: Sequence[Mapping[str, Any]]) -> str | None:
    """Return why the API refuses a history: a role there is not, or responses that do not match the calls before.

    A client that streamed an answer may send each of its pieces as a content of its own; neighbours of one role are one turn.
    """
    for index, content in enumerate(contents):
        if content.get("role") not in ("user", "model"):
            return f"contents[{index}]: Please use a valid role: user, model."
        if not content.get("parts"):
            return f"contents[{index}].parts: must not be empty."
    turns = [
        [part for content in run for part in content["parts"]] for _, run in groupby(contents, key=lambda each: each["role"])
    ]
    for before, turn in pairwise([[], *turns]):
        called = [part["functionCall"] for part in before if "functionCall" in part]
        answered = [part["functionResponse"] for part in turn if "functionResponse" in part]
        if _names(called) != _names(answered):
            return (
                "Please ensure that the number of function response parts is equal to the number of "
                "function call parts of the function call turn."
            )
    if turns and any("functionCall" in part for part in turns[-1]):
        return "Please ensure that a function call turn is followed by its function responses."
    return _signature_fault(contents)


def _signature_fault(contents: Sequence[Mapping[str, Any]]) -> str | None:
    """Return which call of the current turn lacks its signature."""
    asked = [
        index
        for index, content in enumerate(contents)
        if content.get("role") == "user" and any("text" in part for part in content.get("parts", ()))
    ]
    for index in range(asked[-1] if asked else 0, len(contents)):
        calls = [part for part in contents[index].get("parts", ()) if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            return f"contents[{index}]: Function call is missing a thought_signature in functionCall parts."
    return None


def _names(values: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return sorted((str(value.get("id") or ""), str(value.get("name"))) for value in values)
