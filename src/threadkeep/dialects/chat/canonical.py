"""The one form that all spellings of a chat message share."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.raw_json import Json

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


def normalise_message(fields: Json) -> Json:
    """Return a message without what is spelled at will; one of a role nobody knows as it is."""
    role = fields.get("role")
    if not isinstance(role, str) or role not in ROLES:
        return fields
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
