"""Verification: each record's bytes, the order and chain of a thread, the pointers of its checkpoints, and its window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec

from threadkeep.compaction import load_ledger
from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidPointer, RecordNotFound, StoreCorrupt
from threadkeep.items import Item, digest_body, find_orphans, format_digest, link_chain, seed_chain
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import Checkpoint, KeepEntry, LivePath, MetaBody, Pointer, StubEntry, decode_body
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import CHAINED, load_history, load_live_path, load_records

PAGE = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem that `verify` found."""

    pointer: Pointer
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of `verify`."""

    threads: int
    records: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


async def verify_thread(store: ThreadStore, row: ThreadRow, *, dialect: Dialect) -> tuple[int, list[Problem]]:
    """Return the number of a thread's records and all their problems. Reads in pages; changes nothing."""
    problems: list[Problem] = []
    named: set[Pointer] = set()
    count = 0
    expected = row.start
    async for record in _read_records(store, Span(thread_id=row.id, start=row.start, stop=row.next), problems):
        count += 1
        problems.extend(_find_gap(row, expected, record.ordinal))
        expected = record.ordinal + 1
        problems.extend(_check_digest(record))
        if record.kind is RecordKind.CHECKPOINT and not record.erased:
            named |= _collect_pointers(record, problems)
    problems.extend(_find_gap(row, expected, row.next))
    problems.extend(await _check_chain(store, row, dialect))
    missing = named - (await load_records(store, named, bodies=False)).keys()
    dangling = f"a checkpoint of {row.id} points at it, but it is not there"
    problems.extend(_make_problem(pointer, "dangling_pointer", dangling) for pointer in sorted(missing))
    problems.extend(await _check_window(store, row, dialect))
    return count, list(dict.fromkeys(problems))


async def _read_records(store: ThreadStore, span: Span, problems: list[Problem]) -> AsyncIterator[Record]:
    """Yield the records of a span. If a page cannot be read, read its records one by one and report the broken ones."""
    start = span.start
    while start < span.stop:
        part = Span(thread_id=span.thread_id, start=start, stop=min(start + PAGE, span.stop))
        try:
            page = await store.read(part)
        except StoreCorrupt:
            page = await _read_one_by_one(store, part, problems)
        for record in page:
            yield record
        start = part.stop


async def _read_one_by_one(store: ThreadStore, span: Span, problems: list[Problem]) -> list[Record]:
    found: list[Record] = []
    for ordinal in range(span.start, span.stop):
        one = Span(thread_id=span.thread_id, start=ordinal, stop=ordinal + 1)
        try:
            found.extend(await store.read(one))
        except StoreCorrupt as error:
            problems.append(
                _make_problem(Pointer(span.thread_id, ordinal), "unreadable", f"its body cannot be read: {error.detail}")
            )
            found.extend(await store.read(one, bodies=False))
    return found


def _find_gap(row: ThreadRow, expected: int, found: int) -> list[Problem]:
    if found <= expected:
        return []
    missing = f"record #{expected} is missing" if found == expected + 1 else f"records #{expected} to #{found - 1} are missing"
    return [_make_problem(Pointer(row.id, expected), "gap", missing)]


def _check_digest(record: Record) -> list[Problem]:
    if record.erased:
        return []
    found = digest_body(record.body)
    if found == record.digest:
        return []
    text = f"its bytes are {format_digest(found)}, its digest says {format_digest(record.digest)}"
    return [_make_problem(Pointer(record.thread_id, record.ordinal), "bad_digest", text)]


def _collect_pointers(record: Record, problems: list[Problem]) -> set[Pointer]:
    """Return every record a checkpoint names, or report that it cannot be read."""
    try:
        checkpoint = decode_body(record.body, Checkpoint)
        entries = load_ledger(bytes(checkpoint.state)).entries
    except (msgspec.MsgspecError, InvalidPointer) as error:
        pointer = Pointer(record.thread_id, record.ordinal)
        problems.append(_make_problem(pointer, "unreadable", f"this checkpoint cannot be read: {error}"))
        return set()
    named = {Pointer(entry.thread, entry.ordinal) for entry in checkpoint.layout if isinstance(entry, KeepEntry | StubEntry)}
    for entry in entries:
        named.update(entry.sources)
        if entry.claim:
            named.add(entry.claim.source)
    return named


async def _check_chain(store: ThreadStore, row: ThreadRow, dialect: Dialect) -> list[Problem]:
    """Derive the chain along the live path again and report the first wrong link.

    The stored link of a redacted, erased or unreadable record is taken as given.
    """
    path = await load_live_path(store, row.id, whole=True)
    key = store.tenant.key
    link = seed = seed_chain(key, dialect=dialect.name, agent=await _find_agent(store, path))
    depth = 0
    for span in reversed(path.spans):
        unread: list[Problem] = []
        async for record in _read_records(store, span, unread):
            if is_rewrite_mark(record):
                link, depth = seed, 0
            if record.chain is None or record.kind not in CHAINED:
                continue
            depth += 1
            link = link_chain(key, link, dialect.canonical(Item(record.body)))
            broken = {problem.pointer for problem in unread}
            pointer = Pointer(record.thread_id, record.ordinal)
            if record.redacted or record.erased or pointer in broken:
                link = record.chain
            elif record.chain != link or record.depth != depth:
                return [_make_problem(pointer, "bad_chain", "its chain digest does not follow from its history")]
    return []


async def _find_agent(store: ThreadStore, path: LivePath) -> str:
    """Return the agent of a path's chain, from the root's metadata."""
    for record in await store.read(path.spans[-1], kinds={RecordKind.META}, limit=1):
        try:
            return decode_body(record.body, MetaBody).agent
        except msgspec.MsgspecError:
            break
    return ""


async def _check_window(store: ThreadStore, row: ThreadRow, dialect: Dialect) -> list[Problem]:
    """Report outputs in the window without their call, or that there is no window."""
    tip = Pointer(row.id, row.next - 1)
    try:
        history = await load_history(store, await load_live_path(store, row.id))
    except RecordNotFound as error:
        return [_make_problem(Pointer(error.thread_id, error.ordinal), "dangling_pointer", str(error))]
    except StoreCorrupt as error:
        return [_make_problem(tip, "no_window", f"the window cannot be put together: {error.detail}")]
    lost = find_orphans([dialect.view(item) for item in history.items])
    return [_make_problem(tip, "orphan_output", f"the window has an output for {call_id} but no call") for call_id in lost]


def _make_problem(pointer: Pointer, code: str, text: str) -> Problem:
    return Problem(pointer=pointer, code=code, text=text)
