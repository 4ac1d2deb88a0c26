"""Whether what a compaction replaced can still be read back, looked up record by record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from threadkeep.compaction import Ledger
from threadkeep.errors import InvalidPointer, StoreCorrupt
from threadkeep.items import digest_body
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LivePath, Pointer, StubEntry, parse_pointer
from threadkeep.threads.reader import live_path
from threadkeep.viewer.compactions import Opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """What was found of the items a compaction replaced, and of the records its state, stubs and audit point at.

    `erased` were taken out on request, `lost` are not there or not the bytes that were recorded.
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


async def archive_of(store: ThreadStore, opened: Opened) -> Archive:
    """Look at everything a compaction replaced and points at, in the store as it is now."""
    replaced = await _replaced(store, opened)
    named = _named(opened, await live_path(store, opened.record.thread_id, whole=True))
    items = await _found(store, replaced, bodies=True)
    records = await _found(store, named, bodies=False)
    return Archive(
        items=len(replaced),
        pointers=len(named),
        erased=tuple(at for at in replaced if at in items and items[at].erased),
        lost=tuple(at for at in replaced if at not in items or not _is_whole(items[at])),
        to_erased=tuple(at for at in named if at in records and records[at].erased),
        to_nothing=tuple(at for at in named if at not in records),
    )


async def _replaced(store: ThreadStore, opened: Opened) -> list[Pointer]:
    """Return the items that made up the window before, but for those behind the cut, which stay as they are."""
    path = await live_path(store, opened.record.thread_id, stop=opened.record.ordinal)
    found = _laid_out(opened.before.checkpoint) if opened.before.checkpoint is not None else set()
    for span in path.spans:
        before = Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, opened.made.cut))
        records = await store.read(before, kinds={RecordKind.ITEM}, bodies=False) if before.start < before.stop else []
        found.update(Pointer(record.thread_id, record.ordinal) for record in records)
    return sorted(found)


def _named(opened: Opened, path: LivePath) -> list[Pointer]:
    """Return what the compaction points at: kept and shortened records, sources of its entries, findings of its audit."""
    named = _laid_out(opened.made) | _sources(opened.later)
    for finding in (*opened.audit.repaired, *opened.audit.invented):
        try:
            pointer = parse_pointer(finding.pointer or "", within=opened.record.thread_id)
        except InvalidPointer:
            continue
        # A bare #12 may lie in what the thread was forked from.
        named.add(Pointer(path.holds(pointer.ordinal) or pointer.thread_id, pointer.ordinal))
    return sorted(named)


def _laid_out(made: Checkpoint) -> set[Pointer]:
    return {Pointer(entry.thread, entry.ordinal) for entry in made.layout if isinstance(entry, KeepEntry | StubEntry)}


def _sources(ledger: Ledger) -> set[Pointer]:
    claims = {entry.claim.source for entry in ledger.entries if entry.claim is not None}
    return {source for entry in ledger.entries for source in entry.sources} | claims


async def _found(store: ThreadStore, pointers: Iterable[Pointer], *, bodies: bool) -> dict[Pointer, Record]:
    """Return the records that pointers name; one that the store cannot read is not among them, and hides no other."""
    wanted: defaultdict[str, list[int]] = defaultdict(list)
    for pointer in pointers:
        wanted[pointer.thread_id].append(pointer.ordinal)
    found: dict[Pointer, Record] = {}
    for thread_id, ordinals in wanted.items():
        try:
            records = await _read(store, thread_id, ordinals, bodies=bodies)
        except StoreCorrupt:
            records = await _one_by_one(store, thread_id, ordinals)
        found.update({Pointer(thread_id, record.ordinal): record for record in records})
    return found


async def _read(store: ThreadStore, thread_id: str, ordinals: list[int], *, bodies: bool) -> list[Record]:
    span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
    return await store.read(span, ordinals=ordinals, bodies=bodies)


async def _one_by_one(store: ThreadStore, thread_id: str, ordinals: list[int]) -> list[Record]:
    records: list[Record] = []
    for ordinal in ordinals:
        try:
            records += await _read(store, thread_id, [ordinal], bodies=True)
        except StoreCorrupt:
            continue
    return records


def _is_whole(record: Record) -> bool:
    return record.erased or digest_body(record.body) == record.digest
