"""Many threads become one memory: what says the same is merged, what was taken back goes, what is of no use retires."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from holdfast.memory.records import Extracted, Kept, Snapshot, memory_id
from holdfast.memory.state import MemoryState, rank

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is remembered, and for how long without use."""

    memories: int = 256
    unused_ms: int = 30 * DAY_MS


def consolidated(state: MemoryState, *, now_ms: int, bounds: Bounds, forget: Collection[str] = ()) -> Snapshot:
    """Return the memory with everything pending taken in. The same state gives the same memory, whoever computes it.

    A thread's newest extraction stands in place of its older ones: what it no longer says loses that thread as a source, and a
    memory without a source is gone unless a person pinned it. `forget` names threads to drop, now and for good.
    """
    before = state.snapshot
    forgotten = {*before.forgotten, *forget}
    held = {memory.id: memory for memory in before.memories}
    for thread in sorted({*state.pending, *forgotten}):
        held = {name: _without(memory, thread) for name, memory in held.items()}
    for pending in sorted(state.pending.values(), key=lambda each: (each.at_ms, each.thread)):
        if pending.thread not in forgotten:
            _take_in(held, pending, removed=before.removed)
    alive = [memory for memory in held.values() if memory.pinned or (memory.sources and not _idle(memory, now_ms, bounds))]
    kept = sorted(alive, key=rank, reverse=True)[: bounds.memories]
    return msgspec.structs.replace(
        before,
        at_ms=now_ms,
        memories=sorted(kept, key=lambda memory: memory.id),
        watermarks={**before.watermarks, **{each.thread: each.watermark for each in state.pending.values()}},
        forgotten=sorted(forgotten),
    )


def _take_in(held: dict[str, Kept], pending: Extracted, *, removed: Collection[str]) -> None:
    for name in pending.superseded:
        older = held.get(name)
        if older is not None and not older.pinned and older.seen_ms <= pending.at_ms:
            del held[name]
    for entry in pending.entries:
        name = memory_id(entry.text)
        if name in removed:
            continue
        known = held.get(name)
        if known is None:
            held[name] = Kept(id=name, kind=entry.kind, text=entry.text, sources=[entry.source], seen_ms=pending.at_ms)
        else:
            sources = sorted({*known.sources, entry.source})
            held[name] = msgspec.structs.replace(known, sources=sources, seen_ms=max(known.seen_ms, pending.at_ms))


def _without(memory: Kept, thread: str) -> Kept:
    others = [source for source in memory.sources if source.rpartition("#")[0] != thread]
    return memory if len(others) == len(memory.sources) else msgspec.structs.replace(memory, sources=others)


def _idle(memory: Kept, now_ms: int, bounds: Bounds) -> bool:
    return max(memory.used_ms, memory.seen_ms) + bounds.unused_ms < now_ms
