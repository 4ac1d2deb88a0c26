"""`threadkeep diff`: what changed between two checkpoints of a thread."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.compact import encode_findings, print_audit
from threadkeep.cli.context import open_existing_store
from threadkeep.cli.formats import format_share
from threadkeep.cli.output import open_screen, print_json
from threadkeep.cli.state import encode_comparison, print_comparison
from threadkeep.compaction import AuditReport, Ledger, read_ledger
from threadkeep.compaction.report import Comparison, compare
from threadkeep.errors import InvalidPointer, InvalidTarget, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, EntryKind, History, LivePath
from threadkeep.threads.reader import load_history, load_live_path

if TYPE_CHECKING:
    from threadkeep.cli.screen import Row, Screen

# How many checkpoints an error names.
NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """A checkpoint and the window right after it. `status` says why it no longer counts for the thread, empty where it does."""

    record: Record
    checkpoint: Checkpoint
    history: History
    ledger: Ledger
    audit: AuditReport
    status: str

    def count_entries(self, kind: EntryKind) -> int:
        return sum(entry.kind is kind for entry in self.history.entries)

    @property
    def tokens(self) -> dict[str, int]:
        figures = self.checkpoint.figures
        return {"before": figures.get("tokens_before", 0), "after": figures.get("tokens_after", 0)}

    @property
    def layout(self) -> dict[str, int]:
        kept, stubbed = self.count_entries(EntryKind.KEEP), self.count_entries(EntryKind.STUB)
        return {"replaced": self.checkpoint.figures.get("replaced_items", 0), "kept": kept, "stubbed": stubbed}


def run(args: Namespace) -> int:
    """Compare two checkpoints: those named, else the newest that counts with the one it builds on."""
    return asyncio.run(_diff(args))


async def _diff(args: Namespace) -> int:
    async with open_existing_store(args) as tk:
        thread = await tk.find(args.thread)
        store = tk.backend.store
        later = await _read_side(store, thread.id, await _find_newest(store, thread.id) if args.later is None else args.later)
        base = later.checkpoint.base if args.earlier is None else args.earlier
        earlier = None if base is None else await _read_side(store, thread.id, base)
    comparison = compare(earlier.ledger if earlier else Ledger(), later.ledger)
    if args.json:
        print_json(_encode_diff(thread.id, earlier, later, comparison))
    else:
        _print_diff(open_screen(), thread.id, earlier, later, comparison)
    return 0


async def _find_newest(store: ThreadStore, thread_id: str) -> int:
    path = await load_live_path(store, thread_id)
    if path.checkpoint is None:
        raise InvalidTarget(thread_id, "it has no checkpoint to compare; `threadkeep compact` makes one")
    return path.checkpoint.ordinal


async def _read_side(store: ThreadStore, thread_id: str, ordinal: int) -> _Side:
    """Return a checkpoint of a thread, on its live path or taken back."""
    path = await load_live_path(store, thread_id, whole=True)
    holder = path.find_thread(ordinal)
    record = await _read_checkpoint(store, path, holder or thread_id, ordinal, asked=thread_id)
    try:
        history = await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal + 1))
        if history.checkpoint is None:
            raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read")
        ledger = read_ledger(history)
        audit = msgspec.json.decode(bytes(history.checkpoint.audit), type=AuditReport)
    except (msgspec.MsgspecError, InvalidPointer) as error:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read") from error
    status = "left behind" if holder is None else "undone" if await _is_undone(store, path, ordinal) else ""
    return _Side(record=record, checkpoint=history.checkpoint, history=history, ledger=ledger, audit=audit, status=status)


async def _read_checkpoint(store: ThreadStore, path: LivePath, thread_id: str, ordinal: int, *, asked: str) -> Record:
    found = await store.read(Span(thread_id=thread_id, start=ordinal, stop=ordinal + 1), bodies=False)
    if found and found[0].kind is RecordKind.CHECKPOINT:
        if found[0].erased:
            raise InvalidTarget(asked, f"checkpoint #{ordinal} was erased")
        return found[0]
    wrong = f"there is no record #{ordinal}"
    if found:
        wrong = f"#{ordinal} is not a checkpoint but a record of kind {found[0].kind.value!r}"
    ordinals: list[int] = []
    for span in path.spans:
        records = await store.read(span, kinds={RecordKind.CHECKPOINT}, newest_first=True, limit=NAMED, bodies=False)
        ordinals.extend(record.ordinal for record in records)
    named = ", ".join(f"#{each}" for each in sorted(ordinals)[-NAMED:])
    raise InvalidTarget(asked, f"{wrong}; its newest checkpoints are {named}" if named else f"{wrong}; it has no checkpoint")


async def _is_undone(store: ThreadStore, path: LivePath, ordinal: int) -> bool:
    for span in path.spans:
        if any(record.target == ordinal for record in await store.read(span, kinds={RecordKind.UNDO}, bodies=False)):
            return True
    return False


def _encode_diff(thread_id: str, earlier: _Side | None, later: _Side, comparison: Comparison) -> dict[str, object]:
    return {
        "thread": thread_id,
        "from": earlier.record.ordinal if earlier else None,
        "to": later.record.ordinal,
        "tokens": {"from": earlier.tokens if earlier else None, "to": later.tokens},
        "layout": {"from": earlier.layout if earlier else None, "to": later.layout},
        **encode_comparison(comparison),
        "audit": {**later.audit.counts(), "findings": encode_findings(later.audit)},
    }


def _print_diff(screen: Screen, thread_id: str, earlier: _Side | None, later: _Side, comparison: Comparison) -> None:
    begin = f"checkpoint #{earlier.record.ordinal}" if earlier else "nothing"
    screen.write((thread_id, "bold"), f"  from {begin} to checkpoint #{later.record.ordinal}")
    screen.skip_line()
    columns = [">record", ">turn", ">before", ">after", ">shed", ">replaced", ">kept", ">stubs", ""]
    screen.write_table(columns, [_make_side_row(side) for side in (earlier, later) if side is not None], indent=2)
    print_comparison(screen, comparison)
    screen.skip_line()
    print_audit(screen, later.audit)
    screen.write((f"`threadkeep recall {thread_id} '#N'` shows the record behind a pointer", "dim"))


def _make_side_row(side: _Side) -> Row:
    before, after = side.tokens.values()
    return [
        (f"#{side.record.ordinal}", "magenta"),
        f"{side.record.turn}",
        f"{before:,}",
        f"{after:,}",
        (f"-{format_share(before - after, before)}", "green"),
        *(f"{count:,}" for count in side.layout.values()),
        (side.status, "yellow"),
    ]
