"""Erasing on request, complete: the bytes, and everything in the store that was made of them.

What a record says is also in the preview of its turn, in the reply it came as, in the words of the search index, in checkpoints
that were drawn up over it, here and in every fork, and in memories. All of that goes with it; a checkpoint is undone first, so
that no window is built on it, and a new one is made of what is left. What is kept is a note that it was done, and the digests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from holdfast.dialects import dialect_named
from holdfast.errors import NothingToCompact, RecordNotFound
from holdfast.items import Item, View
from holdfast.runtime.backend import Backend
from holdfast.runtime.branching import undo_compaction
from holdfast.runtime.describing import describe, description
from holdfast.runtime.reading import live_path, readable
from holdfast.runtime.remembering import Memories
from holdfast.store import NewRecord, Record, RecordKind, Span, ThreadRow
from holdfast.thread import MetaBody

EVERY = 10_000_000
# Kinds whose body quotes what stands in an item of the same turn.
QUOTING = frozenset({RecordKind.TURN, RecordKind.REPLY})


class ErasureNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="note", tag="erasure"):
    """What is kept of an erasure: that it was, why, and what it reached. Nothing of what was erased."""

    ordinals: list[int]
    asked: list[int]
    reason: str = ""
    by: str = ""
    v: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePlan:
    """What erasing comes to.

    Attributes:
        asked: Ordinals somebody named; all of the thread's, if they named none.
        ordinals: Those and what quotes them in the thread: previews, replies, and the other half of a call.
        checkpoints: By thread, the checkpoints that were drawn up over them.
        torn: By thread, what forks hold of a call whose other half goes.
        whole: Whether the whole thread goes.
    """

    thread: str
    asked: tuple[int, ...]
    ordinals: tuple[int, ...]
    checkpoints: dict[str, tuple[int, ...]]
    torn: dict[str, tuple[int, ...]]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """What was done: records that lost their bytes, checkpoints undone and made anew, by thread."""

    thread: str
    records: int
    checkpoints: int
    recompacted: tuple[str, ...]


class Recompact(Protocol):
    """Makes a checkpoint of what is left of a thread, without a model.

    Raises:
        NothingToCompact: There is too little left for one.
    """

    async def __call__(self, thread_id: str) -> object: ...


async def plan_erasure(backend: Backend, thread_id: str, ordinals: Collection[int] | None = None) -> ErasurePlan:
    """Return what has to go with these records of a thread, or with all of them. Changes nothing.

    Looks at every thread of the tenant for what was forked from it or continues it.

    Raises:
        ThreadNotFound: There is no such thread.
        RecordNotFound: An ordinal is not among its own records.
    """
    row = await backend.store.get(thread_id)
    records = await backend.store.read(Span(thread_id=row.id, start=row.start, stop=row.next))
    known = {record.ordinal for record in records}
    for ordinal in ordinals or ():
        if ordinal not in known:
            raise RecordNotFound(thread_id, ordinal)
    whole = ordinals is None
    asked = sorted(known) if ordinals is None else sorted(set(ordinals))
    going = set(asked) - _unnamed_meta(records) if whole else _with_quotes(records, asked, dialect=row.dialect)
    calls = _calls(_views((record for record in records if record.ordinal in going), dialect=row.dialect))
    checkpoints: dict[str, tuple[int, ...]] = {}
    torn: dict[str, tuple[int, ...]] = {}
    for seen in await _who_sees(backend, row, first=min(asked, default=row.next)):
        own = Span(thread_id=seen.id, start=seen.start, stop=seen.next)
        found = await backend.store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False)
        # A fork's own are all later than where it began; the thread's own, only those after the first record that goes.
        over = [each.ordinal for each in found if seen.id != row.id or each.ordinal > min(asked, default=0)]
        if over:
            checkpoints[seen.id] = tuple(over)
        if calls and seen.id != row.id:
            views = _views(await backend.store.read(own, kinds={RecordKind.ITEM}), dialect=seen.dialect)
            torn[seen.id] = tuple(ordinal for ordinal, view in views.items() if calls & {*view.opens, *view.closes})
    return ErasurePlan(
        thread=thread_id,
        asked=tuple(asked),
        ordinals=tuple(sorted(going)),
        checkpoints=checkpoints,
        torn={name: halves for name, halves in torn.items() if halves},
        whole=whole,
    )


async def erase(backend: Backend, plan: ErasurePlan, *, reason: str, memories: Memories, recompact: Recompact) -> ErasureReport:
    """Carry a plan out. Every step can be repeated: where it was cut short, erasing again finishes it.

    Raises:
        StoreError: The store could not do all of it; what it says names the rest.
    """
    store, now = backend.store, backend.clock.now_ms()
    undone: list[str] = []
    for thread_id in await _windows_over(backend, plan):
        undone.append(thread_id)
        while await _counts(backend, thread_id, plan):
            await undo_compaction(backend, thread_id)
    if plan.whole:
        await memories.forget([plan.thread])
    await memories.read_again([*plan.checkpoints, plan.thread])
    erased = await store.erase(plan.thread, plan.ordinals, at_ms=now)
    for thread_id, ordinals in (*plan.checkpoints.items(), *plan.torn.items()):
        erased += await store.erase(thread_id, ordinals, at_ms=now)
    await _note(backend, plan, reason=reason)
    if plan.whole:
        await describe(backend, plan.thread, title="", archived=True)
    remade: list[str] = []
    for thread_id in undone:
        if plan.whole and thread_id == plan.thread:
            continue
        try:
            await recompact(thread_id)
        except NothingToCompact:
            continue
        remade.append(thread_id)
    count = sum(map(len, plan.checkpoints.values()))
    return ErasureReport(thread=plan.thread, records=erased, checkpoints=count, recompacted=tuple(remade))


def _unnamed_meta(records: Sequence[Record]) -> set[int]:
    """Return a thread's first record if it says nothing of anybody: what dialect it speaks and where it was forked."""
    first = readable(records[0], MetaBody) if records and records[0].kind is RecordKind.META else None
    return {records[0].ordinal} if first is not None and not first.title else set()


