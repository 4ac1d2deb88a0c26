"""Proving a thread: bytes against digests, ordinals against gaps, the chain against its items, pointers against records."""

from __future__ import annotations

import msgspec

from holdfast.compaction import load_ledger
from holdfast.dialects import Dialect
from holdfast.errors import RecordNotFound
from holdfast.items import Item, body_digest, chain_link, chain_seed, orphans, written
from holdfast.runtime.reading import live_path, load_history
from holdfast.runtime.reports import Problem
from holdfast.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from holdfast.thread import Checkpoint, LivePath, MetaBody, Pointer, StateEntry, decode_body

PAGE = 512


async def verify_thread(store: ThreadStore, row: ThreadRow, *, dialect: Dialect) -> tuple[int, list[Problem]]:
    """Return how many records a thread has and everything that is wrong with them. Reads in pages; changes nothing."""
    problems: list[Problem] = []
    count = 0
    expected = row.start
    checkpoints: list[Checkpoint] = []
    while expected < row.next:
        page = await store.read(Span(thread_id=row.id, start=expected, stop=min(expected + PAGE, row.next)))
        for record in page:
            count += 1
            if record.ordinal != expected:
                gap = f"records #{expected} to #{record.ordinal - 1} are missing"
                problems.append(Problem(pointer=Pointer(row.id, expected), code="gap", text=gap))
            expected = record.ordinal + 1
            problems.extend(_digest_problems(record))
            if record.kind is RecordKind.CHECKPOINT:
                checkpoints.extend(_checkpoint(record, problems))
        if not page:
            missing = f"records #{expected} to #{row.next - 1} are missing"
            problems.append(Problem(pointer=Pointer(row.id, expected), code="gap", text=missing))
            break
    path = await live_path(store, row.id, whole=True)
    problems.extend(await _chain_problems(store, path, dialect))
    for checkpoint in checkpoints:
        problems.extend(await _pointer_problems(store, row, checkpoint))
    problems.extend(await _window_problems(store, row, dialect))
    return count, problems


def _digest_problems(record: Record) -> list[Problem]:
    found = body_digest(record.body)
    if found == record.digest:
        return []
    text = f"its bytes are {written(found)}, its digest says {written(record.digest)}"
    return [Problem(pointer=Pointer(record.thread_id, record.ordinal), code="bad_digest", text=text)]


def _checkpoint(record: Record, problems: list[Problem]) -> list[Checkpoint]:
    try:
        return [decode_body(record.body, Checkpoint)]
    except msgspec.MsgspecError as error:
        pointer = Pointer(record.thread_id, record.ordinal)
        problems.append(Problem(pointer=pointer, code="unreadable", text=f"this checkpoint cannot be read: {error}"))
        return []


async def _chain_problems(store: ThreadStore, path: LivePath, dialect: Dialect) -> list[Problem]:
    """Re-derive the chain along the live path; the first wrong link is named, those after it follow from it."""
    key = store.tenant.key
    link = chain_seed(key, dialect=dialect.name, agent=await _agent(store, path))
    depth = 0
    for span in reversed(path.spans):
        start = span.start
        while start < span.stop:
            page = await store.read(
                Span(thread_id=span.thread_id, start=start, stop=span.stop), kinds={RecordKind.ITEM, RecordKind.NOTE}, limit=PAGE
            )
            if not page:
                break
            start = page[-1].ordinal + 1
            for record in page:
                if record.chain is None:
                    continue
                depth += 1
                link = chain_link(key, link, dialect.canonical(Item(record.body)))
                if record.chain != link or record.depth != depth:
                    pointer = Pointer(record.thread_id, record.ordinal)
                    return [Problem(pointer=pointer, code="bad_chain", text="its chain digest does not follow from its history")]
    return []


async def _agent(store: ThreadStore, path: LivePath) -> str:
    """Return whose chain a path holds, as its root says."""
    root = path.spans[-1]
    for record in await store.read(root, kinds={RecordKind.META}, limit=1):
        return decode_body(record.body, MetaBody).agent
    return ""


async def _pointer_problems(store: ThreadStore, row: ThreadRow, checkpoint: Checkpoint) -> list[Problem]:
    """Return every pointer of a checkpoint that leads nowhere."""
    named = {Pointer(entry.thread, entry.ordinal) for entry in checkpoint.layout if not isinstance(entry, StateEntry)}
    for entry in load_ledger(bytes(checkpoint.state)).entries:
        named.update(entry.sources)
        if entry.claim:
            named.add(entry.claim.source)
    problems: list[Problem] = []
    for pointer in sorted(named):
        span = Span(thread_id=pointer.thread_id, start=pointer.ordinal, stop=pointer.ordinal + 1)
        if not await store.read(span, bodies=False):
            text = f"a checkpoint of {row.id} points at it, but it is not there"
            problems.append(Problem(pointer=pointer, code="dangling_pointer", text=text))
    return problems


async def _window_problems(store: ThreadStore, row: ThreadRow, dialect: Dialect) -> list[Problem]:
    """Return outputs in the window whose call is not."""
    tip = Pointer(row.id, row.next - 1)
    try:
        history = await load_history(store, await live_path(store, row.id))
    except RecordNotFound as error:
        return [Problem(pointer=Pointer(error.thread_id, error.ordinal), code="dangling_pointer", text=str(error))]
    lost = orphans([dialect.view(item) for item in history.items])
    return [
        Problem(pointer=tip, code="orphan_output", text=f"the window has an output for {call_id} but no call") for call_id in lost
    ]
