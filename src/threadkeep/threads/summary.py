"""A thread in a list: its title, its counts and the size of its window, found without reading what is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass

from threadkeep.errors import RecordNotFound, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import Checkpoint, LivePath, MetaBody, TurnBody
from threadkeep.threads.reader import load_current_turn, load_history, load_live_path, load_metadata, read_body

# Records are read some thousands at a time, so that other requests are served in between.
SLICE = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadSummary:
    """A thread in a list; `tokens` is the size of its window."""

    id: str
    title: str
    dialect: str
    records: int
    turns: int
    checkpoints: int
    tokens: int
    updated_at_ms: int
    parent: str | None
    archived: bool = False


async def summarise_threads(store: ThreadStore, *, limit: int, archived: bool) -> list[ThreadSummary]:
    """Return threads, the most recently written first; archived ones only with `archived`."""
    rows = [(row, await load_metadata(store, row.id)) for row in await store.threads(limit=limit)]
    return [await summarise_thread(store, row, meta) for row, meta in rows if archived or not meta.archived]


async def summarise_thread(store: ThreadStore, row: ThreadRow, meta: MetaBody) -> ThreadSummary:
    """Return the summary of a thread whose metadata is known."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    return ThreadSummary(
        id=row.id,
        title=await find_title(store, row, meta),
        dialect=row.dialect,
        records=row.next - row.start,
        turns=await load_current_turn(store, row, stop=row.next),
        checkpoints=len(await store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False)),
        tokens=await measure_window(store, row),
        updated_at_ms=row.updated_at_ms,
        parent=row.parent,
        archived=meta.archived,
    )


async def find_title(store: ThreadStore, row: ThreadRow, meta: MetaBody | None = None) -> str:
    """Return a thread's title: its own, else the first line a person said in it or in the thread it was forked from."""
    if title := (meta or await load_metadata(store, row.id)).title:
        return title
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            turn = read_body(record, TurnBody)
            return turn.preview if turn else ""
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


async def read_slices(store: ThreadStore, span: Span, *, kinds: Collection[RecordKind]) -> AsyncIterator[Sequence[Record]]:
    """Yield the records of a span without their bodies, oldest first, a slice at a time."""
    for start in range(span.start, span.stop, SLICE):
        part = Span(thread_id=span.thread_id, start=start, stop=min(span.stop, start + SLICE))
        yield await store.read(part, kinds=kinds, bodies=False)


async def measure_checkpoint(store: ThreadStore, checkpoint: Record) -> int:
    """Return the size of the window right after a compaction; an imported checkpoint has it only among its figures."""
    if checkpoint.tokens:
        return checkpoint.tokens
    span = Span(thread_id=checkpoint.thread_id, start=checkpoint.ordinal, stop=checkpoint.ordinal + 1)
    for record in await store.read(span):
        made = read_body(record, Checkpoint)
        return made.figures.get("tokens_after", 0) if made else 0
    return 0


async def measure_window(store: ThreadStore, row: ThreadRow) -> int:
    """Return our estimate of a thread's window: the newest checkpoint's size and every item since.

    Erased items count nothing. 0 if damage keeps the window from being read.
    """
    path = await load_live_path(store, row.id, stop=row.next)
    since = path.checkpoint.ordinal + 1 if path.checkpoint else 0
    tokens = await measure_checkpoint(store, path.checkpoint) if path.checkpoint else 0
    for span in path.spans:
        later = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        async for records in read_slices(store, later, kinds={RecordKind.ITEM}):
            if any(record.erased for record in records):
                # The other half of an erased call gets a stand-in, whose size only the whole history tells.
                return await measure_history(store, path) or 0
            tokens += sum(record.tokens for record in records)
    return tokens


async def measure_history(store: ThreadStore, path: LivePath) -> int | None:
    """Return the size of a window from its items; None if damage keeps it from being read."""
    try:
        return (await load_history(store, path)).tokens
    except (StoreCorrupt, RecordNotFound):
        return None
