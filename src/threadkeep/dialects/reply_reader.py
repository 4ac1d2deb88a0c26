"""Reads a streamed answer while it passes by, in any dialect."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Final

from threadkeep.dialects.raw_json import Fields, read_fields
from threadkeep.dialects.sse import EventReader
from threadkeep.dialects.values import Reply

# Beyond this nothing of an answer is kept: no model writes so much, and half a message would be a false one.
MAX_REPLY_BYTES: Final = 64 * 1024 * 1024


class ReplyReader(ABC):
    """Reads chunks cut anywhere. Hostile input: it never raises, skips what it cannot read, and does work in proportion to it."""

    def __init__(self) -> None:
        self._events = EventReader()
        self._said = Reply()
        self._done = False
        self._kept_bytes = 0

    @property
    def reply(self) -> Reply:
        """What was answered so far; its outcome stays `cut` until the terminal event is complete."""
        return self._said

    def feed(self, chunk: bytes) -> bool:
        """Take the next bytes; true once the terminal event, its closing blank line included, is among all that was fed."""
        for data in self._events.feed(chunk):
            if self._done:
                break
            if (event := read_fields(data)) is not None:
                self._take(event, size=len(data))
            else:
                self._done = self._is_end(data)
        return self._done

    @abstractmethod
    def _take(self, event: Fields, *, size: int) -> None:
        """Take the next event, which is an object."""

    def _is_end(self, data: bytes) -> bool:
        """Whether an event that is no object ends the answer."""
        return False

    @abstractmethod
    def _forget(self) -> None:
        """Let go of everything that was kept."""

    def _has_room(self, size: int) -> bool:
        """Count what is kept; beyond the limit let go of all of it."""
        self._kept_bytes += size
        if self._kept_bytes > MAX_REPLY_BYTES:
            self._forget()
        return self._kept_bytes <= MAX_REPLY_BYTES


def count_tokens(said: Reply, *, read: int | None, written: int | None, cached: int | None) -> Reply:
    """Return `said` with these counts; what is None stays as it was."""
    return replace(
        said,
        input_tokens=said.input_tokens if read is None else read,
        output_tokens=said.output_tokens if written is None else written,
        cached_tokens=said.cached_tokens if cached is None else cached,
    )
