"""The compactions of a thread: numbered in the order they were made, and each opened with what it did."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from threadkeep.compaction import AuditReport, Ledger, ledger_of
from threadkeep.errors import InvalidPointer, InvalidTarget, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, History
from threadkeep.threads.reader import load_history, load_live_path, read_body

# The newest ones; a page of each is read with its state, which may be long.
SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbered:
    """A compaction as the live path numbers it, from one on; those that were undone keep their number."""

    number: int
    record: Record
    undone: bool
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A compaction in a table; `made` and `audit` are None where its record cannot be read."""

    place: Numbered
    made: Checkpoint | None
    audit: AuditReport | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A compaction with the windows before and after it, and what the ledger said then."""

    record: Record
    made: Checkpoint
    audit: AuditReport
    before: History
    after: History
    earlier: Ledger
    later: Ledger


async def numbered(store: ThreadStore, thread_id: str) -> list[Numbered]:
    """Return the compactions of a thread's whole live path, oldest first, without their bodies."""
    path = await load_live_path(store, thread_id, whole=True)
    newest = (await load_live_path(store, thread_id)).checkpoint
    found: list[Record] = []
    undone: set[int | None] = set()
    for span in path.spans:
        found.extend(await store.read(span, kinds={RecordKind.CHECKPOINT}, bodies=False))
        undone.update(record.target for record in await store.read(span, kinds={RecordKind.UNDO}, bodies=False))
    ordered = sorted(found, key=lambda record: record.ordinal)
    return [
        Numbered(
            number=number,
            record=record,
            undone=record.ordinal in undone,
            counts=newest is not None and newest.ordinal == record.ordinal,
        )
        for number, record in enumerate(ordered, start=1)
    ]


async def summaries(store: ThreadStore, places: list[Numbered]) -> list[Summary]:
    """Return compactions with their figures, in the order given."""
    return [await _summary(store, place) for place in places]


async def _summary(store: ThreadStore, place: Numbered) -> Summary:
    span = Span(thread_id=place.record.thread_id, start=place.record.ordinal, stop=place.record.ordinal + 1)
    for record in await store.read(span):
        made = read_body(record, Checkpoint)
        try:
            audit = msgspec.json.decode(bytes(made.audit), type=AuditReport) if made else None
        except msgspec.MsgspecError:
            audit = None
        return Summary(place=place, made=made, audit=audit)
    return Summary(place=place, made=None, audit=None)


async def open_compaction(store: ThreadStore, thread_id: str, ordinal: int, *, since: int | None) -> Opened:
    """Return a compaction of a thread, on its live path or left behind, with the ledger of compaction `since` beside its own.

    Without `since` the ledger beside it is that of the window it replaced.

    Raises:
        InvalidTarget: There is no compaction at that ordinal, or it was erased.
        StoreCorrupt: It cannot be read.
    """
    after = await _history_after(store, thread_id, ordinal)
    record = await _record_of(store, thread_id, ordinal)
    before = await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal))
    if after.checkpoint is None:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read")
    try:
        audit = msgspec.json.decode(bytes(after.checkpoint.audit), type=AuditReport)
        earlier = ledger_of(before if since is None else await _history_after(store, thread_id, since))
        later = ledger_of(after)
    except (msgspec.MsgspecError, InvalidPointer) as error:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read") from error
    return Opened(record=record, made=after.checkpoint, audit=audit, before=before, after=after, earlier=earlier, later=later)


async def _history_after(store: ThreadStore, thread_id: str, ordinal: int) -> History:
    record = await _record_of(store, thread_id, ordinal)
    return await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal + 1))


async def _record_of(store: ThreadStore, thread_id: str, ordinal: int) -> Record:
    path = await load_live_path(store, thread_id, whole=True)
    holder = path.find_thread(ordinal) or thread_id
    for record in await store.read(Span(thread_id=holder, start=ordinal, stop=ordinal + 1), bodies=False):
        if record.kind is RecordKind.CHECKPOINT and not record.erased:
            return record
    raise InvalidTarget(thread_id, f"there is no compaction at #{ordinal}, or it was erased")
