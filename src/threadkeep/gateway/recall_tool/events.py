"""Server-sent events with their exact bytes, and events written anew."""

from __future__ import annotations

import json
import re
from typing import Any

from threadkeep.dialects.sse import MAX_EVENT_BYTES

LONGEST_END = 3
_end = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_data = re.compile(rb"^data:[ ]?(.*?)\r?$", re.MULTILINE)


class EventBlocks:
    """Yields each event as its bytes and its data, from chunks cut anywhere."""

    def __init__(self) -> None:
        self._rest = bytearray()
        # What was looked at before is not looked at again: a large event comes in many pieces.
        self._looked = 0

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Take the next bytes and return every event that ends in them; nothing is the end of the stream, and of every event.

        One that grows beyond all bounds is let go of.
        """
        if not chunk:
            return self._last()
        self._rest += chunk
        blocks: list[tuple[bytes, bytes]] = []
        start = 0
        for match in _end.finditer(self._rest, self._looked):
            raw = bytes(self._rest[start : match.end()])
            blocks.append((raw, b"\n".join(_data.findall(raw))))
            start = match.end()
        del self._rest[:start]
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest.clear()
        self._looked = max(0, len(self._rest) - LONGEST_END)
        return blocks

    def _last(self) -> list[tuple[bytes, bytes]]:
        raw, self._looked = bytes(self._rest), 0
        self._rest.clear()
        return [(raw, b"\n".join(_data.findall(raw)))] if raw.strip() else []


def event_of(data: bytes) -> dict[str, Any] | None:
    """Return an event's data as an object; None for anything else."""
    try:
        event = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return event if isinstance(event, dict) else None


def named_event(event: dict[str, Any]) -> bytes:
    """Return an event that names its own type, as bytes."""
    return b"event: " + str(event.get("type")).encode() + b"\n" + data_event(event)


def data_event(event: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(event, ensure_ascii=False).encode("utf-8", "replace") + b"\n\n"
