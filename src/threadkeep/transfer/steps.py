"""What a foreign transcript comes down to: steps that `thread_builder` writes as records, one after another.

A reader takes one line at a time and returns steps; it opens nothing and writes nothing. The same lines give the same steps,
always: importing again is reading again and finding everything already there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from threadkeep.items import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """Where a rollout that was forked by reference begins: before line `end_ordinal` of another one."""

    rollout_id: str
    end_ordinal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A line, or what is left of one, that has no home in a thread; kept as it is."""

    body: bytes
    key: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The steps after this one belong to that thread.

    Attributes:
        agent: The sub-agent whose conversation it is.
        copied_from: The thread whose beginning this source repeats, right after `opening`.
        continued_from: The thread at whose end it begins.
        base: The rollout it begins in, where its own lines are not the whole story.
        opening: Notes that are the source's own, before anything it shares with another.
    """

    thread_id: str
    dialect: str
    agent: str = ""
    copied_from: str | None = None
    continued_from: str | None = None
    base: Base | None = None
    opening: tuple[Note, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PutItem:
    """An item of the history. `key` names it for later steps; `opens_turn` overrules whether a rollback counts it as a turn."""

    item: Item
    key: str | None = None
    at_ms: int | None = None
    opens_turn: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack:
    """The last `turns` turns no longer count."""

    turns: int
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoTo:
    """What follows comes after the step called `key`; None is the beginning."""

    key: str | None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Compacted:
    """A compaction elsewhere: `layout` stands in place of everything before it, or before the step called `cut`.

    A position is an item as the client wrote it, or the key of one that came before.
    """

    layout: tuple[Item | str, ...]
    issuer: str
    cut: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Summarised:
    """A compaction of the oldest form: `text` after the newest of what people said, which the line itself does not repeat."""

    text: str
    issuer: str
    at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Titled:
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Something that could not be taken as what it claims to be."""

    text: str


Step = Lane | PutItem | Note | TakeBack | GoTo | Compacted | Summarised | Titled | Trouble


class LineReader(Protocol):
    """Reads a transcript line by line. Hostile input: it never raises."""

    def feed(self, line: bytes) -> list[Step]:
        """Return the steps of the next line, given without its line end."""
        ...

    def finish(self) -> list[Step]:
        """Return what was held back until the end; more lines may still follow."""
        ...
