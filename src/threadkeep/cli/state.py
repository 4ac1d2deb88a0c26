"""The session state, and what changed in it, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from threadkeep.cli.formats import format_count
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread
from threadkeep.compaction import Ledger, LedgerEntry, Section, Speaker, read_ledger
from threadkeep.compaction.report import Change, Comparison, is_withdrawn
from threadkeep.threads import Pointer

if TYPE_CHECKING:
    from threadkeep.cli.screen import Entry, Part, Screen

HEADINGS = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}
SOURCES_SHOWN = 4
# A computed line may quote a whole paste; people's own words are always shown whole.
COMPUTED_CHARS = 240
# Computed and agent's lines come and go by the dozen in each section, and would bury people's words in a comparison.
COMPUTED_SHOWN = 6
COMPUTED = (Speaker.COMPUTED, Speaker.AGENT)
NO_MARKS: Mapping[str, str] = MappingProxyType({})


async def show_state(thread: Thread, *, as_json: bool) -> None:
    """Print the session state of the newest checkpoint, and what was pinned and noted since, section by section."""
    history = await thread.history()
    ledger = read_ledger(history)
    if as_json:
        sections = {section.value: [encode_entry(entry) for entry in ledger.section(section)] for section in Section}
        answer = {"thread": thread.id, "checkpoint": history.checkpoint_ordinal, "sections": sections}
        print_json({**answer, "in_view": sorted(ledger.in_view), "left_out": sorted(ledger.left_out)})
    else:
        _print_state(open_screen(), thread, ledger, checkpoint=history.checkpoint_ordinal)


def encode_entry(entry: LedgerEntry) -> dict[str, object]:
    """Return an entry as every `--json` shows it."""
    shown: dict[str, object] = {
        "id": entry.id,
        "text": entry.text,
        "sources": [str(source) for source in entry.sources],
        "pinned": entry.pinned,
        "speaker": entry.speaker,
    }
    if entry.claim is not None:
        shown["claim"] = {"text": entry.claim.text, "source": str(entry.claim.source)}
    return shown


def describe_omissions(ledger: Ledger) -> str | None:
    """Return how much of a state is over its budget and so not in the window; None where all of it is."""
    if not ledger.left_out:
        return None
    messages = sum(1 for entry in ledger.entries if entry.id in ledger.left_out and entry.speaker is Speaker.USER)
    among = f", {format_count(messages, 'message')} of the user among them" if messages else ""
    return f"{format_count(len(ledger.left_out), 'entry', 'entries')} left out for lack of room{among}; recall finds them"


def shorten_entry(entry: LedgerEntry) -> str:
    """Return an entry's text as a list shows it."""
    if entry.speaker is not Speaker.COMPUTED or len(entry.text) <= COMPUTED_CHARS:
        return entry.text
    return f"{entry.text[: COMPUTED_CHARS - 1]}…"


def _print_state(screen: Screen, thread: Thread, ledger: Ledger, *, checkpoint: int | None) -> None:
    if checkpoint is None:
        screen.write((thread.id, "bold"), "  not compacted: the window is the whole history")
        if not ledger.entries:
            return
        screen.write(("noted beside it, for the first compaction to take over:", "dim"))
    else:
        screen.write((thread.id, "bold"), f"  state of checkpoint #{checkpoint}, after {format_count(ledger.age, 'compaction')}")
    if omissions := describe_omissions(ledger):
        screen.write((omissions, "yellow"))
    # Entries that stand elsewhere than in the state of the window.
    marks = {**dict.fromkeys(ledger.left_out, "not in the window"), **dict.fromkeys(ledger.in_view, "in its message")}
    for section in Section:
        entries = ledger.section(section)
        screen.write_heading(HEADINGS[section], f"{len(entries):,}" if entries else "none")
        print_entries(screen, entries, marks=marks)


def print_entries(screen: Screen, entries: Iterable[LedgerEntry], *, marks: Mapping[str, str] = NO_MARKS) -> None:
    """Print entries with their ids, sources, what replaced them, and the mark for their id."""
    rows: list[Entry] = []
    for entry in entries:
        mark: list[Part] = [(f"  {marks[entry.id]}", "dim")] if entry.id in marks else []
        rows.append(((entry.id, "cyan"), [*_make_paragraph(entry), *mark]))
        rows += _make_claim_rows(entry)
    screen.write_entries(rows)


def _make_paragraph(entry: LedgerEntry) -> list[Part]:
    pinned: list[Part] = [("  pinned", "yellow")] if entry.pinned else []
    return [shorten_entry(entry), (_list_sources(entry.sources), "dim"), *pinned]


