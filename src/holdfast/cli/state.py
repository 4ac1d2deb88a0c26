"""`holdfast show --state`: what the newest checkpoint carries forward."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from holdfast.cli.figures import count
from holdfast.cli.output import open_screen, print_json
from holdfast.compaction import Ledger, LedgerEntry, Section, ledger_of
from holdfast.runtime import Thread

if TYPE_CHECKING:
    from holdfast.cli.screen import Part, Screen

HEADINGS = {
    Section.OBJECTIVE: "Objective",
    Section.ACTIVE: "Active memory",
    Section.INACTIVE: "Inactive changes",
    Section.HANDOFF: "Current handoff",
    Section.EVIDENCE: "Evidence pointers",
}
SOURCES_SHOWN = 4


async def show_state(thread: Thread, *, as_json: bool) -> None:
    """Print the session state, section by section."""
    history = await thread.history()
    ledger = ledger_of(history)
    if as_json:
        sections = {section.value: [_as_json(entry) for entry in ledger.section(section)] for section in Section}
        answer = {"thread": thread.id, "checkpoint": history.checkpoint_ordinal, "sections": sections}
        print_json({**answer, "archived": ledger.archived})
    else:
        _tell(open_screen(), thread, ledger, checkpoint=history.checkpoint_ordinal)


def _as_json(entry: LedgerEntry) -> dict[str, object]:
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


def _tell(screen: Screen, thread: Thread, ledger: Ledger, *, checkpoint: int | None) -> None:
    if checkpoint is None:
        screen.line((thread.id, "bold"), "  no checkpoint counts: everything said is in the window itself")
        return
    screen.line((thread.id, "bold"), f"  state of checkpoint #{checkpoint}, after {count(ledger.age, 'compaction')}")
    for section in Section:
        entries = ledger.section(section)
        screen.heading(HEADINGS[section], f"{len(entries):,}" if entries else "none")
        tell_entries(screen, entries)
    if ledger.archived:
        screen.gap()
        screen.line(
            (f"{count(ledger.archived, 'older entry', 'older entries')} archived; `holdfast recall` finds the originals", "dim")
        )


def tell_entries(screen: Screen, entries: Iterable[LedgerEntry]) -> None:
    """Print entries with their ids, sources, and what contests or replaced them."""
    rows: list[tuple[Part, list[Part]]] = []
    for entry in entries:
        paragraph: list[Part] = [entry.text, (_sources(entry), "dim")]
        if entry.pinned:
            paragraph.append(("  pinned", "yellow"))
        rows.append(((entry.id, "cyan"), paragraph))
        if entry.claim is not None:
            verb = "replaced by" if entry.section is Section.INACTIVE else "contested by"
            rows.append(("", [(f"{verb} #{entry.claim.source.ordinal}: ", "yellow"), entry.claim.text]))
    if rows:
        screen.entries(rows)


def _sources(entry: LedgerEntry) -> str:
    shown = " ".join(f"#{source.ordinal}" for source in entry.sources[-SOURCES_SHOWN:])
    more = len(entry.sources) - SOURCES_SHOWN
    return f"  {shown}{f' and {more} more' if more > 0 else ''}" if shown else ""
