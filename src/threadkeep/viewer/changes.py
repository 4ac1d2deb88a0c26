"""What a compaction did to the ledger, group by group, with changed words marked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from threadkeep.compaction import LedgerEntry, Section, Speaker
from threadkeep.compaction.comparison import Change, Comparison, is_withdrawn

_words = re.compile(r"\s+|\w+|[^\w\s]")
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
    old, new = _words.findall(before), _words.findall(after)
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
