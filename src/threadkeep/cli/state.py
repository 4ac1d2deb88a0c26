"""`threadkeep show --state`: what the newest checkpoint carries forward, and what was pinned and noted since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from threadkeep.cli.figures import count
from threadkeep.cli.output import open_screen, print_json
from threadkeep.client import Thread
from threadkeep.compaction import Ledger, LedgerEntry, Section, Speaker, ledger_of

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

HEADINGS = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}
SOURCES_SHOWN = 4
# A computed line may quote a whole paste; what people said is always shown whole.
COMPUTED_CHARS = 240
NO_MARKS: Mapping[str, str] = MappingProxyType({})


async def show_state(thread: Thread, *, as_json: bool) -> None:
    """Print the session state, section by section."""
    history = await thread.history()
    ledger = ledger_of(history)
    if as_json:
        sections = {section.value: [entry_json(entry) for entry in ledger.section(section)] for section in Section}
        answer = {"thread": thread.id, "checkpoint": history.checkpoint_ordinal, "sections": sections}
        print_json({**answer, "in_view": sorted(ledger.in_view), "left_out": sorted(ledger.left_out)})
    else:
        _tell(open_screen(), thread, ledger, checkpoint=history.checkpoint_ordinal)


def entry_json(entry: LedgerEntry) -> dict[str, object]:
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


def tell_left_out(ledger: Ledger) -> str | None:
    """Return, for people, how much a state over its budget leaves out; None where the window tells all of it."""
    if not ledger.left_out:
        return None
    said = sum(1 for entry in ledger.entries if entry.id in ledger.left_out and entry.speaker is Speaker.USER)
    messages = f", {count(said, 'message')} of the user among them" if said else ""
    return f"{count(len(ledger.left_out), 'entry', 'entries')} left out for want of room{messages}; recall finds them"


def words_of(entry: LedgerEntry) -> str:
    """Return an entry's text as a list shows it."""
    if entry.speaker is not Speaker.COMPUTED or len(entry.text) <= COMPUTED_CHARS:
        return entry.text
    return f"{entry.text[: COMPUTED_CHARS - 1]}…"


def _tell(screen: Screen, thread: Thread, ledger: Ledger, *, checkpoint: int | None) -> None:
    if checkpoint is None:
        screen.line((thread.id, "bold"), "  no checkpoint counts: everything said is in the window itself")
        if not ledger.entries:
            return
        screen.line(("noted beside it, for the first compaction to take over:", "dim"))
    else:
        screen.line((thread.id, "bold"), f"  state of checkpoint #{checkpoint}, after {count(ledger.age, 'compaction')}")
    if told := tell_left_out(ledger):
        screen.line((told, "yellow"))
    for section in Section:
        entries = ledger.section(section)
        screen.heading(HEADINGS[section], f"{len(entries):,}" if entries else "none")
        tell_entries(screen, entries, marks=_told_elsewhere(ledger))


def _told_elsewhere(ledger: Ledger) -> dict[str, str]:
    """Return where entries stand that the state of the window has no words for."""
    return {**dict.fromkeys(ledger.left_out, "not in the window"), **dict.fromkeys(ledger.in_view, "in its message")}


def tell_entries(screen: Screen, entries: Iterable[LedgerEntry], *, marks: Mapping[str, str] = NO_MARKS) -> None:
    """Print entries with their ids, sources, what replaced them, and a mark where there is one for their id."""
    rows: list[tuple[Part, list[Part]]] = []
    for entry in entries:
        paragraph: list[Part] = [words_of(entry), (_sources(entry), "dim")]
        if entry.pinned:
            paragraph.append(("  pinned", "yellow"))
        if entry.id in marks:
            paragraph.append((f"  {marks[entry.id]}", "dim"))
        rows.append(((entry.id, "cyan"), paragraph))
        if entry.claim is not None:
            rows.append(("", [(f"replaced by #{entry.claim.source.ordinal}: ", "yellow"), entry.claim.text]))
    if rows:
        screen.entries(rows)


def _sources(entry: LedgerEntry) -> str:
    shown = " ".join(f"#{source.ordinal}" for source in entry.sources[-SOURCES_SHOWN:])
    more = len(entry.sources) - SOURCES_SHOWN
    return f"  {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""
