"""A thread's records, a page at a time: what they cost to show does not depend on how long the thread is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import Dialect
from threadkeep.errors import RecordNotFound
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind, Span, ThreadRow
from threadkeep.threads.reader import load_live_path
from threadkeep.viewer.record_lines import Told, said_in, told

PAGE = 100
# A page that follows an agent grows to so many lines; then its oldest give way.
MOST_FOLLOWED = 300
TEXT_CHARS = 200_000

# What people look for in a timeline, by the name in the address.
SIDES: dict[str, tuple[str, Collection[RecordKind] | None]] = {
    "all": ("Everything", None),
    "turns": ("What was asked", {RecordKind.TURN}),
    "items": ("The conversation", {RecordKind.TURN, RecordKind.ITEM}),
    "compactions": ("Compactions", {RecordKind.CHECKPOINT, RecordKind.UNDO}),
    "changes": ("Forks, rollbacks, notes", {RecordKind.META, RecordKind.ROLLBACK, RecordKind.UNDO, RecordKind.NOTE}),
    "mail": ("Mail", {RecordKind.MAIL}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which page is asked for: the one that begins at `at`, ends before `before`, or begins after `after`; else the newest.

    `since` asks for all lines from an ordinal on, as a page that is followed shows them, or the newest if they are too many.
    """

    side: str = "all"
    at: int | None = None
    before: int | None = None
    after: int | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A record in the timeline; `live` says that it still counts."""

    record: Record
    told: Told
    live: bool

    @property
    def state(self) -> str:
        """What may change about a line after it was shown."""
        return "erased" if self.record.erased else "live" if self.live else "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of records, oldest first; `older` and `newer` are the ordinals to go on from, None at an end.

    `followed` says that it ends with the newest record, and that what is written meanwhile belongs to it.
    """

    lines: tuple[Line, ...]
    side: str
    older: int | None
    newer: int | None
    followed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """One record with what it says, cut where it is longer than anybody reads; `raw` is its body as it was written."""

    record: Record
    told: Told
    text: str
    raw: str
    cut: bool
    live: bool


async def timeline(tk: Threadkeep, thread: Thread, place: Place) -> Timeline:
    """Return a page of the thread's own records, those that were left behind included."""
    store = tk.backend.store
    row = await store.get(thread.id)
    kinds = SIDES[place.side][1]
    records = await _records(tk, row, place, kinds)
    path = await load_live_path(store, thread.id, whole=True)
    lines = [
        Line(record=record, told=told(record, thread.dialect), live=path.find_thread(record.ordinal) == thread.id)
        for record in records
    ]
    older = await _any(tk, Span(thread_id=row.id, start=row.start, stop=records[0].ordinal), kinds) if records else False
    newer = await _any(tk, Span(thread_id=row.id, start=records[-1].ordinal + 1, stop=row.next), kinds) if records else False
    return Timeline(
        lines=tuple(lines),
        side=place.side,
        older=records[0].ordinal if older else None,
        newer=records[-1].ordinal if newer else None,
        followed=not newer and place.at is None,
    )


async def _records(tk: Threadkeep, row: ThreadRow, place: Place, kinds: Collection[RecordKind] | None) -> list[Record]:
    store = tk.backend.store
    start = place.at if place.at is not None else place.after + 1 if place.after is not None else None
    if start is not None:
        span = Span(thread_id=row.id, start=max(row.start, start), stop=row.next)
        return await store.read(span, kinds=kinds, limit=PAGE)
    first = max(row.start, place.since) if place.since is not None else row.start
    stop = min(row.next, place.before) if place.before is not None else row.next
    limit = PAGE if place.since is None else MOST_FOLLOWED
    span = Span(thread_id=row.id, start=first, stop=stop)
    return list(reversed(await store.read(span, kinds=kinds, newest_first=True, limit=limit)))


async def _any(tk: Threadkeep, span: Span, kinds: Collection[RecordKind] | None) -> bool:
    return bool(await tk.backend.store.read(span, kinds=kinds, limit=1, bodies=False))


async def open_record(tk: Threadkeep, thread: Thread, ordinal: int) -> Opened:
    """Return one record of a thread, or of the part of an ancestor that it continues.

    Raises:
        RecordNotFound: There is none.
    """
    path = await load_live_path(tk.backend.store, thread.id, whole=True)
    holder = path.find_thread(ordinal)
    for thread_id in dict.fromkeys((thread.id, holder or thread.id)):
        span = Span(thread_id=thread_id, start=ordinal, stop=ordinal + 1)
        for record in await tk.backend.store.read(span):
            return _opened(record, thread.dialect, live=holder == record.thread_id)
    raise RecordNotFound(thread.id, ordinal)


def _opened(record: Record, dialect: Dialect, *, live: bool) -> Opened:
    raw = record.body.decode("utf-8", "replace")
    is_item = record.kind is RecordKind.ITEM or (record.kind is RecordKind.NOTE and record.chain is not None)
    text = dialect.view(Item(record.body)).text if is_item and not record.erased else said_in(record)
    return Opened(
        record=record,
        told=told(record, dialect),
        text=text[:TEXT_CHARS],
        raw=raw[:TEXT_CHARS],
        cut=max(len(text), len(raw)) > TEXT_CHARS,
        live=live,
    )
