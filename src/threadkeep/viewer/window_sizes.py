"""How large a thread's window is, without reading what is in it, and how full that makes it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence

from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import RecordNotFound, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import Checkpoint, LivePath
from threadkeep.threads.reader import find_last_usage, load_checkpoint, load_history, load_live_path, read_body
from threadkeep.tokens import Pressure, measure_pressure

# Records are read some thousands at a time, so that other requests are served in between.
SLICE = 5_000


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


async def read_pressure(tk: Threadkeep, thread: Thread) -> Pressure | None:
    """Return how full a thread's window is for the model asked last; None if the newest checkpoint cannot be read."""
    backend = tk.backend
    path = await load_live_path(backend.store, thread.id)
    try:
        made = await load_checkpoint(backend.store, path.checkpoint) if path.checkpoint else None
    except StoreCorrupt:
        return None
    return measure_pressure(
        limits=backend.find_limits(await thread.last_model()),
        estimated=await measure_window(backend.store, await backend.store.get(thread.id)),
        calibration=await find_last_usage(backend.store, path, made),
    )
