"""One streamed answer for a client out of one or several of the provider's, without the calls of a hidden tool."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from threadkeep.dialects.sse import EventReader

Json = dict[str, Any]

# Between the texts of two answers, where a dialect has one text for both.
SEPARATOR: Final = "\n\n"


class AnswerFilter(ABC):
    """Takes the provider's answers one after the other. Hostile input: it never raises.

    The events that end an answer are held back, until it is known whether the provider answers once more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._events = EventReader()
        self._round = 1
        # The first answer's id, which the client knows all of them by.
        self._id: object = None
        self._held: list[tuple[bytes, Json]] = []
        self._usages: list[object] = []
        # The place of each call or block among those that the client sees; None for one of ours.
        self._places: dict[int, int | None] = {}
        self._next_place = 0
        self._has_hidden = False

    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes of the provider's answer, none at its end; return what the client gets of them."""
        if not chunk:
            (raw, data), self._events = self._events.end(), EventReader()
            if raw.strip():
                return self._take(raw, read_event(data))
            if self._held:
                # Half a line end: the bytes were cut within the blank line behind the last event.
                last, event = self._held[-1]
                self._held[-1] = last + raw, event
            return b""
        return b"".join(self._take(raw, read_event(data)) for raw, data in self._events.split(chunk))

    def start_next(self) -> None:
        """Drop the events held back: the provider answers once more."""
        self._usages.extend(self._find_usage(event) for _, event in self._held)
        self._held, self._places = [], {}
        self._round += 1

    def end(self) -> bytes:
        """Return the end of the answer, as the client is to see it."""
        return b"".join(self._close(raw, event) for raw, event in self._held)

    @abstractmethod
    def _take(self, raw: bytes, event: Json | None) -> bytes:
        """Return what the client gets of an event, which is None where its data is no object."""

    @abstractmethod
    def _close(self, raw: bytes, event: Json) -> bytes:
        """Return one of the events that were held back, as the client is to see it."""

    def _find_usage(self, event: Json) -> object:
        return event.get("usage")

    def _hold(self, raw: bytes, event: Json) -> bytes:
        self._held.append((raw, event))
        return b""

    def _place(self, index: int, *, is_ours: bool) -> int | None:
        """Return where the client sees the call or block at `index`; `is_ours` counts when it is first seen."""
        if index not in self._places:
            self._has_hidden = self._has_hidden or is_ours
            self._places[index] = None if is_ours else self._next_place
            self._next_place += 0 if is_ours else 1
        return self._places[index]


def sum_usage(
    usages: Sequence[object], *, written: Sequence[str], read: str | None = None, total: str = "total_tokens"
) -> object:
    """Return the usage of several answers: what the last one was shown, and what all of them wrote in the fields `written`.

    `read` names the field that is added to them for `total`, where the API has that.
    """
    found = [usage for usage in usages if isinstance(usage, dict)]
    if len(found) < 2:
        return found[0] if found else None
    last = dict(found[-1])
    for name in written:
        if counts := [count for usage in found if _is_count(count := usage.get(name))]:
            last[name] = sum(counts)
    if read is not None and total in last:
        last[total] = sum(count for name in (read, *written) if _is_count(count := last.get(name)))
    return last


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


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
