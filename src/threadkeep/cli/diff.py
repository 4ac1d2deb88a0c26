"""`threadkeep diff`: what changed between two checkpoints of a thread."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from threadkeep.cli.changes import changes_json, tell_changes
from threadkeep.cli.compact import findings_json, tell_audit
from threadkeep.cli.figures import share
from threadkeep.cli.opening import existing_store
from threadkeep.cli.output import open_screen, print_json
from threadkeep.compaction import AuditReport, Ledger, ledger_of
from threadkeep.compaction.comparison import Comparison, compare
from threadkeep.errors import InvalidPointer, InvalidTarget, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, EntryKind, History, LivePath
from threadkeep.threads.reader import load_history, load_live_path

if TYPE_CHECKING:
    from threadkeep.cli.screen import Part, Screen

NAMED = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """A checkpoint, the window as it was right after it, and whether it still counts for the thread that was asked about."""

    record: Record
    checkpoint: Checkpoint
    history: History
    ledger: Ledger
    audit: AuditReport
    standing: str

    def figure(self, name: str) -> int:
        return self.checkpoint.figures.get(name, 0)

    def entries(self, kind: EntryKind) -> int:
        return sum(entry.kind is kind for entry in self.history.entries)


def run(args: Namespace) -> int:
    """Compare two checkpoints: those named, else the newest that counts with the one it builds on, if it builds on one."""
    return asyncio.run(_diff(args))


async def _diff(args: Namespace) -> int:
    async with existing_store(args) as tk:
        thread = await tk.find(args.thread)
        store = tk.backend.store
        later = await _made(store, thread.id, await _newest(store, thread.id) if args.later is None else args.later)
        base = later.checkpoint.base if args.earlier is None else args.earlier
        earlier = None if base is None else await _made(store, thread.id, base)
    changes = compare(earlier.ledger if earlier else Ledger(), later.ledger)
    if args.json:
        print_json(_as_json(thread.id, earlier, later, changes))
    else:
        _tell(open_screen(), thread.id, earlier, later, changes)
    return 0


async def _newest(store: ThreadStore, thread_id: str) -> int:
    path = await load_live_path(store, thread_id)
    if path.checkpoint is None:
        raise InvalidTarget(thread_id, "no checkpoint counts, so there is nothing to compare; `threadkeep compact` makes one")
    return path.checkpoint.ordinal


async def _made(store: ThreadStore, thread_id: str, ordinal: int) -> _Made:
    """Return a checkpoint of a thread, on its live path or left behind."""
    path = await load_live_path(store, thread_id, whole=True)
    holder = path.find_thread(ordinal)
    record = await _checkpoint_at(store, path, holder or thread_id, ordinal, asked=thread_id)
    try:
        history = await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal + 1))
        if history.checkpoint is None:
            raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read")
        ledger = ledger_of(history)
        audit = msgspec.json.decode(bytes(history.checkpoint.audit), type=AuditReport)
    except (msgspec.MsgspecError, InvalidPointer) as error:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read") from error
    standing = "left behind" if holder is None else "undone" if await _is_undone(store, path, ordinal) else ""
    return _Made(record=record, checkpoint=history.checkpoint, history=history, ledger=ledger, audit=audit, standing=standing)


async def _checkpoint_at(store: ThreadStore, path: LivePath, thread_id: str, ordinal: int, *, asked: str) -> Record:
    found = await store.read(Span(thread_id=thread_id, start=ordinal, stop=ordinal + 1), bodies=False)
    if found and found[0].kind is RecordKind.CHECKPOINT:
        if found[0].erased:
            raise InvalidTarget(asked, f"checkpoint #{ordinal} was erased")
        return found[0]
    wrong = (
        f"#{ordinal} is no checkpoint but a record of kind {found[0].kind.value!r}" if found else f"there is no record #{ordinal}"
    )
    ordinals: list[int] = []
    for span in path.spans:
        records = await store.read(span, kinds={RecordKind.CHECKPOINT}, newest_first=True, limit=NAMED, bodies=False)
        ordinals.extend(record.ordinal for record in records)
    named = ", ".join(f"#{known}" for known in sorted(ordinals)[-NAMED:])
    raise InvalidTarget(asked, f"{wrong}; its newest checkpoints are {named}" if named else f"{wrong}; it has no checkpoint")


async def _is_undone(store: ThreadStore, path: LivePath, ordinal: int) -> bool:
    for span in path.spans:
        undone = await store.read(span, kinds={RecordKind.UNDO}, bodies=False)
        if any(record.target == ordinal for record in undone):
            return True
    return False


def _as_json(thread_id: str, earlier: _Made | None, later: _Made, changes: Comparison) -> dict[str, object]:
    return {
        "thread": thread_id,
        "from": earlier.record.ordinal if earlier else None,
        "to": later.record.ordinal,
        "tokens": {"from": _tokens(earlier) if earlier else None, "to": _tokens(later)},
        "layout": {"from": _layout(earlier) if earlier else None, "to": _layout(later)},
        **changes_json(changes),
        "audit": {**later.audit.counts(), "findings": findings_json(later.audit)},
    }


def _tokens(made: _Made) -> dict[str, int]:
    return {"before": made.figure("tokens_before"), "after": made.figure("tokens_after")}


def _layout(made: _Made) -> dict[str, int]:
    return {
        "replaced": made.figure("replaced_items"),
        "kept": made.entries(EntryKind.KEEP),
        "stubbed": made.entries(EntryKind.STUB),
    }


def _tell(screen: Screen, thread_id: str, earlier: _Made | None, later: _Made, changes: Comparison) -> None:
    begin = f"checkpoint #{earlier.record.ordinal}" if earlier else "nothing"
    screen.line((thread_id, "bold"), f"  from {begin} to checkpoint #{later.record.ordinal}")
    screen.gap()
    rows = [_row(made) for made in (earlier, later) if made is not None]
    screen.table([">record", ">turn", ">before", ">after", ">shed", ">replaced", ">kept", ">in short", ""], rows, indent=2)
    tell_changes(screen, changes)
    screen.gap()
    tell_audit(screen, later.audit)
    screen.line((f"`threadkeep recall {thread_id} '#N'` shows the record behind a pointer", "dim"))


def _row(made: _Made) -> list[Part]:
    before, after = made.figure("tokens_before"), made.figure("tokens_after")
    return [
        (f"#{made.record.ordinal}", "magenta"),
        f"{made.record.turn}",
        f"{before:,}",
        f"{after:,}",
        (f"-{share(before - after, before)}", "green"),
        f"{made.figure('replaced_items'):,}",
        f"{made.entries(EntryKind.KEEP):,}",
        f"{made.entries(EntryKind.STUB):,}",
        (made.standing, "yellow"),
    ]
