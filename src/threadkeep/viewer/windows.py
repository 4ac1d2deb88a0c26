"""Two windows side by side: every position before a compaction beside what became of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.dialects import Dialect
from threadkeep.threads import EntryKind, History, Pointer, WindowEntry
from threadkeep.viewer.figures import counted
from threadkeep.viewer.wording import Told, told_item

# What left, as people count it, one and many, by the first word of who said it.
SORTS = {
    "call": ("call", "calls"),
    "output": ("output", "outputs"),
    "person": ("message of a person", "messages of people"),
    "assistant": ("answer", "answers"),
    "reasoning": ("piece of reasoning", "pieces of reasoning"),
    "system": ("message of the host", "messages of the host"),
    "user": ("message of the host", "messages of the host"),
}
OTHERS = ("other", "others")
# Rows of one page of the comparison.
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One entry of a window."""

    told: Told
    kind: str
    tokens: int
    source: Pointer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A position before, and after; `fate` is `kept`, `shortened`, `rewritten` (the state), `left` or `new`."""

    before: Position | None
    after: Position | None
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SideBySide:
    """A page of rows, how many there are in all, and how many items of each sort left the window."""

    rows: tuple[Row, ...]
    total: int
    start: int
    left: tuple[str, ...]
    left_items: int
    left_tokens: int
    shortened: int


def positions(history: History, dialect: Dialect) -> list[Position]:
    """Return a window, position by position."""
    return [_position(entry, dialect) for entry in history.entries]


def side_by_side(before: History, after: History, dialect: Dialect, *, start: int, only: str) -> SideBySide:
    """Return a page of the comparison from row `start` on; `only` shows rows of one fate."""
    pairs = _paired(before.entries, after.entries)
    left = [old for old, new, fate in pairs if fate == "left" and old is not None]
    chosen = [pair for pair in pairs if only in ("", pair[2])]
    rows = [
        Row(
            before=_position(old, dialect) if old is not None else None,
            after=_position(new, dialect) if new is not None else None,
            fate=fate,
        )
        for old, new, fate in chosen[start : start + PAGE]
    ]
    sorts = Counter(_sort(_position(entry, dialect).told.who) for entry in left)
    return SideBySide(
        rows=tuple(rows),
        total=len(chosen),
        start=start,
        left=tuple(counted(many, *sort) for sort, many in sorts.most_common()),
        left_items=len(left),
        left_tokens=sum(entry.tokens for entry in left),
        shortened=sum(fate == "shortened" for _, _, fate in pairs),
    )


def _sort(who: str) -> tuple[str, str]:
    return SORTS.get(who.split(" ")[0], OTHERS)


Pair = tuple[WindowEntry | None, WindowEntry | None, str]


def _paired(before: Sequence[WindowEntry], after: Sequence[WindowEntry]) -> list[Pair]:
    """Pair positions that come from one record, in the order of the window before; what is new stands where it stands after."""
    remaining = {_origin(entry): at for at, entry in enumerate(after) if _origin(entry) is not None}
    pairs: list[Pair] = []
    shown = 0
    for old in before:
        at = remaining.pop(_origin(old), None)
        if at is None:
            pairs.append((old, None, "left"))
            continue
        pairs.extend((None, new, "new") for new in after[shown:at] if _origin(new) is None)
        shown = max(shown, at + 1)
        pairs.append((old, after[at], _fate(old, after[at])))
    late = set(remaining.values())
    pairs.extend((None, new, "new") for at, new in enumerate(after) if at in late or (at >= shown and _origin(new) is None))
    return pairs


def _origin(entry: WindowEntry) -> object:
    """What makes two positions the same: their record, or being the state, of which a window holds one."""
    return EntryKind.STATE if entry.kind is EntryKind.STATE else entry.source


def _fate(old: WindowEntry, new: WindowEntry) -> str:
    if old.kind is EntryKind.STATE:
        return "rewritten"
    return "kept" if new.kind is old.kind else "shortened"


def _position(entry: WindowEntry, dialect: Dialect) -> Position:
    told = told_item(dialect.view(entry.item), raw=entry.item.raw)
    if entry.kind is EntryKind.START:
        told = Told(who="session start hook", text=told.text, tone=told.tone)
    if entry.kind is EntryKind.STATE:
        told = Told(who="session state", text=told.text, tone="checkpoint")
    return Position(told=told, kind=entry.kind.value, tokens=entry.tokens, source=entry.source)
