"""Noticing that what was read before was erased since: an erasure changes what lies behind us, and says so in a note."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads.tombstones import ErasureNote, read_note

# On a first look only an erasure that is still under way matters, and its note is among the newest.
NEWEST_NOTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """How far the notes of some threads were read, by thread, and whether one of them tells of an erasure."""

    marks: Mapping[str, int]
    erased: bool = False


async def sighted(store: ThreadStore, threads: Collection[str], *, before: Sighting | None = None) -> Sighting:
    """Look at what was noted in threads since `before`.

    An erasure is noted before it is carried out. Until it was, its note is not passed: the next look finds it again.
    """
    marks: dict[str, int] = {}
    erased = False
    for thread_id in threads:
        row = await store.get(thread_id)
        since = before.marks.get(thread_id) if before is not None else None
        marks[thread_id] = row.next
        for record, note in await _erasures(store, row, since=since):
            erased = True
            if not await _is_done(store, row, note):
                marks[thread_id] = record.ordinal
                break
    return Sighting(marks=marks, erased=erased)


async def _erasures(store: ThreadStore, row: ThreadRow, *, since: int | None) -> list[tuple[Record, ErasureNote]]:
    """Return the erasures noted from `since` on, oldest first; without it, those among the newest notes."""
    if since is not None and since >= row.next:
        return []
    span = Span(thread_id=row.id, start=row.start if since is None else since, stop=row.next)
    if since is None:
        notes = await store.read(span, kinds={RecordKind.NOTE}, newest_first=True, limit=NEWEST_NOTES)
        notes.reverse()
    else:
        notes = await store.read(span, kinds={RecordKind.NOTE})
    return [(record, note) for record in notes if record.chain is None and (note := read_note(record.body)) is not None]


async def _is_done(store: ThreadStore, row: ThreadRow, note: ErasureNote) -> bool:
    if not note.ordinals:
        return True
    span = Span(thread_id=row.id, start=row.start, stop=row.next)
    return all(record.erased for record in await store.read(span, ordinals=note.ordinals, bodies=False))
