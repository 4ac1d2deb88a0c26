"""What a reader would see in content of typed parts, as both of OpenAI's languages write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from threadkeep.dialects.values import Speech

# Servers that do not take a model's thoughts apart leave them at the beginning of what it says.
_THOUGHTS: Final = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)

THOUGHT_PARTS: Final = frozenset({"thinking", "redacted_thinking", "reasoning"})


def read_texts(content: object) -> tuple[str, ...]:
    """Return the text of each part that has any, thoughts left out."""
    if isinstance(content, str):
        return (content,)
    if not isinstance(content, list):
        return ()
    parts = (part.get("text", part.get("refusal")) for part in content if isinstance(part, dict) and not is_thought(part))
    return tuple(text for text in parts if isinstance(text, str))


def count_images(content: object) -> int:
    """Return how many parts are images."""
    if not isinstance(content, list):
        return 0
    return sum(1 for part in content if isinstance(part, dict) and "image" in str(part.get("type")))


def read_speech_parts(message: Mapping[str, Any]) -> Speech:
    """Return what a message of typed parts says; a refusal may stand in a part or beside them."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words = "".join(map(_spoken_text, parts))
    refusals = [part.get("refusal") for part in (*parts, message) if isinstance(part, Mapping)]
    refusal = "".join(text for text in refusals if isinstance(text, str))
    spoken = _THOUGHTS.sub("", words, count=1) if _THOUGHTS.match(words) else words
    return Speech(text=spoken + refusal, is_refusal=bool(refusal))


def find_part_types(content: object) -> frozenset[str]:
    """Return the types that the parts of a message's content name."""
    kinds = (part.get("type") for part in content if isinstance(part, dict)) if isinstance(content, list) else ()
    return frozenset(kind for kind in kinds if isinstance(kind, str))


def is_thought(part: object) -> bool:
    return isinstance(part, dict) and isinstance(kind := part.get("type"), str) and kind in THOUGHT_PARTS


def has_attachments(content: object) -> bool:
    """Whether content holds more than text and thoughts."""
    if not isinstance(content, list):
        return False
    return len(content) > len(read_texts(content)) + sum(1 for part in content if is_thought(part))


def _spoken_text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "output_text") else None
    return text if isinstance(text, str) else ""
