"""What a thread is called, and whether it is put away: facts about it, kept as records like everything else."""

from __future__ import annotations

import msgspec

from threadkeep.store import NewRecord, RecordKind, Span, ThreadStore
from threadkeep.threads import MetaBody, encode_body
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.reader import current_turn, readable


async def description(store: ThreadStore, thread_id: str) -> MetaBody:
    """Return what a thread says about itself now."""
    row = await store.get(thread_id)
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    for record in await store.read(own, kinds={RecordKind.META}, newest_first=True, limit=1):
        if (known := readable(record, MetaBody)) is not None:
            return known
    return MetaBody(dialect=row.dialect, parent=row.parent)


async def describe(
    backend: ThreadBackend,
    thread_id: str,
    *,
    title: str | None = None,
    archived: bool | None = None,
    memory: str | None = None,
) -> None:
    """Record what has changed about a thread; None leaves a fact as it is.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    known = await description(backend.store, thread_id)
    changed = msgspec.structs.replace(
        known,
        title=known.title if title is None else title,
        archived=known.archived if archived is None else archived,
        memory=known.memory if memory is None else memory,
    )
    if changed == known:
        return
    row = await backend.store.get(thread_id)
    record = NewRecord(
        kind=RecordKind.META,
        at_ms=backend.clock.now_ms(),
        turn=await current_turn(backend.store, row, stop=row.next),
        tokens=0,
        body=encode_body(changed),
    )
    await backend.append(thread_id, [record], expected=row.next)
