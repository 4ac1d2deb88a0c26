"""What a model said, among everything it produced."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from threadkeep.dialects.raw_json import read_object
from threadkeep.items import Item

# Servers that do not take a model's thoughts apart leave them at the beginning of what it says.
_THOUGHTS: Final = re.compile(r"\s*<think>.*?(?:</think>\s*|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speech:
    """Words, and whether some of them are a refusal."""

    text: str
    refused: bool


def speech_in(items: Iterable[Item], *, dialect: str) -> Speech:
    """Return what the model said in `items`, its reasoning and its calls left out."""
    spoken = [_spoken(read_object(item.raw) or {}, dialect=dialect) for item in items]
    said = [one for one in spoken if one.text]
    return Speech(text="\n".join(one.text for one in said), refused=any(one.refused for one in said))


def _spoken(fields: dict[str, Any], *, dialect: str) -> Speech:
    """Return what one item says. A Responses item that is no message says nothing."""
    if dialect == "responses" and fields.get("type", "message") != "message":
        return Speech(text="", refused=False)
    content = fields.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    words = "".join(_text(part) for part in parts)
    refusals = [part.get("refusal") for part in (*parts, fields) if isinstance(part, dict)]
    refusal = "".join(text for text in refusals if isinstance(text, str))
    without_thoughts = _THOUGHTS.sub("", words, count=1) if _THOUGHTS.match(words) else words
    return Speech(text=without_thoughts + refusal, refused=bool(refusal))


def _text(part: object) -> str:
    text = part.get("text") if isinstance(part, dict) and part.get("type") in ("text", "output_text") else None
    return text if isinstance(text, str) else ""
