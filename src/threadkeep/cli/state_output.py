"""The session state, and what changed in it, for people and for machines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread
from threadkeep.client.json_output import encode_entry, encode_state
from threadkeep.compaction import Ledger, LedgerEntry, Section, Speaker, read_ledger
from threadkeep.compaction.report import Comparison, is_withdrawn
from threadkeep.threads import Pointer
from threadkeep.viewer.compaction_diff import HEADINGS, ChangedEntry, Group, group_changes
from threadkeep.viewer.number_format import format_count

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Entry, Part, Screen

SOURCES_SHOWN = 4
# A computed line may quote a whole paste; people's own words are always shown whole.
COMPUTED_CHARS = 240
# Computed and agent's lines come and go by the dozen in each section, and would bury people's words in a comparison.
COMPUTED_SHOWN = 6
NO_MARKS: Mapping[str, str] = MappingProxyType({})


async def show_state(thread: Thread, *, as_json: bool) -> None:
    """Print the session state of the newest checkpoint, and what was pinned and noted since, section by section."""
    if as_json:
        print_json(await encode_state(thread))
    else:
        history = await thread.history()
        _print_state(open_screen(), thread, read_ledger(history), checkpoint=history.checkpoint_ordinal)


def describe_omissions(ledger: Ledger) -> str | None:
    """Return how much of a state is over its budget and so not in the window; None where all of it is."""
    if not ledger.left_out:
        return None
    messages = sum(1 for entry in ledger.entries if entry.id in ledger.left_out and entry.speaker is Speaker.USER)
    among = f", {format_count(messages, 'message')} of the user among them" if messages else ""
    return f"{format_count(len(ledger.left_out), 'entry', 'entries')} left out for lack of room{among}; recall finds them"


def shorten_entry(entry: LedgerEntry) -> str:
    """Return an entry's text as a list shows it."""
    is_long = entry.speaker is Speaker.COMPUTED and len(entry.text) > COMPUTED_CHARS
    return f"{entry.text[: COMPUTED_CHARS - 1]}…" if is_long else entry.text


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
    """Print every group that has entries, each entry with the records behind it."""
    for group in group_changes(comparison):
        screen.write_heading(group.title, f"{len(group.entries):,}, {group.aside}")
        shown = _leave_out_computed(group)
        screen.write_entries([row for each in shown for row in _make_rows(each)])
        if hidden := len(group.entries) - len(shown):
            screen.write((f"and {hidden:,} more that were computed; --json lists them all", "dim"), indent=2)
    screen.write_heading("Unchanged", format_count(comparison.unchanged, "entry", "entries"))


def _leave_out_computed(group: Group) -> list[ChangedEntry]:
    """Return the entries to print: of the computed ones the newest of each section."""
    hidden: set[int] = set()
    for section in Section:
        computed = [id(each) for each in group.entries if each.entry.section is section and each.is_computed]
        hidden.update(computed[:-COMPUTED_SHOWN])
    return [each for each in group.entries if id(each) not in hidden]


def _make_rows(each: ChangedEntry) -> list[Entry]:
    # A computed entry is numbered anew each time, so its number says nothing.
    number = "" if each.is_computed else f" {each.entry.id}"
    rows: list[Entry] = [((f"{each.entry.section.value}{number}", "cyan"), _make_paragraph(each.entry))]
    if each.before is not None:
        rows.append(("", [("was: ", "yellow"), each.before]))
    rows += [("", [(remark, "yellow")]) for remark in each.remarks]
    return rows + _make_claim_rows(each.entry)


def _make_claim_rows(entry: LedgerEntry) -> list[Entry]:
    if entry.claim is None:
        return []
    source = f"#{entry.claim.source.ordinal}"
    if is_withdrawn(entry):
        return [("", [(f"withdrawn at {source}", "yellow")])]
    return [("", [(f"replaced by {source}: ", "yellow"), entry.claim.text])]
