"""The compactions of a thread: numbered in the order they were made, and each opened with what it changed."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from threadkeep.compaction import AuditReport, Ledger, read_ledger
from threadkeep.errors import InvalidPointer, InvalidTarget, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, History
from threadkeep.threads.reader import load_history, load_live_path, read_body


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberedCompaction:
    """A compaction and its number on the live path, from one on; an undone one keeps its number."""

    number: int
    record: Record
    is_undone: bool
    is_in_use: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionRow:
    """A compaction in a table; `made` and `audit` are None if its record cannot be read."""

    place: NumberedCompaction
    made: Checkpoint | None
    audit: AuditReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedCompaction:
    """A compaction with the windows and the ledgers before and after it."""

    record: Record
    made: Checkpoint
    audit: AuditReport
    before: History
    after: History
    ledger_before: Ledger
    ledger_after: Ledger


async def number_compactions(store: ThreadStore, thread_id: str) -> list[NumberedCompaction]:
    """Return the compactions of a thread's whole live path, oldest first, without their bodies."""
    path = await load_live_path(store, thread_id, whole=True)
    newest = (await load_live_path(store, thread_id)).checkpoint
    kinds = {RecordKind.CHECKPOINT, RecordKind.UNDO}
    found = [record for span in path.spans for record in await store.read(span, kinds=kinds, bodies=False)]
    undone = {record.target for record in found if record.kind is RecordKind.UNDO}
    made = sorted((record for record in found if record.kind is RecordKind.CHECKPOINT), key=lambda record: record.ordinal)
    return [
        NumberedCompaction(
            number=number,
            record=record,
            is_undone=record.ordinal in undone,
            is_in_use=newest is not None and newest.ordinal == record.ordinal,
        )
        for number, record in enumerate(made, start=1)
    ]


async def read_compaction_row(store: ThreadStore, place: NumberedCompaction) -> CompactionRow:
    """Return a compaction with its figures."""
    span = Span(thread_id=place.record.thread_id, start=place.record.ordinal, stop=place.record.ordinal + 1)
    for record in await store.read(span):
        made = read_body(record, Checkpoint)
        try:
            audit = msgspec.json.decode(bytes(made.audit), type=AuditReport) if made else None
        except msgspec.MsgspecError:
            audit = None
        return CompactionRow(place=place, made=made, audit=audit)
    return CompactionRow(place=place, made=None, audit=None)


async def open_compaction(
    store: ThreadStore, thread_id: str, ordinal: int, *, compared_with: int | None = None
) -> OpenedCompaction:
    """Return a compaction of a thread, on its live path or left behind.

    `ledger_before` is that of the window it replaced, or of the compaction at `compared_with`.

    Raises:
        InvalidTarget: There is no compaction at that ordinal, or it was erased.
        StoreCorrupt: It cannot be read.
    """
    after = await _load_history_after(store, thread_id, ordinal)
    record = await _find_checkpoint(store, thread_id, ordinal)
    before = await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal))
    if after.checkpoint is None:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read")
    earlier = before if compared_with is None else await _load_history_after(store, thread_id, compared_with)
    try:
        return OpenedCompaction(
            record=record,
            made=after.checkpoint,
            audit=msgspec.json.decode(bytes(after.checkpoint.audit), type=AuditReport),
            before=before,
            after=after,
            ledger_before=read_ledger(earlier),
            ledger_after=read_ledger(after),
        )
    except (msgspec.MsgspecError, InvalidPointer) as error:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read") from error


async def _load_history_after(store: ThreadStore, thread_id: str, ordinal: int) -> History:
    record = await _find_checkpoint(store, thread_id, ordinal)
    return await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal + 1))


async def _find_checkpoint(store: ThreadStore, thread_id: str, ordinal: int) -> Record:
    path = await load_live_path(store, thread_id, whole=True)
    holder = path.find_thread(ordinal) or thread_id
    for record in await store.read(Span(thread_id=holder, start=ordinal, stop=ordinal + 1), bodies=False):
        if record.kind is RecordKind.CHECKPOINT and not record.erased:
            return record
    raise InvalidTarget(thread_id, f"there is no compaction at #{ordinal}, or it was erased")
