"""`threadkeep diff`: what changed between two checkpoints of a thread."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

from threadkeep.cli.compact import encode_findings, print_audit
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state_output import encode_comparison, print_comparison
from threadkeep.cli.store import open_existing_store
from threadkeep.compaction import Ledger
from threadkeep.compaction.report import Comparison, compare
from threadkeep.errors import InvalidTarget
from threadkeep.threads import EntryKind
from threadkeep.viewer.compaction_reader import NumberedCompaction, OpenedCompaction, number_compactions, open_compaction
from threadkeep.viewer.number_format import format_share

if TYPE_CHECKING:
    from threadkeep.cli.terminal import Row, Screen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A checkpoint in figures; `status` says why it no longer counts for the thread, empty where it does."""

    ordinal: int
    turn: int
    tokens: dict[str, int]
    layout: dict[str, int]
    status: str


async def run(args: Namespace) -> None:
    """Compare two checkpoints: those named, else the newest that counts with the one it builds on."""
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        store = tk.backend.store
        places = await number_compactions(store, thread.id)
        newest = next((place.record.ordinal for place in places if place.is_in_use), None) if args.later is None else args.later
        if newest is None:
            raise InvalidTarget(thread.id, "it has no checkpoint to compare; `threadkeep compact` makes one")
        later = await open_compaction(store, thread.id, newest)
        base = later.made.base if args.earlier is None else args.earlier
        earlier = None if base is None else await open_compaction(store, thread.id, base)
    comparison = compare(earlier.ledger_after if earlier else Ledger(), later.ledger_after)
    sides = (_measure(earlier, places) if earlier else None, _measure(later, places))
    if args.json:
        print_json(_encode_diff(thread.id, sides, later, comparison))
    else:
        _print_diff(open_screen(), thread.id, sides, later, comparison)


def _measure(opened: OpenedCompaction, places: list[NumberedCompaction]) -> _Side:
    place = next((place for place in places if place.record.ordinal == opened.record.ordinal), None)
    kinds = [entry.kind for entry in opened.after.entries]
    figures = opened.made.figures
    return _Side(
        ordinal=opened.record.ordinal,
        turn=opened.record.turn,
        tokens={"before": figures.get("tokens_before", 0), "after": figures.get("tokens_after", 0)},
        layout={
            "replaced": figures.get("replaced_items", 0),
            "kept": kinds.count(EntryKind.KEEP),
            "stubbed": kinds.count(EntryKind.STUB),
        },
        status="left behind" if place is None else "undone" if place.is_undone else "",
    )


def _encode_diff(
    thread_id: str, sides: tuple[_Side | None, _Side], later: OpenedCompaction, comparison: Comparison
) -> dict[str, object]:
    first, last = sides
    return {
        "thread": thread_id,
        "from": first.ordinal if first else None,
        "to": last.ordinal,
        "tokens": {"from": first.tokens if first else None, "to": last.tokens},
        "layout": {"from": first.layout if first else None, "to": last.layout},
        **encode_comparison(comparison),
        "audit": {**later.audit.counts(), "findings": encode_findings(later.audit)},
    }


def _print_diff(
    screen: Screen, thread_id: str, sides: tuple[_Side | None, _Side], later: OpenedCompaction, comparison: Comparison
) -> None:
    first, last = sides
    begin = f"checkpoint #{first.ordinal}" if first else "nothing"
    screen.write((thread_id, "bold"), f"  from {begin} to checkpoint #{last.ordinal}")
    screen.skip_line()
    columns = [">record", ">turn", ">before", ">after", ">shed", ">replaced", ">kept", ">stubs", ""]
    screen.write_table(columns, [_make_row(side) for side in sides if side is not None], indent=2)
    print_comparison(screen, comparison)
    screen.skip_line()
    print_audit(screen, later.audit)
    screen.write((f"`threadkeep recall {thread_id} '#N'` shows the record behind a pointer", "dim"))


def _make_row(side: _Side) -> Row:
    before, after = side.tokens.values()
    shed = (f"-{format_share(before - after, before)}", "green")
    figures = (f"{count:,}" for count in side.layout.values())
    return [(f"#{side.ordinal}", "magenta"), f"{side.turn}", f"{before:,}", f"{after:,}", shed, *figures, (side.status, "yellow")]
