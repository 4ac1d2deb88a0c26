"""Pointers: how a record is named wherever people and models see it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadkeep.errors import InvalidPointer, InvalidThreadId

_THREAD_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
_thread_id = re.compile(_THREAD_ID)
_pointer = re.compile(rf"({_THREAD_ID})?#(\d{{1,15}})")


@dataclass(frozen=True, slots=True, order=True)
class Pointer:
    """A record of a thread, written `THREAD#ORDINAL`."""

    thread_id: str
    ordinal: int

    def __str__(self) -> str:
        return f"{self.thread_id}#{self.ordinal}"


def checked_thread_id(text: str) -> str:
    """Return `text` if it can name a thread.

    Raises:
        InvalidThreadId: It cannot: pointers and command lines must be able to hold it.
    """
    if not _thread_id.fullmatch(text):
        raise InvalidThreadId(text)
    return text


def parse_pointer(text: str, *, within: str | None = None) -> Pointer:
    """Return the pointer `text` writes; `#12` alone is a record of the thread `within`.

    Raises:
        InvalidPointer: It is not one.
    """
    match = _pointer.fullmatch(text.strip())
    thread_id = (match[1] or within) if match else None
    if match is None or thread_id is None:
        raise InvalidPointer(text)
    return Pointer(thread_id, int(match[2]))
