"""What a compaction changed: the ledger entry by entry, and the window position by position."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from threadkeep.compaction import LedgerEntry, Section, Speaker
from threadkeep.compaction.report import Change, Comparison, is_withdrawn
from threadkeep.compaction.state_text import HEADINGS as STATE_HEADINGS
from threadkeep.dialects import Dialect
from threadkeep.threads import EntryKind, History, Pointer, WindowEntry
from threadkeep.viewer.number_format import format_count
from threadkeep.viewer.record_lines import Line, describe_item

HEADINGS = {section: heading.rstrip(":").capitalize() for section, heading in STATE_HEADINGS.items()}
_word = re.compile(r"\s+|\w+|[^\w\s]")
# Longer texts are shown whole, one under the other: marking words costs the square of their number.
MOST_WORDS = 800
COMPUTED = (Speaker.COMPUTED, Speaker.AGENT)
# How to count the items that left, by the first word of who spoke.
NOUNS = {
    "call": ("call", "calls"),
    "output": ("output", "outputs"),
    "person": ("message of a person", "messages of people"),
    "assistant": ("answer", "answers"),
    "reasoning": ("piece of reasoning", "pieces of reasoning"),
    "system": ("message of the host", "messages of the host"),
    "user": ("message of the host", "messages of the host"),
}
OTHER = ("other", "others")
# Rows of one page of the window comparison.
PAGE = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Words of a changed text; `kind` is `same`, `out` or `in`."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedEntry:
    """An entry in a group; `before` is its text before, where that was another, and `remarks` are its other changes in words."""

    entry: LedgerEntry
    before: str | None = None
    remarks: tuple[str, ...] = ()

    @property
    def is_computed(self) -> bool:
        """Whether no person or model wrote it; such entries come and go by the dozen and are folded away."""
        return self.entry.speaker in COMPUTED

    @property
    def pieces(self) -> list[Piece]:
        """The text with the changed words marked; empty where it is the same."""
        return [] if self.before is None else mark_words(self.before, self.entry.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Entries that changed in the same way; `sign` is the sign a diff would show."""

    name: str
    title: str
    aside: str
    sign: str
    entries: tuple[ChangedEntry, ...]


def group_changes(changes: Comparison) -> list[Group]:
    """Return the groups that have entries: what left first, then what is new; people's words before computed lines."""
    withdrawn = [ChangedEntry(entry=entry) for entry in changes.retired if is_withdrawn(entry)]
    replaced = [ChangedEntry(entry=entry) for entry in changes.retired if not is_withdrawn(entry)]
    added, gone = ([ChangedEntry(entry=entry) for entry in entries] for entries in (changes.added, changes.gone))
    groups = (
        ("withdrawn", "Withdrawn", "nothing replaces them", "−", withdrawn),
        ("superseded", "Replaced", "by later words; the later ones count", "−", replaced),
        ("updated", "Changed", "still there, worded or marked differently", "±", map(_compare_entry, changes.changed)),
        ("added", "Added", "new in the state", "+", added),
        ("anew", "No longer listed", "computed or drafted anew each time", "−", gone),
    )
    sections = list(Section)
    found = [
        Group(
            name=name,
            title=title,
            aside=aside,
            sign=sign,
            entries=tuple(sorted(entries, key=lambda each: (each.is_computed, sections.index(each.entry.section)))),
        )
        for name, title, aside, sign, entries in groups
    ]
    return [group for group in found if group.entries]


def _compare_entry(change: Change) -> ChangedEntry:
    before, after = change.before, change.after
    remarks: list[str] = []
    repeated = [f"#{source.ordinal}" for source in after.sources if source not in before.sources]
    if before.text == after.text and repeated:
        remarks.append(f"said again at {' '.join(repeated)}")
    if before.section is not after.section:
        remarks.append(f"was under {HEADINGS[before.section]}")
    if before.pinned != after.pinned:
        remarks.append("no longer pinned" if before.pinned else "pinned since")
    if before.claim is not None and before.claim != after.claim:
        remarks.append(f"no longer replaced by #{before.claim.source.ordinal}")
    return ChangedEntry(entry=after, before=before.text if before.text != after.text else None, remarks=tuple(remarks))


