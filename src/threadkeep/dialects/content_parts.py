"""What a reader would see in content of typed parts, as both of OpenAI's languages write it."""

from __future__ import annotations

from typing import Final

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
