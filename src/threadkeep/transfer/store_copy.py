"""Copies a tenant's threads from one store to another, every record as it is.

Chains are keyed per tenant, so both tenants must have the same key. An interrupted copy continues where it stopped, and copying
again brings the target up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from threadkeep.errors import CopyConflict, InvalidArgument, ThreadNotFound
from threadkeep.store import NewRecord, NewThread, Record, Span, ThreadRow
from threadkeep.store.base import FullStore

PAGE = 500
EVERY = 10_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedThread:
    """A copied thread: how many records it has, how many of them are new in the target, how many are erased."""

    id: str
    records: int
    copied: int
    erased: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyProgress:
    """The progress of a copy: the thread, how much of it is done, and its number among all threads."""

    thread: str
    done: int
    records: int
    number: int
    threads: int


Told = Callable[[CopyProgress], None]


async def copy_threads(
    source: FullStore, target: FullStore, *, only: Collection[str] | None = None, told: Told = lambda _: None, at_ms: int
) -> list[CopiedThread]:
    """Copy threads, parents first, and return a report of each. Durable thread by thread.

    Args:
        only: Ids of the threads to copy, with their parents; all, if None.
        told: Called with the progress.
        at_ms: The time of erasure for records that are erased in the source.

    Raises:
        InvalidArgument: The tenants have different keys.
        ThreadNotFound: One of `only` is not in the source.
        CopyConflict: A thread of the same id is in the target and is another.
    """
    if source.tenant.key != target.tenant.key:
        raise InvalidArgument(
            "target",
            f"tenant {target.tenant.name!r} of the target has a key of its own, by which no copied history would be found again; "
            "copy into a store that does not have this tenant yet",
        )
    rows = await _choose_threads(source, only)
    # Create all threads before filling any: a parent may be written to long after it was forked.
    there = {row.id: await _find_or_create(target, row) for row in await _order_parents_first(source, rows)}
    report: list[CopiedThread] = []
    for number, row in enumerate(rows, start=1):

        def tell(done: int, row: ThreadRow = row, number: int = number) -> None:
            told(CopyProgress(thread=row.id, done=done, records=row.next - row.start, number=number, threads=len(rows)))

        report.append(await _copy(source, target, row, there=there[row.id], tell=tell, at_ms=at_ms))
    return report


async def _choose_threads(source: FullStore, only: Collection[str] | None) -> list[ThreadRow]:
    """Return the threads to copy, the least recently written first, so that the order in the target is the same."""
    every = list(reversed(await source.threads(limit=EVERY)))
    if only is None:
        return every
    wanted = {row.id: row for row in await _order_parents_first(source, [await source.get(thread_id) for thread_id in only])}
    return [row for row in every if row.id in wanted]


async def _order_parents_first(source: FullStore, rows: Sequence[ThreadRow]) -> list[ThreadRow]:
    """Return threads with their parents, every parent before its forks."""
    order: dict[str, ThreadRow] = {}
    for row in rows:
        line = [row]
        while (parent := line[-1].parent) is not None and parent not in order:
            line.append(await source.get(parent))
        order.update((each.id, each) for each in reversed(line) if each.id not in order)
    return list(order.values())


async def _copy(
    source: FullStore, target: FullStore, row: ThreadRow, *, there: int, tell: Callable[[int], None], at_ms: int
) -> CopiedThread:
    copied = erased = 0
    for start in range(row.start, row.next, PAGE):
        span = Span(thread_id=row.id, start=start, stop=min(start + PAGE, row.next))
        # Known records are compared without bodies; their bytes were compared when they were copied.
        known = min(span.stop, there) - span.start
        theirs = await target.read(replace(span, stop=span.start + known), bodies=False) if known > 0 else []
        ours = await source.read(span)
        _compare(ours[: len(theirs)], theirs)
        added = ours[len(theirs) :]
        if added:
            await target.append(row.id, [_make_new_record(record) for record in added], expected=added[0].ordinal)
            await _prove(target, added)
            copied += len(added)
        erased += await _erase(target, ours, theirs, at_ms=at_ms)
        tell(span.stop - row.start)
    return CopiedThread(id=row.id, records=row.next - row.start, copied=copied, erased=erased)


async def _find_or_create(target: FullStore, row: ThreadRow) -> int:
    """Return the thread's next ordinal in the target; create the thread if needed."""
    try:
        found = await target.get(row.id)
    except ThreadNotFound:
        made = NewThread(id=row.id, dialect=row.dialect, created_at_ms=row.created_at_ms, start=row.start, parent=row.parent)
        await target.create(made, [])
        return row.start
    if (found.dialect, found.start, found.parent) != (row.dialect, row.start, row.parent):
        raise CopyConflict(row.id, ordinal=row.start, reason="begins differently")
    if found.next > row.next:
        raise CopyConflict(row.id, ordinal=row.next, reason="goes on in the target")
    return found.next


def _compare(ours: Sequence[Record], theirs: Sequence[Record]) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        same = replace(mine, body=b"", digest=b"", erased=False) == replace(other, body=b"", digest=b"", erased=False)
        if not same or (not mine.erased and not other.erased and mine.digest != other.digest):
            raise CopyConflict(mine.thread_id, ordinal=mine.ordinal, reason="differs")


def _make_new_record(record: Record) -> NewRecord:
    return NewRecord(
        kind=record.kind,
        at_ms=record.at_ms,
        turn=record.turn,
        tokens=record.tokens,
        # Only the digest of an erased record is left; it stands in for the body until the record is erased here too.
        body=b"erased:" + record.digest if record.erased else record.body,
        target=record.target,
        chain=record.chain,
        depth=record.depth,
        redacted=record.redacted,
    )


async def _erase(target: FullStore, ours: Sequence[Record], theirs: Sequence[Record], *, at_ms: int) -> int:
    """Erase the records that are erased in the source; return how many there are."""
    gone = {record.ordinal for record in theirs if record.erased}
    wanted = [record.ordinal for record in ours if record.erased and record.ordinal not in gone]
    if wanted:
        await target.erase(ours[0].thread_id, wanted, at_ms=at_ms)
    return sum(record.erased for record in ours)


async def _prove(target: FullStore, added: Sequence[Record]) -> None:
    """Read back what was written and compare it with the source."""
    span = Span(thread_id=added[0].thread_id, start=added[0].ordinal, stop=added[-1].ordinal + 1)
    written = await target.read(span)
    _compare(added, written)
    if any(not mine.erased and mine.body != other.body for mine, other in zip(added, written, strict=True)):
        raise CopyConflict(span.thread_id, ordinal=span.start, reason="came out differently")
