"""Erasing on request, complete: the bytes, and everything in the store that was made of them.

What a record says is also in the preview of its turn, in the reply it came as, in the words of the search index, in checkpoints
that were drawn up over it, here and in every fork, and in memories. All of that goes with it; a checkpoint is undone first, so
that no window is built on it, and a new one is made of what is left. What is kept is a note that it was done, and the digests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.inline import parted
from threadkeep.dialects import find_dialect
from threadkeep.errors import NothingToCompact, OrdinalConflict, RecordNotFound
from threadkeep.items import Item, View
from threadkeep.memory.memory import Memories
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads import MetaBody, ReplyBody, is_failed_attempt
from threadkeep.threads.branches import undo_compaction
from threadkeep.threads.reader import load_live_path, load_metadata, read_body
from threadkeep.threads.tombstones import ErasureNote, Half, make_call_placeholder, read_erasure_note, select_half
from threadkeep.threads.writer import update_metadata

EVERY = 10_000_000
# Kinds whose body quotes what stands in an item of the same turn.
QUOTING = frozenset({RecordKind.TURN, RecordKind.REPLY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePlan:
    """What erasing comes to.

    Attributes:
        asked: Ordinals somebody named; all of the thread's, if they named none.
        ordinals: Those and what quotes them in the thread: previews, replies, and the other half of a call.
        checkpoints: By thread, the checkpoints that were drawn up over them.
        torn: By thread, what others hold of a call that goes: copies of it, and halves nothing can stand in for.
        halves: By thread and ordinal, what goes of calls whose other half stays; something stands in its place from then on.
        whole: Whether the whole thread goes.
    """

    thread: str
    asked: tuple[int, ...]
    ordinals: tuple[int, ...]
    checkpoints: dict[str, tuple[int, ...]]
    torn: dict[str, tuple[int, ...]]
    whole: bool
    halves: dict[str, dict[int, Half]] = field(default_factory=dict)


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
    stays = _find_anonymous_meta(records) | _find_done_notes(records)
    asked = sorted(known - stays) if ordinals is None else sorted(set(ordinals))
    going = set(asked) if whole else _add_quotes(records, asked, dialect=row.dialect)
    lost = [record for record in records if record.ordinal in going]
    calls = _collect_calls(_view_items(lost, dialect=row.dialect))
    checkpoints: dict[str, tuple[int, ...]] = {}
    others: dict[str, _OtherThread] = {}
    for seen in await _find_affected_threads(backend, row, first=min(asked, default=row.next)):
        own = Span(thread_id=seen.id, start=seen.start, stop=seen.next)
        found = await backend.store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False)
        # A fork's own are all later than where it began; the thread's own, only those after the first record that goes.
        over = [each.ordinal for each in found if seen.id != row.id or each.ordinal > min(asked, default=0)]
        if over:
            checkpoints[seen.id] = tuple(over)
        if seen.id != row.id:
            told = await backend.store.read(own, kinds={RecordKind.ITEM, RecordKind.REPLY})
            others[seen.id] = _examine_other(told, calls, lost={record.digest for record in lost}, dialect=seen.dialect)
    halves = {
        row.id: _find_halves(lost, orphaned={call for other in others.values() for call in other.orphaned}, dialect=row.dialect)
    }
    halves |= {name: other.halves for name, other in others.items()}
    return ErasurePlan(
        thread=thread_id,
        asked=tuple(asked),
        ordinals=tuple(sorted(going)),
        checkpoints=checkpoints,
        torn={name: other.torn for name, other in others.items() if other.torn},
        halves={name: each for name, each in halves.items() if each},
        whole=whole,
    )


async def erase(backend: Backend, plan: ErasurePlan, *, reason: str, memories: Memories, recompact: Recompact) -> ErasureReport:
    """Carry a plan out. Every step can be repeated: where it was cut short, erasing again finishes it.

    Raises:
        StoreError: The store could not do all of it; what it says names the rest.
    """
    store, now = backend.store, backend.clock.now_ms()
    undone = await _undo_checkpoints(backend, plan)
    if plan.whole:
        await memories.forget([plan.thread])
    await memories.read_again([*plan.checkpoints, plan.thread])
    # Noted before it is done: no window is ever without what stands in for a half that is gone.
    await _note_everywhere(backend, plan, reason=reason)
    # Who wrote something of it before the note was there is found now; a checkpoint that comes after it is refused.
    known_now = await plan_erasure(backend, plan.thread, None if plan.whole else plan.asked)
    if not plan.whole and known_now != plan:
        plan = known_now
        await _note_everywhere(backend, plan, reason=reason)
    plan = replace(plan, checkpoints=known_now.checkpoints)
    undone |= await _undo_checkpoints(backend, plan)
    erased = await store.erase(plan.thread, plan.ordinals, at_ms=now)
    for thread_id, ordinals in (*plan.checkpoints.items(), *plan.torn.items()):
        erased += await store.erase(thread_id, ordinals, at_ms=now)
    # Whoever read a thread for the memory before its bytes were gone may have written it down since.
    await memories.read_again([*plan.checkpoints, plan.thread])
    if plan.whole:
        await update_metadata(backend, plan.thread, title="", archived=True)
    remade: list[str] = []
    for thread_id in sorted(undone):
        if plan.whole and thread_id == plan.thread:
            continue
        try:
            await recompact(thread_id)
        except NothingToCompact:
            continue
        remade.append(thread_id)
    count = sum(map(len, plan.checkpoints.values()))
    return ErasureReport(thread=plan.thread, records=erased, checkpoints=count, recompacted=tuple(remade))


def _find_anonymous_meta(records: Sequence[Record]) -> set[int]:
    """Return a thread's first record if it says nothing of anybody: what dialect it speaks and where it was forked."""
    first = read_body(records[0], MetaBody) if records and records[0].kind is RecordKind.META else None
    return {records[0].ordinal} if first is not None and not first.title else set()


