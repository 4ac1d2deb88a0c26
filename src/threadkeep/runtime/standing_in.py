"""Erased halves of tool calls, as windows and exports show them; see `threadkeep.thread.erasure`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from threadkeep.dialects import dialect_named
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind, Span, ThreadStore
from threadkeep.thread.erasure import Half, opening, placeholders, read_note
from threadkeep.thread.pointer import Pointer
from threadkeep.tokens import estimate_item


async def with_stand_ins(store: ThreadStore, records: Sequence[Record], *, begins: bool) -> list[Record]:
    """Return records of one path with a placeholder for each erased item whose other half is among them; all else as it is.

    `begins` says that the first of them begins what is shown: where its provider insists on who speaks first, something stands
    in for that too.
    """
    items = [record for record in records if record.kind is RecordKind.ITEM]
    dialect = dialect_named((await store.get(records[0].thread_id)).dialect)
    halves = await _halves(store, (record for record in items if record.erased))
    left = [Item(record.body) for record in items if not record.erased]
    made = placeholders(halves, left, dialect=dialect)
    shown = [_standing_in(record, made.get(_place(record))) for record in records]
    first = next((record for record in shown if record.kind is RecordKind.ITEM and not record.erased), None)
    gone = next((record for record in shown if record.kind is RecordKind.ITEM and record.erased), None)
    if not begins or gone is None or first is None or gone.ordinal > first.ordinal:
        return shown
    said = opening(Item(first.body), dialect=dialect)
    return [_standing_in(record, said if record is gone else None) for record in shown]


async def _halves(store: ThreadStore, erased: Iterable[Record]) -> dict[Pointer, Half]:
    wanted = {_place(record) for record in erased}
    found: dict[Pointer, Half] = {}
    for thread_id in sorted({pointer.thread_id for pointer in wanted}):
        row = await store.get(thread_id)
        notes = await store.read(Span(thread_id=row.id, start=row.start, stop=row.next), kinds={RecordKind.NOTE})
        for note in (said for record in notes if (said := read_note(record.body)) is not None):
            found.update({Pointer(thread_id, ordinal): half for ordinal, half in note.halves.items()})
    return {pointer: half for pointer, half in found.items() if pointer in wanted}


def _standing_in(record: Record, item: Item | None) -> Record:
    if item is None:
        return record
    return replace(record, body=item.raw, tokens=estimate_item(item.raw), erased=False)


def _place(record: Record) -> Pointer:
    return Pointer(record.thread_id, record.ordinal)
