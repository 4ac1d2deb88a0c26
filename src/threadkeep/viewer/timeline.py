"""A thread's records, a page at a time; the cost of a page does not depend on the thread's length."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import Dialect
from threadkeep.errors import RecordNotFound
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind, Span, ThreadRow
from threadkeep.threads.reader import load_live_path
from threadkeep.viewer.record_lines import Line, describe_record, read_note

PAGE = 100
# A followed page grows to this many records; then the oldest go.
MOST_FOLLOWED = 300
TEXT_CHARS = 200_000

# The choices of a timeline, by their name in the address.
KINDS: dict[str, tuple[str, Collection[RecordKind] | None]] = {
    "all": ("Everything", None),
    "turns": ("Requests", {RecordKind.TURN}),
    "items": ("The conversation", {RecordKind.TURN, RecordKind.ITEM}),
    "compactions": ("Compactions", {RecordKind.CHECKPOINT, RecordKind.UNDO}),
    "changes": ("Forks, rollbacks, notes", {RecordKind.META, RecordKind.ROLLBACK, RecordKind.UNDO, RecordKind.NOTE}),
    "mail": ("Mail", {RecordKind.MAIL}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The page to show: the one that begins at `at`, ends before `before` or begins after `after`; else the newest.

    `since` asks for every record from an ordinal on, for a page that is followed, or for the newest if they are too many.
    """

    kind: str = "all"
    at: int | None = None
    before: int | None = None
    after: int | None = None
    since: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRecord:
    """A record in the timeline; `is_live` says that it is on the live path."""

    record: Record
    line: Line
    is_live: bool

    @property
    def state(self) -> str:
        """What may change about it while the page is shown."""
        return "erased" if self.record.erased else "live" if self.is_live else "gone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of records, oldest first; `older` and `newer` are the ordinals of the neighbouring pages, None at an end.

    `is_followed` says that the page ends with the newest record, so that new records belong to it.
    """

    records: tuple[TimelineRecord, ...]
    kind: str
    older: int | None
    newer: int | None
    is_followed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRecord:
    """One record; `text` and `raw` (its body as recorded) are cut if they are very long."""

    record: Record
    line: Line
    text: str
    raw: str
    is_cut: bool
    is_live: bool


async def read_timeline(tk: Threadkeep, thread: Thread, place: Place) -> Timeline:
    """Return a page of the thread's own records, including those left behind."""
    store = tk.backend.store
    row = await store.get(thread.id)
    kinds = KINDS[place.kind][1]
    records = await _read_page(tk, row, place, kinds)
    path = await load_live_path(store, thread.id, whole=True)
    shown = [
        TimelineRecord(
            record=record,
            line=describe_record(record, thread.dialect),
            is_live=path.find_thread(record.ordinal) == thread.id,
        )
        for record in records
    ]
    first, last = (records[0].ordinal, records[-1].ordinal) if records else (row.start, row.next)
    has_older = bool(records) and await _has_records(tk, row, kinds, start=row.start, stop=first)
    has_newer = bool(records) and await _has_records(tk, row, kinds, start=last + 1, stop=row.next)
    return Timeline(
        records=tuple(shown),
        kind=place.kind,
        older=first if has_older else None,
        newer=last if has_newer else None,
        is_followed=not has_newer and place.at is None,
    )


async def _read_page(tk: Threadkeep, row: ThreadRow, place: Place, kinds: Collection[RecordKind] | None) -> list[Record]:
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


async def _has_records(tk: Threadkeep, row: ThreadRow, kinds: Collection[RecordKind] | None, *, start: int, stop: int) -> bool:
    span = Span(thread_id=row.id, start=start, stop=stop)
    return bool(await tk.backend.store.read(span, kinds=kinds, limit=1, bodies=False))


async def open_record(tk: Threadkeep, thread: Thread, ordinal: int) -> OpenedRecord:
    """Return one record of a thread, or of the part of an ancestor that it continues.

    Raises:
        RecordNotFound: There is none.
    """
    path = await load_live_path(tk.backend.store, thread.id, whole=True)
    holder = path.find_thread(ordinal)
    for thread_id in dict.fromkeys((thread.id, holder or thread.id)):
        span = Span(thread_id=thread_id, start=ordinal, stop=ordinal + 1)
        for record in await tk.backend.store.read(span):
            return _open_record(record, thread.dialect, is_live=holder == record.thread_id)
    raise RecordNotFound(thread.id, ordinal)


def _open_record(record: Record, dialect: Dialect, *, is_live: bool) -> OpenedRecord:
    raw = record.body.decode("utf-8", "replace")
    is_item = record.kind is RecordKind.ITEM or (record.kind is RecordKind.NOTE and record.chain is not None)
    text = dialect.view(Item(record.body)).text if is_item and not record.erased else read_note(record)
    return OpenedRecord(
        record=record,
        line=describe_record(record, dialect),
        text=text[:TEXT_CHARS],
        raw=raw[:TEXT_CHARS],
        is_cut=max(len(text), len(raw)) > TEXT_CHARS,
        is_live=is_live,
    )