def _find_done_notes(records: Sequence[Record]) -> set[int]:
    """Return the notes of erasures that were carried out: they say nothing of anybody, and are the proof that it was done."""
    gone = {record.ordinal for record in records if record.erased}
    notes = ((record.ordinal, read_erasure_note(record.body)) for record in records if record.kind is RecordKind.NOTE)
    return {ordinal for ordinal, note in notes if note is not None and note.ordinals and gone.issuperset(note.ordinals)}


@dataclass(frozen=True, slots=True, kw_only=True)
class _OtherThread:
    """What another thread, which sees or continues the one, holds of calls that go.

    Attributes:
        torn: Items that go too.
        orphaned: Calls it holds the output of, which stays.
        halves: Items that go with theirs because they are the same bytes, and whose other half stays.
    """

    torn: tuple[int, ...]
    orphaned: frozenset[str]
    halves: dict[int, Half]


def _examine_other(records: Sequence[Record], calls: Collection[str], *, lost: Collection[bytes], dialect: str) -> _OtherThread:
    speaks = find_dialect(dialect)
    items = [record for record in records if record.kind is RecordKind.ITEM]
    views = _view_items(items, dialect=dialect)
    opened = {call for view in views.values() for call in view.opens}
    bodies = {record.ordinal: record for record in items}
    torn: set[int] = set()
    orphaned: set[str] = set()
    for ordinal, view in views.items():
        mine = set(calls) & {*view.opens, *view.closes}
        outputs = [(call, Item(bodies[ordinal].body)) for call in view.closes if call in mine]
        # A call that is here as well is a copy, whoever made it; an output alone answers what was called where this began.
        alone = bool(outputs) and not mine & opened and make_call_placeholder(outputs, dialect=speaks) is not None
        if alone:
            orphaned |= mine
        elif mine:
            torn.add(ordinal)
    torn |= {record.ordinal for record in records if _is_compaction(record)}
    same = [record for record in items if record.digest in lost and record.ordinal not in torn]
    gone = {ordinal: views[ordinal] for ordinal in (record.ordinal for record in same) if ordinal in views}
    unpaired = {call for view in gone.values() for call in (*view.opens, *view.closes)}
    made = {ordinal: half for ordinal, view in gone.items() if (half := select_half(view, unpaired)) is not None}
    return _OtherThread(torn=tuple(sorted(torn)), orphaned=frozenset(orphaned), halves=made)


def _find_halves(lost: Sequence[Record], *, orphaned: Collection[str], dialect: str) -> dict[int, Half]:
    """Return what goes of calls whose other half does not, here or in a thread that began here."""
    views = _view_items(lost, dialect=dialect)
    opened = {call for view in views.values() for call in view.opens}
    closed = {call for view in views.values() for call in view.closes}
    wanted = (opened ^ closed) | set(orphaned)
    return {ordinal: half for ordinal, view in views.items() if (half := select_half(view, wanted)) is not None}


