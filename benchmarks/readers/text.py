"""Render provider JSON as the text a reader model is shown.

The benchmark has its own renderer so that two versions of threadkeep are compared on exactly the same text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = Mapping[str, Any]

IMAGE = "[image]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of an item. `speaker` is `user`, `assistant`, `call`, `output` or another role of the dialect."""

    speaker: str
    text: str
    opens: str | None = None
    closes: str | None = None

    @property
    def by_agent(self) -> bool:
        return self.speaker in ("assistant", "call")


def render_items(items: Iterable[Json]) -> str:
    """Return the items as one text with a header above each part."""
    return "\n\n".join(filter(None, map(render_item, items)))


def render_item(item: Json) -> str:
    """Return one item as text; empty where a model would see nothing readable."""
    return "\n\n".join(f"[{_header(part)}]\n{part.text}" for part in read_parts(item) if part.text)


def read_parts(item: Json) -> list[Part]:
    """Return the readable parts of an item of any of the three dialects. Reasoning is left out."""
    kind = item.get("type")
    if kind in ("function_call", "custom_tool_call", "local_shell_call"):
        return [_call(item.get("name") or str(kind), item.get("arguments") or item.get("input") or item.get("action"), item)]
    if kind in ("function_call_output", "custom_tool_call_output", "local_shell_call_output"):
        return [Part(speaker="output", text=_text(item.get("output")), closes=item.get("call_id"))]
    if "role" not in item:
        return []
    role = str(item["role"])
    if role == "tool":
        return [Part(speaker="output", text=_text(item.get("content")), closes=item.get("tool_call_id"))]
    parts = _content(role, item.get("content"))
    for call in item.get("tool_calls") or ():
        function = call.get("function") or {}
        parts.append(_call(str(function.get("name")), function.get("arguments"), call))
    return parts


def find_boundaries(items: Sequence[Json]) -> list[int]:
    """Return the positions between items at which no tool call is open, the end included."""
    waiting: set[str] = set()
    found = []
    for at, item in enumerate(items, start=1):
        for part in read_parts(item):
            if part.opens:
                waiting.add(part.opens)
            if part.closes:
                waiting.discard(part.closes)
        if not waiting:
            found.append(at)
    return found


def _header(part: Part) -> str:
    return {"call": "tool call", "output": "tool output"}.get(part.speaker, part.speaker)


def _call(name: str, arguments: object, item: Json) -> Part:
    told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return Part(speaker="call", text=f"{name} {told}", opens=item.get("call_id") or item.get("id"))


def _content(role: str, content: object) -> list[Part]:
    if isinstance(content, str):
        return [Part(speaker=role, text=content)]
    parts: list[Part] = []
    for block in content if isinstance(content, list) else ():
        match block.get("type"):
            case "tool_use":
                parts.append(_call(str(block.get("name")), block.get("input"), block))
            case "tool_result":
                parts.append(Part(speaker="output", text=_text(block.get("content")), closes=block.get("tool_use_id")))
            case "thinking" | "redacted_thinking":
                continue
            case _:
                parts.append(Part(speaker=role, text=_text([block])))
    return parts


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return _text(content.get("content") or content.get("text") or "")
    texts = []
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping) and "text" in block:
            texts.append(str(block["text"]))
        elif isinstance(block, Mapping) and "image" in str(block.get("type")):
            texts.append(IMAGE)
    return "\n".join(texts)
