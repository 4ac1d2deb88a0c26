"""Many threads become one memory: what says the same is merged, what was taken back goes, what is of no use retires."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from threadkeep.memory.records import Extracted, Kept, Snapshot, memory_id
from threadkeep.memory.state import MemoryState, rank

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much is remembered, and for how long without use."""

    memories: int = 256
    unused_ms: int = 30 * DAY_MS


def consolidated(
    state: MemoryState,
    *,
    now_ms: int,
    bounds: Bounds,
    forget: Collection[str] = (),
    polluted: Collection[str] = (),
) -> Snapshot:
    """Return the memory with everything pending taken in. The same state gives the same memory, whoever computes it.

    A thread's newest extraction stands in place of its older ones: what it no longer says loses that thread as a source, and a
    memory without a source is gone unless a person pinned it. Rules of several threads stand beside each other, each with its
    time: which of them replaces which is not for code to say. `forget` names threads to drop, now and for good; `polluted` those
    that are dropped because of what they read.
    """
    before = state.snapshot
    forgotten = {*before.forgotten, *forget}
    unclean = {*before.polluted, *polluted, *(each.thread for each in state.pending.values() if each.polluted)}
    held = {memory.id: memory for memory in before.memories}
    no_longer = {*state.pending, *forgotten, *unclean}
    held = {name: _without(memory, no_longer, erased=forgotten) for name, memory in held.items()}
    for pending in sorted(state.pending.values(), key=lambda each: (each.at_ms, each.thread)):
        if pending.thread not in forgotten | unclean:
            _set_aside(held, pending)
            _take_in(held, pending, removed=before.removed)
    alive = [memory for memory in held.values() if memory.pinned or (memory.sources and not _idle(memory, now_ms, bounds))]
    kept = sorted(alive, key=rank, reverse=True)[: bounds.memories]
    return msgspec.structs.replace(
        before,
        at_ms=now_ms,
        memories=sorted(kept, key=lambda memory: memory.id),
        watermarks={**before.watermarks, **{each.thread: each.watermark for each in state.pending.values()}},
        forgotten=sorted(forgotten),
        polluted=sorted(unclean),
    )


def _set_aside(held: dict[str, Kept], pending: Extracted) -> None:
    """Drop what a thread held to once and took back."""
    older = {name for name, memory in held.items() if not memory.pinned and memory.seen_ms <= pending.at_ms}
    for name in older.intersection(pending.superseded):
        del held[name]


def _take_in(held: dict[str, Kept], pending: Extracted, *, removed: Collection[str]) -> None:
    for entry in pending.entries:
        name = memory_id(entry.text)
        if name in removed:
            continue
        known = held.get(name)
        if known is None:
            known = Kept(id=name, kind=entry.kind, text=entry.text, sources=[], seen_ms=pending.at_ms)
        said = {**_said(known), pending.thread: entry.source}
        held[name] = msgspec.structs.replace(_from(known, said), seen_ms=max(known.seen_ms, pending.at_ms))


def _without(memory: Kept, threads: Collection[str], *, erased: Collection[str]) -> Kept:
    """Return a memory as the other threads say it; of what stands in an `erased` thread's records, no fork says it either."""
    said = _said(memory)
    left = {name: at for name, at in said.items() if name not in threads and at.rpartition("#")[0] not in erased}
    return memory if left == said else _from(memory, left)


def _from(memory: Kept, said: dict[str, str]) -> Kept:
    return msgspec.structs.replace(memory, said=dict(sorted(said.items())), sources=sorted(set(said.values())))


def _said(memory: Kept) -> dict[str, str]:
    """Return who says it; a snapshot of an older threadkeep has only where it was said."""
    return memory.said or {source.rpartition("#")[0]: source for source in memory.sources}


def _idle(memory: Kept, now_ms: int, bounds: Bounds) -> bool:
    return max(memory.used_ms, memory.seen_ms) + bounds.unused_ms < now_ms
