"""Steps: the common form of imported transcripts, which `thread_builder` writes as records.

A reader takes one line at a time and returns steps. It does no I/O, and the same lines always give the same steps, so that
importing again finds every record already there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from threadkeep.items import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """The base of a rollout that was forked by reference: another rollout, up to line `end_ordinal`."""

    rollout_id: str
    end_ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line, or the rest of one, that is not history; kept as it is."""

    body: bytes
    key: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The following steps belong to this thread.

    Attributes:
        agent: The sub-agent whose conversation it is.
        session: The client's name for the conversation, which it also sends to a provider.
        copied_from: The thread whose beginning this source repeats, right after `opening`.
        continued_from: The thread at whose end it begins.
        base: The rollout it begins in, if it was forked by reference.
        opening: The source's own notes, before anything it shares with another thread.
    """

    thread_id: str
    dialect: str
    agent: str = ""
    session: str = ""
    copied_from: str | None = None
    continued_from: str | None = None
    base: Base | None = None
    opening: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem:
    """An item of the history. `key` names it for later steps; `opens_turn` overrides whether rollbacks count it as a turn."""

    item: Item
    key: str | None = None
    at_ms: int | None = None
    opens_turn: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """A rollback of the last `turns` turns."""

    turns: int
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoTo:
    """The following steps come after the step named `key`; None is the beginning."""

    key: str | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A compaction by the client: `layout` replaces everything before it, or before the step named `cut`.

    A position is an item as the client wrote it, or the key of an earlier one. With `after_said`, people's newest messages stand
    before the layout.
    """

    layout: tuple[Item | str, ...]
    issuer: str
    cut: str | None = None
    after_said: bool = False
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled:
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """A problem with a line of the source."""

    text: str


Step = Lane | PutItem | Note | TakeBack | GoTo | Compacted | Titled | Trouble


class LineReader(Protocol):
    """Reads a transcript line by line. Hostile input: it never raises."""

    def feed(self, line: bytes) -> list[Step]:
        """Return the steps of the next line, given without its line end."""
        ...

    def finish(self) -> list[Step]:
        """Return steps that were held back; more lines may still follow."""
        ...
