"""Erases records on request, with everything in the store that was made of them.

The text of a record is also in the preview of its turn, in the provider's reply, in the search index, in checkpoints of the
thread and its forks, and in memories. All of that is erased too. Checkpoints are undone first, so that no window is built on
them, and new ones are made of what is left. What remains is a note of the erasure, and the digests.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.errors import NothingToCompact, OrdinalConflict, RecordNotFound
from threadkeep.items import Item, View
from threadkeep.memory.memory import Memories
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads import MetaBody, ReplyBody, is_failed_attempt
from threadkeep.threads.erasure_notes import ErasureNote, read_erasure_note
from threadkeep.threads.forks_and_undos import undo_compaction
from threadkeep.threads.reader import load_live_path, read_body
from threadkeep.threads.writer import update_metadata

EVERY = 10_000_000
# Kinds of records that quote items of the same turn.
QUOTING = frozenset({RecordKind.TURN, RecordKind.REPLY})


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasurePlan:
    """What an erasure covers.

    Attributes:
        asked: The ordinals asked for; all of the thread's, if none were named.
        ordinals: Those and the records that quote them: previews, replies, and the other half of a call.
        checkpoints: By thread, the checkpoints made over them.
        torn: By thread, items of other threads that are erased too: those with the same bytes, copies of a call, and outputs
            whose call no placeholder can replace.
        whole: Whether the whole thread is erased.
    """

    thread: str
    asked: tuple[int, ...]
    ordinals: tuple[int, ...]
    checkpoints: dict[str, tuple[int, ...]]
    torn: dict[str, tuple[int, ...]]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """The result: how many records and checkpoints were erased, and which threads were compacted again."""

    thread: str
    records: int
    checkpoints: int
    recompacted: tuple[str, ...]


class Recompact(Protocol):
    """Compacts what is left of a thread, without a model.

    Raises:
        NothingToCompact: Too little is left.
    """

    async def __call__(self, thread_id: str) -> object: ...


async def plan_erasure(backend: Backend, thread_id: str, ordinals: Collection[int] | None = None) -> ErasurePlan:
    """Return what must be erased with these records of a thread, or with all of them. Changes nothing.

    Looks through all threads of the tenant for forks and continuations.

    Raises:
        ThreadNotFound: There is no such thread.
        RecordNotFound: An ordinal is not one of its own records.
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
    torn: dict[str, tuple[int, ...]] = {}
    for seen in await _find_affected_threads(backend, row, first=min(asked, default=row.next)):
        own = Span(thread_id=seen.id, start=seen.start, stop=seen.next)
        found = await backend.store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False)
        # In the thread itself, only checkpoints after the first erased record are affected.
        over = [each.ordinal for each in found if seen.id != row.id or each.ordinal > min(asked, default=0)]
        if over:
            checkpoints[seen.id] = tuple(over)
        if seen.id != row.id:
            told = await backend.store.read(own, kinds={RecordKind.ITEM, RecordKind.REPLY})
            others = _find_torn(told, calls, lost={record.digest for record in lost}, dialect=seen.dialect)
            if others:
                torn[seen.id] = others
    return ErasurePlan(
        thread=thread_id,
        asked=tuple(asked),
        ordinals=tuple(sorted(going)),
        checkpoints=checkpoints,
        torn=torn,
        whole=whole,
    )


async def erase(backend: Backend, plan: ErasurePlan, *, reason: str, memories: Memories, recompact: Recompact) -> ErasureReport:
    """Carry out a plan. Every step can be repeated: erasing again completes an interrupted erasure.

    Raises:
        StoreError: The store could not erase everything; the error names the rest.
    """
    store, now = backend.store, backend.clock.now_ms()
    undone = await _undo_checkpoints(backend, plan)
    if plan.whole:
        await memories.forget([plan.thread])
    await memories.read_again([*plan.checkpoints, plan.thread])
    # Write the note first, so that no window ever lacks a placeholder.
    await _note_everywhere(backend, plan, reason=reason)
    # Plan again for what others wrote before the note; later checkpoints are refused.
    known_now = await plan_erasure(backend, plan.thread, None if plan.whole else plan.asked)
    if not plan.whole and known_now != plan:
        plan = known_now
        await _note_everywhere(backend, plan, reason=reason)
    plan = replace(plan, checkpoints=known_now.checkpoints)
    undone |= await _undo_checkpoints(backend, plan)
    erased = await store.erase(plan.thread, plan.ordinals, at_ms=now)
    for thread_id, ordinals in (*plan.checkpoints.items(), *plan.torn.items()):
        erased += await store.erase(thread_id, ordinals, at_ms=now)
    # A memory pass may have read the thread before it was erased, and written since.
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
    """Return a thread's first record if it has no title: it then holds only the dialect and the parent."""
    first = read_body(records[0], MetaBody) if records and records[0].kind is RecordKind.META else None
    return {records[0].ordinal} if first is not None and not first.title else set()


def _find_done_notes(records: Sequence[Record]) -> set[int]:
    """Return the notes of completed erasures: they quote nothing, and prove that it was done."""
    gone = {record.ordinal for record in records if record.erased}
    notes = ((record.ordinal, read_erasure_note(record.body)) for record in records if record.kind is RecordKind.NOTE)
    return {ordinal for ordinal, note in notes if note is not None and note.ordinals and gone.issuperset(note.ordinals)}