def _with_quotes(records: Sequence[Record], asked: Sequence[int], *, dialect: str) -> set[int]:
    """Return records with what quotes them, and with the other half of each tool call, so that no pair is torn."""
    views = _views(records, dialect=dialect)
    calls = _calls({ordinal: views[ordinal] for ordinal in asked if ordinal in views})
    going = set(asked) | {ordinal for ordinal, view in views.items() if calls & {*view.opens, *view.closes}}
    turns = {record.turn for record in records if record.ordinal in going}
    return going | {record.ordinal for record in records if record.kind in QUOTING and record.turn in turns}


def _views(records: Iterable[Record], *, dialect: str) -> dict[int, View]:
    speaks = dialect_named(dialect)
    items = (record for record in records if record.kind is RecordKind.ITEM and not record.erased)
    return {record.ordinal: speaks.view(Item(record.body)) for record in items}


def _calls(views: dict[int, View]) -> set[str]:
    return {call for view in views.values() for call in (*view.opens, *view.closes)}


async def _who_sees(backend: Backend, row: ThreadRow, *, first: int) -> list[ThreadRow]:
    """Return the thread, those forked from it after its record `first`, theirs in turn, and those that continue one of them."""
    rows = await backend.store.threads(limit=EVERY)
    continued = {each.id: (await description(backend.store, each.id)).continues for each in rows}
    seen, waiting = {row.id: row}, [row]
    while waiting:
        at = waiting.pop()
        for each in rows:
            forked = each.parent == at.id and each.start > first
            if each.id not in seen and (forked or continued[each.id] == at.id):
                seen[each.id] = each
                waiting.append(each)
    return list(seen.values())


async def _windows_over(backend: Backend, plan: ErasurePlan) -> list[str]:
    """Return the threads whose window stands on a checkpoint that has to go: in a fork it may be its parent's."""
    row = await backend.store.get(plan.thread)
    seen = await _who_sees(backend, row, first=min(plan.asked, default=row.next))
    return [each.id for each in seen if await _counts(backend, each.id, plan)]


async def _counts(backend: Backend, thread_id: str, plan: ErasurePlan) -> bool:
    checkpoint = (await live_path(backend.store, thread_id)).checkpoint
    return checkpoint is not None and checkpoint.ordinal in plan.checkpoints.get(checkpoint.thread_id, ())


async def _note(backend: Backend, plan: ErasurePlan, *, reason: str) -> None:
    row = await backend.store.get(plan.thread)
    body = ErasureNote(ordinals=list(plan.ordinals), asked=list(plan.asked), reason=reason, by=backend.holder)
    note = NewRecord(kind=RecordKind.NOTE, at_ms=backend.clock.now_ms(), turn=0, tokens=0, body=msgspec.json.encode(body))
    await backend.store.append(plan.thread, [note], expected=row.next)
