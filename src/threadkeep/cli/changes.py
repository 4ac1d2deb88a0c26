"""What changed in the session state, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from threadkeep.cli.figures import count
from threadkeep.cli.state import HEADINGS, SOURCES_SHOWN, words_of
from threadkeep.compaction import LedgerEntry, Section, Speaker
from threadkeep.compaction.comparison import Change, Comparison, is_withdrawn
from threadkeep.threads import Pointer

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

    Row = tuple[Part, list[Part]]

# Of a section: lines that code made or took from answers come and go by the dozen, and would bury what people said.
COMPUTED_SHOWN = 6
COMPUTED = (Speaker.COMPUTED, Speaker.AGENT)


def changes_json(changes: Comparison) -> dict[str, object]:
    """Return a comparison as the command line's contract has it; entries are those of `show --state`, with their section."""
    return {
        "added": [_entry_json(entry) for entry in changes.added],
        "changed": [{**_entry_json(change.after), "was": _entry_json(change.before)} for change in changes.changed],
        "retired": [_entry_json(entry) for entry in changes.retired],
        "gone": [_entry_json(entry) for entry in changes.gone],
        "unchanged": changes.unchanged,
    }


def _entry_json(entry: LedgerEntry) -> dict[str, object]:
    shown: dict[str, object] = {
        "id": entry.id,
        "text": entry.text,
        "sources": [str(source) for source in entry.sources],
        "pinned": entry.pinned,
        "speaker": entry.speaker,
        "section": entry.section,
    }
    if entry.claim is not None:
        shown["claim"] = {"text": entry.claim.text, "source": str(entry.claim.source)}
    return shown


def tell_changes(screen: Screen, changes: Comparison) -> None:
    """Print every group that has entries: what binds before what was computed, each entry with the records behind it."""
    withdrawn = [entry for entry in changes.retired if is_withdrawn(entry)]
    replaced = [entry for entry in changes.retired if not is_withdrawn(entry)]
    _tell_group(screen, "Added", changes.added)
    _tell_changed(screen, changes.changed)
    _tell_group(screen, "Replaced", replaced, "by a later word; the new one decides")
    _tell_group(screen, "Withdrawn", withdrawn, "nothing took their place")
    _tell_group(screen, "No longer listed", changes.gone, "computed or drafted anew each time")
    screen.heading("Unchanged", count(changes.unchanged, "entry", "entries"))


def _tell_group(screen: Screen, title: str, entries: Sequence[LedgerEntry], aside: str = "") -> None:
    if not entries:
        return
    screen.heading(title, f"{len(entries):,}{f', {aside}' if aside else ''}")
    shown, hidden = _in_view(entries)
    screen.entries([row for entry in shown for row in (_row(entry), *_claim_rows(entry))])
    if hidden:
        screen.line((f"and {hidden:,} more that were computed; --json lists them all", "dim"), indent=2)


def _tell_changed(screen: Screen, changed: Sequence[Change]) -> None:
    if not changed:
        return
    screen.heading("Changed", f"{len(changed):,}")
    ordered = sorted(changed, key=lambda change: _place(change.after))
    screen.entries([row for change in ordered for row in (_row(change.after), *_was_rows(change))])


def _in_view(entries: Iterable[LedgerEntry]) -> tuple[list[LedgerEntry], int]:
    """Return the entries to print, in the order of their sections, and how many computed ones are left out: the oldest."""
    ordered = sorted(entries, key=_place)
    left_out: set[int] = set()
    for section in Section:
        computed = [entry for entry in ordered if entry.section is section and entry.speaker in COMPUTED]
        left_out.update(id(entry) for entry in computed[:-COMPUTED_SHOWN])
    return [entry for entry in ordered if id(entry) not in left_out], len(left_out)


def _place(entry: LedgerEntry) -> tuple[bool, int]:
    return entry.speaker in COMPUTED, list(Section).index(entry.section)


def _row(entry: LedgerEntry) -> Row:
    # A computed entry is numbered anew each time; its number would only mislead.
    number = "" if entry.speaker in COMPUTED else f" {entry.id}"
    paragraph: list[Part] = [words_of(entry), (_pointers(entry.sources), "dim")]
    if entry.pinned:
        paragraph.append(("  pinned", "yellow"))
    return (f"{entry.section.value}{number}", "cyan"), paragraph


def _claim_rows(entry: LedgerEntry) -> list[Row]:
    if entry.claim is None:
        return []
    place = f"#{entry.claim.source.ordinal}"
    if is_withdrawn(entry):
        return [("", [(f"withdrawn at {place}", "yellow")])]
    return [("", [(f"replaced by {place}: ", "yellow"), entry.claim.text])]


def _was_rows(change: Change) -> list[Row]:
    before, after = change.before, change.after
    rows: list[Row] = []
    if before.text != after.text:
        rows.append(("", [("was: ", "yellow"), words_of(before), (_pointers(before.sources), "dim")]))
    elif again := [source for source in after.sources if source not in before.sources]:
        rows.append(("", [(f"told again at{_pointers(again).replace('  ', ' ')}", "yellow")]))
    if before.section is not after.section:
        rows.append(("", [(f"was under {HEADINGS[before.section]}", "yellow")]))
    if before.pinned != after.pinned:
        rows.append(("", [("no longer pinned" if before.pinned else "pinned since", "yellow")]))
    if before.claim is not None and before.claim != after.claim:
        rows.append(("", [(f"no longer beside #{before.claim.source.ordinal}: ", "yellow"), before.claim.text]))
    return rows


def _pointers(sources: Sequence[Pointer]) -> str:
    shown = " ".join(f"#{source.ordinal}" for source in sources[-SOURCES_SHOWN:])
    more = len(sources) - SOURCES_SHOWN
    return f"  {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""