def _find_torn(records: Sequence[Record], calls: Collection[str], *, lost: Collection[bytes], dialect: str) -> tuple[int, ...]:
    """Return the items of a fork or continuation that must go with erased calls and bytes."""
    speaks = find_dialect(dialect)
    views = _view_items(records, dialect=dialect)
    opened = {call for view in views.values() for call in view.opens}
    torn = {record.ordinal for record in records if _is_compaction(record, speaks)}
    torn |= {record.ordinal for record in records if record.ordinal in views and record.digest in lost}
    for record in records:
        view = views.get(record.ordinal)
        mine = set(calls) & {*view.opens, *view.closes} if view is not None else set()
        if not mine or view is None:
            continue
        # A call that is here too is a copy; an output alone belongs to a call in the original thread.
        outputs = [(call, Item(record.body)) for call in view.closes if call in mine]
        if not outputs or mine & opened or speaks.make_erased_call(outputs) is None:
            torn.add(record.ordinal)
    return tuple(sorted(torn))


def _add_quotes(records: Sequence[Record], asked: Sequence[int], *, dialect: str) -> set[int]:
    """Return records with those that quote them and the other half of each tool call, so that no pair is split."""
    views = _view_items(records, dialect=dialect)
    calls = _collect_calls({ordinal: views[ordinal] for ordinal in asked if ordinal in views})
    going = set(asked) | {ordinal for ordinal, view in views.items() if calls & {*view.opens, *view.closes}}
    # A provider's own compaction covers everything before it.
    since = [record for record in records if asked and record.ordinal > min(asked)]
    going |= {record.ordinal for record in since if _is_compaction(record, find_dialect(dialect))}
    turns = {record.turn for record in records if record.ordinal in going}
    quoting = (record for record in records if record.kind in QUOTING and not is_failed_attempt(record))
    return going | {record.ordinal for record in quoting if record.turn in turns}


def _is_compaction(record: Record, dialect: Dialect) -> bool:
    """Whether an item or a reply holds a provider's own compaction."""
    if record.erased or record.kind not in (RecordKind.ITEM, RecordKind.REPLY):
        return False
    reply = read_body(record, ReplyBody) if record.kind is RecordKind.REPLY else None
    items = [bytes(raw) for raw in reply.items] if reply is not None else [record.body]
    return any(dialect.split_compaction(Item(raw)).written is not None for raw in items)


def _view_items(records: Iterable[Record], *, dialect: str) -> dict[int, View]:
    speaks = find_dialect(dialect)
    items = (record for record in records if record.kind is RecordKind.ITEM and not record.erased)
    return {record.ordinal: speaks.view(Item(record.body)) for record in items}


def _collect_calls(views: dict[int, View]) -> set[str]:
    return {call for view in views.values() for call in (*view.opens, *view.closes)}


async def _find_affected_threads(backend: Backend, row: ThreadRow, *, first: int) -> list[ThreadRow]:
    """Return the thread, its forks that begin after record `first`, and the forks of each of those."""
    rows = await backend.store.threads(limit=EVERY)
    seen, waiting = {row.id: row}, [row]
    while waiting:
        at = waiting.pop()
        for each in rows:
            if each.id not in seen and each.parent == at.id and each.start > first:
                seen[each.id] = each
                waiting.append(each)
    return list(seen.values())


async def _undo_checkpoints(backend: Backend, plan: ErasurePlan) -> set[str]:
    """Undo the affected checkpoints that windows rest on, and return those threads."""
    undone = set(await _find_affected_windows(backend, plan))
    for thread_id in undone:
        while await _rests_on_checkpoint(backend, thread_id, plan):
            await undo_compaction(backend, thread_id)
    return undone


async def _find_affected_windows(backend: Backend, plan: ErasurePlan) -> list[str]:
    """Return the threads whose window rests on an affected checkpoint, which in a fork may be its parent's."""
    row = await backend.store.get(plan.thread)
    seen = await _find_affected_threads(backend, row, first=min(plan.asked, default=row.next))
    return [each.id for each in seen if await _rests_on_checkpoint(backend, each.id, plan)]


async def _rests_on_checkpoint(backend: Backend, thread_id: str, plan: ErasurePlan) -> bool:
    checkpoint = (await load_live_path(backend.store, thread_id)).checkpoint
    return checkpoint is not None and checkpoint.ordinal in plan.checkpoints.get(checkpoint.thread_id, ())


async def _note_everywhere(backend: Backend, plan: ErasurePlan, *, reason: str) -> None:
    """Write an erasure note in each affected thread."""
    for thread_id in dict.fromkeys((plan.thread, *plan.checkpoints, *plan.torn)):
        is_own = thread_id == plan.thread
        quoted = (*plan.checkpoints.get(thread_id, ()), *plan.torn.get(thread_id, ()))
        note = ErasureNote(
            ordinals=sorted({*quoted, *(plan.ordinals if is_own else ())}),
            asked=list(plan.asked) if is_own else [],
            reason=reason,
            by=backend.holder,
            thread="" if is_own else plan.thread,
        )
        await _append_note(backend, thread_id, msgspec.json.encode(note))


async def _append_note(backend: Backend, thread_id: str, body: bytes) -> None:
    note = NewRecord(kind=RecordKind.NOTE, at_ms=backend.clock.now_ms(), turn=0, tokens=0, body=body)
    expected = (await backend.store.get(thread_id)).next
    while True:
        try:
            await backend.store.append(thread_id, [note], expected=expected)
        except OrdinalConflict as moved:
            # The note is outside the history, so it may come after other records.
            expected = moved.actual
        else:
            return
