"""What a compaction changed: the ledger entry by entry, the window position by position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from threadkeep.compaction import LedgerEntry, Section, Speaker
from threadkeep.compaction.comparison import Change, Comparison, is_withdrawn
from threadkeep.dialects import Dialect
from threadkeep.threads import EntryKind, History, Pointer, WindowEntry
from threadkeep.viewer.record_lines import Told, told_item
from threadkeep.viewer.renderer import counted

_word = re.compile(r"\s+|\w+|[^\w\s]")
# Longer texts are shown one under the other: marking words in a page of prose helps nobody, and costs its square.
MOST_WORDS = 800
COMPUTED = (Speaker.COMPUTED, Speaker.AGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Words of a changed text: `same`, `out` or `in`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """An entry as a group shows it; `was` is the entry it was before, `pieces` its words with what changed marked."""

    entry: LedgerEntry
    was: LedgerEntry | None = None
    pieces: tuple[Piece, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def computed(self) -> bool:
        """Whether nobody said it: such come and go by the dozen, and would bury what people said."""
        return self.entry.speaker in COMPUTED


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries with one fate; `sign` is what stands before each, as in a diff."""

    name: str
    title: str
    aside: str
    sign: str
    entries: tuple[Shown, ...]


def groups_of(changes: Comparison) -> list[Group]:
    """Return every group that has entries: first what left, then what came, as people ask."""
    withdrawn = [entry for entry in changes.retired if is_withdrawn(entry)]
    superseded = [entry for entry in changes.retired if not is_withdrawn(entry)]
    made = [
        _group("withdrawn", "Withdrawn", "nothing took their place", "−", withdrawn),
        _group("superseded", "Superseded", "a later word of a person replaced them", "−", superseded),
        Group(
            name="updated",
            title="Updated",
            aside="still there, told otherwise",
            sign="±",
            entries=tuple(_changed(change) for change in sorted(changes.changed, key=lambda each: _place(each.after))),
        ),
        _group("added", "Added", "new in the state", "+", changes.added),
        _group("anew", "No longer listed", "computed or drafted anew each time", "−", changes.gone),
    ]
    return [group for group in made if group.entries]


def _group(name: str, title: str, aside: str, sign: str, entries: Iterable[LedgerEntry]) -> Group:
    shown = tuple(Shown(entry=entry) for entry in sorted(entries, key=_place))
    return Group(name=name, title=title, aside=aside, sign=sign, entries=shown)


def _place(entry: LedgerEntry) -> tuple[bool, int]:
    return entry.speaker in COMPUTED, list(Section).index(entry.section)


def _changed(change: Change) -> Shown:
    before, after = change.before, change.after
    remarks: list[str] = []
    again = [f"#{source.ordinal}" for source in after.sources if source not in before.sources]
    if before.text == after.text and again:
        remarks.append(f"told again at {' '.join(again)}")
    if before.section is not after.section:
        remarks.append(f"was under {before.section.value}")
    if before.pinned != after.pinned:
        remarks.append("no longer pinned" if before.pinned else "pinned since")
    if before.claim is not None and before.claim != after.claim:
        remarks.append(f"no longer beside #{before.claim.source.ordinal}")
    pieces = tuple(marked(before.text, after.text)) if before.text != after.text else ()
    return Shown(entry=after, was=before, pieces=pieces, remarks=tuple(remarks))


def marked(before: str, after: str) -> list[Piece]:
    """Return two texts as one, with what left and what came marked word by word."""
    old, new = _word.findall(before), _word.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [Piece(kind="out", text=before), Piece(kind="in", text=after)]
    pieces: list[Piece] = []
    for tag, first, last, start, stop in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece(kind="same", text="".join(old[first:last])))
            continue
        pieces.extend(_pieces("out", old[first:last]))
        pieces.extend(_pieces("in", new[start:stop]))
    return pieces


def _pieces(kind: str, words: Sequence[str]) -> list[Piece]:
    return [Piece(kind=kind, text="".join(words))] if words else []


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
