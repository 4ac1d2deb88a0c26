"""The compactions of a thread: numbered, opened with what each changed, and what is left of the items it replaced."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from threadkeep.compaction import AuditReport, Ledger, read_ledger
from threadkeep.errors import InvalidPointer, InvalidTarget, StoreCorrupt
from threadkeep.items import digest_body
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, History, KeepEntry, LivePath, Pointer, StubEntry, parse_pointer
from threadkeep.threads.reader import load_history, load_live_path, read_body

# How many checkpoints an error names.
NAMED = 6


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
        InvalidTarget: There is no checkpoint at that ordinal, or it or the one it builds on was erased.
        StoreCorrupt: It cannot be read.
    """
    after = await _load_history_after(store, thread_id, ordinal)
    record = await _find_checkpoint(store, thread_id, ordinal)
    if after.checkpoint is None:
        raise StoreCorrupt(record.thread_id, f"checkpoint #{ordinal} cannot be read")
    if after.checkpoint.base is not None:
        await _find_checkpoint(store, thread_id, after.checkpoint.base)
    before = await load_history(store, await load_live_path(store, record.thread_id, stop=ordinal))
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
    found = await store.read(Span(thread_id=holder, start=ordinal, stop=ordinal + 1), bodies=False)
    if found and found[0].kind is RecordKind.CHECKPOINT and not found[0].erased:
        return found[0]
    if found and found[0].erased:
        raise InvalidTarget(thread_id, f"checkpoint #{ordinal} was erased")
    kind = f"#{ordinal} is not a checkpoint but a record of kind {found[0].kind.value!r}" if found else ""
    newest = [f"#{place.record.ordinal}" for place in (await number_compactions(store, thread_id))[-NAMED:]]
    known = f"its newest checkpoints are {', '.join(newest)}" if newest else "it has no checkpoint"
    raise InvalidTarget(thread_id, f"{kind or f'there is no record #{ordinal}'}; {known}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Originals:
    """What the store still holds of the items a compaction replaced, and of the records its state, stubs and audit point to.

    Attributes:
        erased: Replaced items that were erased on request.
        lost: Replaced items that are missing, or whose bytes are not those recorded.
        to_erased: Pointers to erased records.
        to_nothing: Pointers to no record.
    """

    items: int
    pointers: int
    erased: tuple[Pointer, ...] = ()
    lost: tuple[Pointer, ...] = ()
    to_erased: tuple[Pointer, ...] = ()
    to_nothing: tuple[Pointer, ...] = ()

    @property
    def readable(self) -> int:
        """How many of the items can be read back byte for byte."""
        return self.items - len(self.erased) - len(self.lost)

    @property
    def resolving(self) -> int:
        """How many of the pointers lead to their record."""
        return self.pointers - len(self.to_erased) - len(self.to_nothing)

    @property
    def is_damaged(self) -> bool:
        """Whether an item cannot be read back, or a pointer leads nowhere."""
        return self.readable < self.items or self.resolving < self.pointers


async def check_originals(store: ThreadStore, opened: OpenedCompaction) -> Originals:
    """Look up everything a compaction replaced and points to, in the store as it is now."""
    replaced = await _list_replaced(store, opened)
    named = _list_pointers(opened, await load_live_path(store, opened.record.thread_id, whole=True))
    items = await _read_records(store, replaced, bodies=True)
    records = await _read_records(store, named, bodies=False)
    return Originals(
        items=len(replaced),
        pointers=len(named),
        erased=tuple(at for at in replaced if at in items and items[at].erased),
        lost=tuple(at for at in replaced if at not in items or not _is_intact(items[at])),
        to_erased=tuple(at for at in named if at in records and records[at].erased),
        to_nothing=tuple(at for at in named if at not in records),
    )


async def _list_replaced(store: ThreadStore, opened: OpenedCompaction) -> list[Pointer]:
    """Return the items of the window before; those behind the cut stay as they are and are left out."""
    path = await load_live_path(store, opened.record.thread_id, stop=opened.record.ordinal)
    found = _list_kept(opened.before.checkpoint) if opened.before.checkpoint is not None else set()
    for span in path.spans:
        before = Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, opened.made.cut))
        records = await store.read(before, kinds={RecordKind.ITEM}, bodies=False) if before.start < before.stop else []
        found.update(Pointer(record.thread_id, record.ordinal) for record in records)
    return sorted(found)


def _list_pointers(opened: OpenedCompaction, path: LivePath) -> list[Pointer]:
    """Return what the compaction points to: kept and shortened records, sources of its entries, findings of its audit."""
    named = _list_kept(opened.made)
    for entry in opened.ledger_after.entries:
        named |= {*entry.sources, *((entry.claim.source,) if entry.claim is not None else ())}
    for finding in (*opened.audit.repaired, *opened.audit.invented):
        try:
            pointer = parse_pointer(finding.pointer or "", within=opened.record.thread_id)
        except InvalidPointer:
            continue
        # A bare #12 may be a record of the thread this one was forked from.
        named.add(Pointer(path.find_thread(pointer.ordinal) or pointer.thread_id, pointer.ordinal))
    return sorted(named)


def _list_kept(made: Checkpoint) -> set[Pointer]:
    return {Pointer(entry.thread, entry.ordinal) for entry in made.layout if isinstance(entry, KeepEntry | StubEntry)}


async def _read_records(store: ThreadStore, pointers: Iterable[Pointer], *, bodies: bool) -> dict[Pointer, Record]:
    """Return the records that pointers name; a record that cannot be read is left out and hides no other."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for pointer in pointers:
        wanted[pointer.thread_id].append(pointer.ordinal)
    found: dict[Pointer, Record] = {}
    for thread_id, ordinals in wanted.items():
        try:
            records = await _read(store, thread_id, ordinals, bodies=bodies)
        except StoreCorrupt:
            records = []
            for ordinal in ordinals:
                try:
                    records += await _read(store, thread_id, [ordinal], bodies=True)
                except StoreCorrupt:
                    continue
        found.update({Pointer(thread_id, record.ordinal): record for record in records})
    return found


async def _read(store: ThreadStore, thread_id: str, ordinals: list[int], *, bodies: bool) -> list[Record]:
    span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
    return await store.read(span, ordinals=ordinals, bodies=bodies)


def _is_intact(record: Record) -> bool:
    return record.erased or digest_body(record.body) == record.digest