def _list_sources(sources: Sequence[Pointer]) -> str:
    shown = " ".join(f"#{source.ordinal}" for source in sources[-SOURCES_SHOWN:])
    more = len(sources) - SOURCES_SHOWN
    return f"  {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""


def encode_comparison(comparison: Comparison) -> dict[str, object]:
    """Return a comparison as `--json` has it; entries are those of `show --state`, with their section."""

    def full(entry: LedgerEntry) -> dict[str, object]:
        return {**encode_entry(entry), "section": entry.section}

    return {
        "added": [full(entry) for entry in comparison.added],
        "changed": [{**full(change.after), "was": full(change.before)} for change in comparison.changed],
        "retired": [full(entry) for entry in comparison.retired],
        "gone": [full(entry) for entry in comparison.gone],
        "unchanged": comparison.unchanged,
    }


def print_comparison(screen: Screen, comparison: Comparison) -> None:
    """Print every group that has entries: people's words before computed lines, each entry with the records behind it."""
    withdrawn = [entry for entry in comparison.retired if is_withdrawn(entry)]
    replaced = [entry for entry in comparison.retired if not is_withdrawn(entry)]
    _print_group(screen, "Added", comparison.added)
    if comparison.changed:
        screen.write_heading("Changed", f"{len(comparison.changed):,}")
        changes = sorted(comparison.changed, key=lambda change: _sort_key(change.after))
        screen.write_entries([row for change in changes for row in (_make_entry_row(change.after), *_make_change_rows(change))])
    _print_group(screen, "Replaced", replaced, "by later words; the later ones count")
    _print_group(screen, "Withdrawn", withdrawn, "nothing replaces them")
    _print_group(screen, "No longer listed", comparison.gone, "computed or drafted anew each time")
    screen.write_heading("Unchanged", format_count(comparison.unchanged, "entry", "entries"))


def _print_group(screen: Screen, title: str, entries: Sequence[LedgerEntry], aside: str = "") -> None:
    if not entries:
        return
    screen.write_heading(title, f"{len(entries):,}{f', {aside}' if aside else ''}")
    shown = _leave_out_computed(sorted(entries, key=_sort_key))
    screen.write_entries([row for entry in shown for row in (_make_entry_row(entry), *_make_claim_rows(entry))])
    if hidden := len(entries) - len(shown):
        screen.write((f"and {hidden:,} more that were computed; --json lists them all", "dim"), indent=2)


def _leave_out_computed(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Return the entries to print: of the computed ones the newest of each section."""
    hidden: set[int] = set()
    for section in Section:
        computed = [id(entry) for entry in entries if entry.section is section and entry.speaker in COMPUTED]
        hidden.update(computed[:-COMPUTED_SHOWN])
    return [entry for entry in entries if id(entry) not in hidden]


def _sort_key(entry: LedgerEntry) -> tuple[bool, int]:
    return entry.speaker in COMPUTED, list(Section).index(entry.section)


def _make_entry_row(entry: LedgerEntry) -> Entry:
    # A computed entry is numbered anew each time, so its number says nothing.
    number = "" if entry.speaker in COMPUTED else f" {entry.id}"
    return (f"{entry.section.value}{number}", "cyan"), _make_paragraph(entry)


def _make_claim_rows(entry: LedgerEntry) -> list[Entry]:
    if entry.claim is None:
        return []
    source = f"#{entry.claim.source.ordinal}"
    if is_withdrawn(entry):
        return [("", [(f"withdrawn at {source}", "yellow")])]
    return [("", [(f"replaced by {source}: ", "yellow"), entry.claim.text])]


def _make_change_rows(change: Change) -> list[Entry]:
    before, after = change.before, change.after
    rows: list[Entry] = []
    if before.text != after.text:
        rows.append(("", [("was: ", "yellow"), shorten_entry(before), (_list_sources(before.sources), "dim")]))
    elif again := [source for source in after.sources if source not in before.sources]:
        rows.append(("", [(f"said again at {_list_sources(again).strip()}", "yellow")]))
    if before.section is not after.section:
        rows.append(("", [(f"was under {HEADINGS[before.section]}", "yellow")]))
    if before.pinned != after.pinned:
        rows.append(("", [("no longer pinned" if before.pinned else "pinned since", "yellow")]))
    if before.claim is not None and before.claim != after.claim:
        rows.append(("", [(f"no longer replaced by #{before.claim.source.ordinal}: ", "yellow"), before.claim.text]))
    return rows
