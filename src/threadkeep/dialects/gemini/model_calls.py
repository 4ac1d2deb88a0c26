"""Asking a model through `generateContent`: this module is the dialect's `ModelCalls`. The path names model and streaming."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from threadkeep.dialects.gemini.parts import is_thought, list_parts
from threadkeep.dialects.raw_json import Fields, join_object, read_fields, read_object, split_object
from threadkeep.dialects.values import Delta, Request, Speech
from threadkeep.items import Item

streams_items: Final = False

GENERATION: Final = "generationConfig"
BOUND: Final = "maxOutputTokens"
NO_TOOLS: Final = b'{"functionCallingConfig":{"mode":"NONE"}}'
REFUSALS: Final = frozenset({"SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "SPII", "IMAGE_SAFETY"})


def address_request(request: Request, *, model: str) -> Request:
    return request


def limit_answer(request: Request, *, tokens: int) -> Request:
    own = split_object(request.fields.get(GENERATION, b"{}")) or {}
    if BOUND in own or "max_output_tokens" in own:
        return request
    bounded = join_object({**own, BOUND: str(tokens).encode()})
    return replace(request, fields={**request.fields, GENERATION: bounded})


def forbid_tools(request: Request) -> Request:
    if request.fields.get("tools", b"[]").strip() in (b"[]", b"null"):
        return request
    return replace(request, fields={**request.fields, "toolConfig": NO_TOOLS})


def mark_cache_end(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(items)


def read_delta(event: Fields) -> Delta | None:
    candidate = find_first_candidate(event)
    content = read_object(candidate.span("content")) if candidate is not None else None
    parts = [part for part in list_parts(content or {}) or [] if isinstance(part.get("text"), str) and part["text"]]
    if not parts:
        return None
    thoughts = is_thought(parts[0])
    return Delta(text="".join(part["text"] for part in parts if is_thought(part) is thoughts), is_thought=thoughts)


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    candidate = find_first_candidate(event)
    reason = candidate.text("finishReason") if candidate is not None else event.inner("promptFeedback").text("blockReason")
    return "refusal" if reason in REFUSALS else reason


def read_speech(item: Item) -> Speech:
    parts = list_parts(read_object(item.raw) or {}) or []
    texts = (part.get("text") for part in parts if not is_thought(part))
    return Speech(text="".join(text for text in texts if isinstance(text, str)))


def find_first_candidate(answer: Fields) -> Fields | None:
    """Return the candidate that counts: the one at index 0, or without an index."""
    candidates = (read_fields(candidate) for candidate in answer.elements("candidates") or [])
    return next((each for each in candidates if each is not None and not each.count("index")), None)