def mark_words(before: str, after: str) -> list[Piece]:
    """Return two texts as one, with removed and added words marked."""
    old, new = _word.findall(before), _word.findall(after)
    if max(len(old), len(new)) > MOST_WORDS:
        return [Piece(kind="out", text=before), Piece(kind="in", text=after)]
    pieces: list[Piece] = []
    for tag, first, last, start, stop in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if tag == "equal":
            pieces.append(Piece(kind="same", text="".join(old[first:last])))
            continue
        for kind, words in (("out", old[first:last]), ("in", new[start:stop])):
            pieces += [Piece(kind=kind, text="".join(words))] if words else []
    return pieces


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """One entry of a window."""

    line: Line
    kind: str
    tokens: int
    source: Pointer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A position before and after; `fate` is `kept`, `shortened`, `rewritten` (the state), `left` or `new`."""

    before: Position | None
    after: Position | None
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowDiff:
    """A page of rows, how many there are in all, and what left the window: `left` counts the items by kind, in words."""

    rows: tuple[Row, ...]
    total: int
    start: int
    left: tuple[str, ...]
    left_items: int
    left_tokens: int
    shortened: int


def list_positions(history: History, dialect: Dialect) -> list[Position]:
    """Return a window, position by position."""
    return [_describe_entry(entry, dialect) for entry in history.entries]


def compare_windows(before: History, after: History, dialect: Dialect, *, start: int, fate: str) -> WindowDiff:
    """Return a page of the comparison from row `start` on; `fate`, unless empty, chooses the rows."""
    pairs = _pair_entries(before.entries, after.entries)
    left = [old for old, new, outcome in pairs if outcome == "left" and old is not None]
    chosen = [pair for pair in pairs if fate in ("", pair[2])]
    rows = [
        Row(
            before=_describe_entry(old, dialect) if old is not None else None,
            after=_describe_entry(new, dialect) if new is not None else None,
            fate=outcome,
        )
        for old, new, outcome in chosen[start : start + PAGE]
    ]
    nouns = Counter(NOUNS.get(_describe_entry(entry, dialect).line.who.split(" ")[0], OTHER) for entry in left)
    return WindowDiff(
        rows=tuple(rows),
        total=len(chosen),
        start=start,
        left=tuple(format_count(many, *noun) for noun, many in nouns.most_common()),
        left_items=len(left),
        left_tokens=sum(entry.tokens for entry in left),
        shortened=sum(outcome == "shortened" for _, _, outcome in pairs),
    )


Pair = tuple[WindowEntry | None, WindowEntry | None, str]


def _pair_entries(before: Sequence[WindowEntry], after: Sequence[WindowEntry]) -> list[Pair]:
    """Pair positions of the same record in the order of the window before; new positions keep their place in the one after."""
    remaining = {_identify(entry): at for at, entry in enumerate(after) if _identify(entry) is not None}
    pairs: list[Pair] = []
    shown = 0
    for old in before:
        at = remaining.pop(_identify(old), None)
        if at is None:
            pairs.append((old, None, "left"))
            continue
        pairs.extend((None, new, "new") for new in after[shown:at] if _identify(new) is None)
        shown = max(shown, at + 1)
        pairs.append((old, after[at], _find_fate(old, after[at])))
    late = set(remaining.values())
    pairs.extend((None, new, "new") for at, new in enumerate(after) if at in late or (at >= shown and _identify(new) is None))
    return pairs


def _identify(entry: WindowEntry) -> object:
    """Return what makes two positions the same: their record, or being the state, which a window holds once."""
    return EntryKind.STATE if entry.kind is EntryKind.STATE else entry.source


def _find_fate(old: WindowEntry, new: WindowEntry) -> str:
    if old.kind is EntryKind.STATE:
        return "rewritten"
    return "kept" if new.kind is old.kind else "shortened"


def _describe_entry(entry: WindowEntry, dialect: Dialect) -> Position:
    line = describe_item(dialect.view(entry.item), raw=entry.item.raw)
    if entry.kind is EntryKind.START:
        line = Line(who="session start hook", text=line.text, tone=line.tone)
    if entry.kind is EntryKind.STATE:
        line = Line(who="session state", text=line.text, tone="checkpoint")
    return Position(line=line, kind=entry.kind.value, tokens=entry.tokens, source=entry.source)
