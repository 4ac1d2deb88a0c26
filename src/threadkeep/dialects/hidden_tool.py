"""What the hidden tools of all dialects share: how they join a request, and the events of a stream with their exact bytes."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from threadkeep.dialects.raw_json import encode_value, join_list, read_object, read_value, split_list
from threadkeep.dialects.sse import MAX_EVENT_BYTES
from threadkeep.dialects.values import Request, ToolDefinition
from threadkeep.items import Item

Json = dict[str, Any]

# Between the texts of two answers, where a dialect has one text for both.
SEPARATOR: Final = "\n\n"
# Answers of another shape cannot be blended: several at once, or one that is fetched later.
SHAPES: Final = {"n": 1, "background": False}

LONGEST_END: Final = 3
_end = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_data = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)


class HiddenToolForm(ABC):
    """How a hidden tool stands in a request; each dialect says what its definition looks like."""

    def __init__(self, tool: ToolDefinition) -> None:
        self._tool = tool

    @abstractmethod
    def _define(self) -> Json:
        """Return the tool as it stands among a request's tools."""

    def _find_name(self, tool: Json) -> object:
        """Return the name of one of the client's tools."""
        return tool.get("name")

    def can_join(self, request: Request) -> bool:
        if any(read_value(request.fields.get(name, b"null")) not in (None, usual) for name, usual in SHAPES.items()):
            return False
        tools = [read_object(tool) or {} for tool in split_list(request.fields.get("tools", b"[]")) or ()]
        return not any(self._find_name(tool) == self._tool.name for tool in tools)

    def add_to(self, request: Request) -> Request:
        tools = [*(split_list(request.fields.get("tools", b"[]")) or ()), encode_value(self._define())]
        return replace(request, fields={**request.fields, "tools": join_list(tools)})

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        return None

    def sealed_reasoning(self, item: Item) -> bytes | None:
        return None


def make_item(value: Mapping[str, object]) -> Item:
    return Item(json.dumps(value, ensure_ascii=False).encode())


def squeeze(text: str) -> str:
    """Return a text without its spaces: clients trim what they echo."""
    return "".join(text.split())


def sum_usage(usages: Sequence[object], *, written: str, read: str | None = None) -> object:
    """Return the usage of several answers: what the last one was shown, and what all of them wrote in the field `written`.

    `read` names the field that is added to it for `total_tokens`, where the API has that.
    """
    found = [usage for usage in usages if isinstance(usage, dict)]
    if not found:
        return None
    last = dict(found[-1])
    for usage in found[:-1]:
        last[written] = _add(last.get(written), usage.get(written))
    if read is not None and len(found) > 1 and "total_tokens" in last:
        last["total_tokens"] = _add(last.get(read), last.get(written))
    return last


def _add(first: object, second: object) -> int | None:
    counts = [each for each in (first, second) if isinstance(each, int) and not isinstance(each, bool)]
    return sum(counts) if counts else None


class EventSplitter:
    """Yields each event of a stream as its bytes and its data, from chunks cut anywhere."""

    def __init__(self) -> None:
        self._rest = bytearray()
        # Bytes that were searched are not searched again: a large event comes in many pieces.
        self._searched = 0

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Take the next bytes and return every event that ends in them. An empty chunk is the end of the stream.

        An event beyond `MAX_EVENT_BYTES` is dropped.
        """
        if not chunk:
            return self._flush()
        self._rest += chunk
        events: list[tuple[bytes, bytes]] = []
        start = 0
        for match in _end.finditer(self._rest, self._searched):
            raw = bytes(self._rest[start : match.end()])
            events.append((raw, b"\n".join(_data.findall(raw))))
            start = match.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest.clear()
        self._searched = max(0, len(self._rest) - LONGEST_END)
        return events

    def _flush(self) -> list[tuple[bytes, bytes]]:
        raw, self._searched = bytes(self._rest), 0
        self._rest.clear()
        return [(raw, b"\n".join(_data.findall(raw)))] if raw.strip() else []


def read_event(data: bytes) -> Json | None:
    """Return an event's data as an object; None for anything else."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def render_event(event: Json) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"


def render_typed_event(event: Json) -> bytes:
    """Return an event whose name is its type."""
    return b"event: " + str(event.get("type")).encode() + b"\n" + render_event(event)
