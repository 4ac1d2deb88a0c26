"""How large a thread's window is, without reading what is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.errors import RecordNotFound, StoreCorrupt
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import Checkpoint, LivePath
from threadkeep.threads.reader import find_last_usage, load_checkpoint, load_history, load_live_path, read_body
from threadkeep.threads.tombstones import ErasureNote, read_erasure_note
from threadkeep.tokens import Pressure, measure_pressure

# Records are looked through some thousands at a time, so that whoever else is served meanwhile hardly notices.
SLICE = 5_000
# Sizes that are kept: a number each.
MOST_KNOWN = 10_000


async def slices(store: ThreadStore, span: Span, *, kinds: Collection[RecordKind]) -> AsyncIterator[Sequence[Record]]:
    """Yield the records of a span without their bodies, oldest first, a slice at a time."""
    for start in range(span.start, span.stop, SLICE):
        part = Span(thread_id=span.thread_id, start=start, stop=min(span.stop, start + SLICE))
        yield await store.read(part, kinds=kinds, bodies=False)


async def size_after(store: ThreadStore, checkpoint: Record) -> int:
    """Return the size of the window right after a compaction; an imported one says so only in its figures."""
    if checkpoint.tokens:
        return checkpoint.tokens
    span = Span(thread_id=checkpoint.thread_id, start=checkpoint.ordinal, stop=checkpoint.ordinal + 1)
    for record in await store.read(span):
        made = read_body(record, Checkpoint)
        return made.figures.get("tokens_after", 0) if made else 0
    return 0


class Sizes:
    """The sizes of windows, each kept until its thread is written again."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Size] = {}

    async def of(self, store: ThreadStore, row: ThreadRow) -> int:
        """Return what a thread's window holds by our estimate: what the newest compaction left, and every item since.

        What was erased is not in it. 0 where damage keeps the window from being put together.
        """
        key = (store.tenant.name, row.id)
        known = self._known.get(key)
        if known is not None and known.next == row.next:
            seen = await sighted(store, known.seen.marks, before=known.seen)
            if not seen.erased:
                return known.tokens
        path = await load_live_path(store, row.id, stop=row.next)
        seen = await sighted(store, dict.fromkeys(span.thread_id for span in path.spans))
        tokens = await _window_tokens(store, path)
        if len(self._known) >= MOST_KNOWN:
            self._known.clear()
        self._known[key] = _Size(next=row.next, tokens=tokens, seen=seen)
        return tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """The size a window had when its thread's next record was `next`, and what was known of erasures then."""

    next: int
    tokens: int
    seen: Sighting


async def _window_tokens(store: ThreadStore, path: LivePath) -> int:
    since = path.checkpoint.ordinal + 1 if path.checkpoint else 0
    tokens = await size_after(store, path.checkpoint) if path.checkpoint else 0
    for span in path.spans:
        later = Span(thread_id=span.thread_id, start=max(span.start, since), stop=span.stop)
        async for records in slices(store, later, kinds={RecordKind.ITEM}):
            if any(record.erased for record in records):
                return await _left_of(store, path)
            tokens += sum(record.tokens for record in records)
    return tokens


async def _left_of(store: ThreadStore, path: LivePath) -> int:
    """Return the size of a window that lost items: what stands in for a half of a call is known only from the other half."""
    try:
        return (await load_history(store, path)).tokens
    except (StoreCorrupt, RecordNotFound):
        return 0


async def pressure_on(tk: Threadkeep, thread: Thread, *, sizes: Sizes) -> Pressure:
    """Return how full a thread's window is, against the limits of the model that was asked last.

    Raises:
        StoreCorrupt: The newest compaction cannot be read.
    """
    backend = tk.backend
    path = await load_live_path(backend.store, thread.id)
    made = await load_checkpoint(backend.store, path.checkpoint) if path.checkpoint else None
    return measure_pressure(
        limits=backend.find_limits(await thread.last_model()),
        estimated=await sizes.of(backend.store, await backend.store.get(thread.id)),
        calibration=await find_last_usage(backend.store, path, made),
    )


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
    return [(record, note) for record in notes if record.chain is None and (note := read_erasure_note(record.body)) is not None]


async def _is_done(store: ThreadStore, row: ThreadRow, note: ErasureNote) -> bool:
    if not note.ordinals:
        return True
    span = Span(thread_id=row.id, start=row.start, stop=row.next)
    return all(record.erased for record in await store.read(span, ordinals=note.ordinals, bodies=False))
