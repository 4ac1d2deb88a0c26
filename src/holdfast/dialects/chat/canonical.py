"""The one form that all spellings of a chat message share."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.dialects.chat.spans import Json, exact_object
from holdfast.items import Item

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# What servers and clients add to a message that is not part of it. Ids of calls stand deeper and are never dropped.
BESIDE: Final = frozenset({"id", "status", "cache_control"})
# SDKs write out what a message does not have; other clients leave it out.
NULL_IS_ABSENT: Final = frozenset(
    {
        "annotations",
        "audio",
        "content",
        "function_call",
        "name",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_calls",
    }
)
EMPTY_IS_ABSENT: Final = frozenset({"annotations", "tool_calls"})

# Numbers stay numbers: 1.5 is not the text "1.5".
_encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")


def canonical(item: Item) -> bytes:
    """Return the canonical form; the bytes themselves where they are no message anyone knows how to respell."""
    fields = exact_object(item.raw)
    if fields is None:
        return item.raw
    known = isinstance(role := fields.get("role"), str) and role in ROLES
    return _encoder.encode(_kept(fields) if known else fields)


def _kept(fields: Json) -> Json:
    kept = {name: value for name, value in fields.items() if name not in BESIDE and not _absent(name, value)}
    content = kept.get("content")
    if isinstance(content, str):
        kept["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        kept["content"] = [_part(part) for part in content]
    return kept


def _absent(name: str, value: object) -> bool:
    return (value is None and name in NULL_IS_ABSENT) or (value == [] and name in EMPTY_IS_ABSENT)


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name != "cache_control"}