def _add_quotes(records: Sequence[Record], asked: Sequence[int], *, dialect: str) -> set[int]:
    """Return records with what quotes them, and with the other half of each tool call, so that no pair is torn."""
    views = _view_items(records, dialect=dialect)
    calls = _collect_calls({ordinal: views[ordinal] for ordinal in asked if ordinal in views})
    going = set(asked) | {ordinal for ordinal, view in views.items() if calls & {*view.opens, *view.closes}}
    # What a provider compacted by itself stands for everything before it, in words or sealed.
    going |= {record.ordinal for record in records if record.ordinal > min(asked) and _is_compaction(record)} if asked else set()
    turns = {record.turn for record in records if record.ordinal in going}
    quoting = (record for record in records if record.kind in QUOTING and not is_failed_attempt(record))
    return going | {record.ordinal for record in quoting if record.turn in turns}


def _is_compaction(record: Record) -> bool:
    """Whether a record holds what a provider compacted by itself: in the history, or in an answer nobody sent back yet."""
    if record.erased or record.kind not in (RecordKind.ITEM, RecordKind.REPLY):
        return False
    reply = read_body(record, ReplyBody) if record.kind is RecordKind.REPLY else None
    items = [bytes(raw) for raw in reply.items] if reply is not None else [record.body]
    return any(parted(Item(raw)).written is not None for raw in items)


def _view_items(records: Iterable[Record], *, dialect: str) -> dict[int, View]:
    speaks = find_dialect(dialect)
    items = (record for record in records if record.kind is RecordKind.ITEM and not record.erased)
    return {record.ordinal: speaks.view(Item(record.body)) for record in items}


def _collect_calls(views: dict[int, View]) -> set[str]:
    return {call for view in views.values() for call in (*view.opens, *view.closes)}


async def _find_affected_threads(backend: Backend, row: ThreadRow, *, first: int) -> list[ThreadRow]:
    """Return the thread, those forked from it after its record `first`, theirs in turn, and those that continue one of them."""
    rows = await backend.store.threads(limit=EVERY)
    continued = {each.id: (await load_metadata(backend.store, each.id)).continues for each in rows}
    seen, waiting = {row.id: row}, [row]
    while waiting:
        at = waiting.pop()
        for each in rows:
            forked = each.parent == at.id and each.start > first
            if each.id not in seen and (forked or continued[each.id] == at.id):
                seen[each.id] = each
                waiting.append(each)
    return list(seen.values())


async def _undo_checkpoints(backend: Backend, plan: ErasurePlan) -> set[str]:
    """Undo every checkpoint that has to go where a window stands on it, and return the threads where one did."""
    undone = set(await _find_affected_windows(backend, plan))
    for thread_id in undone:
        while await _rests_on_checkpoint(backend, thread_id, plan):
            await undo_compaction(backend, thread_id)
    return undone


async def _find_affected_windows(backend: Backend, plan: ErasurePlan) -> list[str]:
    """Return the threads whose window stands on a checkpoint that has to go: in a fork it may be its parent's."""
    row = await backend.store.get(plan.thread)
    seen = await _find_affected_threads(backend, row, first=min(plan.asked, default=row.next))
    return [each.id for each in seen if await _rests_on_checkpoint(backend, each.id, plan)]


async def _rests_on_checkpoint(backend: Backend, thread_id: str, plan: ErasurePlan) -> bool:
    checkpoint = (await load_live_path(backend.store, thread_id)).checkpoint
    return checkpoint is not None and checkpoint.ordinal in plan.checkpoints.get(checkpoint.thread_id, ())


async def _note_everywhere(backend: Backend, plan: ErasurePlan, *, reason: str) -> None:
    """Write down, in each thread that loses something, what it loses and for whose sake."""
    for thread_id in dict.fromkeys((plan.thread, *plan.checkpoints, *plan.torn, *plan.halves)):
        is_own = thread_id == plan.thread
        quoted = (*plan.checkpoints.get(thread_id, ()), *plan.torn.get(thread_id, ()))
        halves = plan.halves.get(thread_id, {})
        note = ErasureNote(
            ordinals=sorted({*quoted, *(plan.ordinals if is_own else halves)}),
            asked=list(plan.asked) if is_own else [],
            reason=reason,
            by=backend.holder,
            thread="" if is_own else plan.thread,
            halves=halves,
        )
        await _append_note(backend, thread_id, msgspec.json.encode(note))


async def _append_note(backend: Backend, thread_id: str, body: bytes) -> None:
    note = NewRecord(kind=RecordKind.NOTE, at_ms=backend.clock.now_ms(), turn=0, tokens=0, body=body)
    expected = (await backend.store.get(thread_id)).next
    while True:
        try:
            await backend.store.append(thread_id, [note], expected=expected)
        except OrdinalConflict as moved:
            # It is beside the history: whatever came first, it is as true after it.
            expected = moved.actual
        else:
            return
