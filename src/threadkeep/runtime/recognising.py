"""What of a history that a host shows is known: compared with a window as the host was given it. Pure.

A host that took over a compacted window shows it again, the session state included, with what happened since behind it. It may
have joined neighbours of one role, as `Dialect.arrange` does for servers that insist on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.thread import History, KeepEntry, LayoutEntry, WindowEntry
from threadkeep.thread.closing import closed


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A window as it is shown: its items, and which entry each is; None where it only says that a call was aborted."""

    history: History
    items: tuple[Item, ...]
    entries: tuple[WindowEntry | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """How much of the beginning is the same: the first `known` items of a window are the first `shown` of what a host shows."""

    known: int
    shown: int


def shown_window(history: History, *, dialect: Dialect) -> Shown:
    """Return a window as a host gets it, before neighbours are joined."""
    items = tuple(closed(history.items, dialect=dialect, under_way=True))
    by_item: Mapping[int, WindowEntry] = {id(entry.item): entry for entry in history.entries}
    return Shown(history=history, items=items, entries=tuple(by_item.get(id(item)) for item in items))


def overlap(window: Sequence[Item], shown: Sequence[Item], *, dialect: Dialect) -> Overlap:
    """Return how much of its beginning what a host shows has in common with a window, however either spells it."""
    known = at = 0
    while known < len(window) and at < len(shown):
        step = _same(window, known, dialect.canonical(shown[at]), dialect=dialect)
        if step == 0:
            break
        known, at = known + step, at + 1
    return Overlap(known=known, shown=at)


def _same(window: Sequence[Item], start: int, canonical: bytes, *, dialect: Dialect) -> int:
    """Return how many items of the window, joined into one, are the item of that form; 0 if no number is."""
    if dialect.canonical(window[start]) == canonical:
        return 1
    for stop in range(start + 2, len(window) + 1):
        joined = dialect.arrange(window[start:stop])
        if len(joined) > 1:
            return 0
        if dialect.canonical(joined[0]) == canonical:
            return stop - start
    return 0


def layout_entries(shown: Shown, known: int) -> list[LayoutEntry]:
    """Return what a checkpoint needs to lay out the first `known` positions of a window again."""
    placed = shown.history.checkpoint.layout if shown.history.checkpoint else []
    index = {id(entry): at for at, entry in enumerate(shown.history.entries)}
    return [_entry(entry, placed, at=index[id(entry)]) for entry in shown.entries[:known] if entry is not None]


def _entry(entry: WindowEntry, placed: Sequence[LayoutEntry], *, at: int) -> LayoutEntry:
    if not entry.after_cut:
        return placed[at]
    if entry.source is None:
        raise AssertionError("what no checkpoint placed has a record")
    return KeepEntry(thread=entry.source.thread_id, ordinal=entry.source.ordinal, depth=entry.depth)
