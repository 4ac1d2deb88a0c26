"""Matches the records of a source with those in the store and appends the rest.

An import reads its source from the beginning each time. Each record is compared with the thread's, by digest, in order: known
records are skipped, new ones appended. If the thread continues differently, the source becomes a fork from that record on.
Nothing about a file is stored; its content decides, and a killed import continues where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect
from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import reduce_records
from threadkeep.threads.forks_and_undos import create_fork
from threadkeep.threads.writer import create_thread
from threadkeep.transfer.json_rows import make_short_digest

PAGE = 512
BATCH_RECORDS = 512
BATCH_BYTES = 2 << 20
# Records that other writers add without changing the history; the matcher skips them.
PASSED_OVER = frozenset(
    {
        RecordKind.META,
        RecordKind.CONTEXT,
        RecordKind.REPLY,
        RecordKind.CHECKPOINT,
        RecordKind.UNDO,
        RecordKind.MAIL,
        RecordKind.NOTE,
    }
)

Make = Callable[[int], NewRecord]


class RecordPlace(NamedTuple):
    """The place of a record."""

    thread_id: str
    ordinal: int


class Origin(NamedTuple):
    """The place where a forked thread begins."""

    thread_id: str
    at: int


class RecordMatcher:
    """Matches the records of one source with one thread, and counts those it adds in `added`, by thread.

    If `source` is given, it is a thread whose records this source repeats first; where they differ, a fork begins.
    """

    def __init__(
        self,
        backend: Backend,
        name: str,
        *,
        dialect: Dialect,
        agent: str = "",
        origin: Origin | None = None,
        source: str | None = None,
        on_own: Callable[[], Awaitable[None]],
        added: Counter[str],
    ) -> None:
        self.thread_id = name
        self._added = added
        self.begun = False
        self._name = name
        self._backend = backend
        self._dialect = dialect
        self._agent = agent
        self._origin = origin
        self._source = source
        self._on_own = on_own
        self._rows: _StoredRows | None = None
        self._passed: int | None = None
        self._pending: list[NewRecord] = []
        self._pending_bytes = 0
        self._written = 0

    async def put(self, make: Make) -> RecordPlace | None:
        """Find or append the record that `make` returns for an ordinal; None if the persistence mode drops it."""
        if not self.begun:
            await self._begin()
        while self._rows is not None:
            row = await self._rows.peek()
            if row is None:
                await self._end_rows()
                continue
            record = self._reduce(make(row.ordinal))
            if record is None:
                return None
            if _is_there(record, row):
                self._rows.take()
                self._passed = None
                return RecordPlace(self._rows.thread_id, row.ordinal)
            if row.kind in PASSED_OVER:
                self._passed = row.ordinal if self._passed is None else self._passed
                self._rows.take()
            else:
                await self._fork_at(record, at=row.ordinal if self._passed is None else self._passed)
        return await self._append(make)

    async def find_position(self) -> RecordPlace:
        """Write everything pending and return the place of the next record."""
        if not self.begun:
            await self._begin()
        await self.flush()
        if self._rows is not None:
            row = await self._rows.peek()
            # Records that others appended meanwhile must still be compared.
            return RecordPlace(self._rows.thread_id, row.ordinal if row else self._rows.stop)
        return RecordPlace(self.thread_id, self._written)

    async def flush(self) -> None:
        """Write pending records, except those that another import of the same source wrote. Durable when it returns.

        Raises:
            OrdinalConflict: Another writer appended something else; import again to continue from there.
        """
        while self._pending:
            try:
                self._written = await self._backend.append(self.thread_id, self._pending, expected=self._written)
            except OrdinalConflict as lost:
                await self._catch_up(lost)
            else:
                self._added[self.thread_id] += len(self._pending)
                self._pending, self._pending_bytes = [], 0

    async def _catch_up(self, lost: OrdinalConflict) -> None:
        """Skip pending records that another import has written already."""
        store = self._backend.store
        row = await store.get(self.thread_id)
        span = Span(thread_id=row.id, start=self._written, stop=min(row.next, self._written + len(self._pending)))
        stored = await store.read(span, bodies=False)
        if not stored or not all(map(_is_there, self._pending, stored)):
            raise lost
        self._written += len(stored)
        self._pending = self._pending[len(stored) :]
        self._pending_bytes = sum(len(record.body) for record in self._pending)
        if row.next > self._written:
            self._rows, self._passed = _StoredRows(store, row, start=self._written), None

    async def look_again(self) -> None:
        """Continue after records that others wrote meanwhile."""
        if self.begun and self._rows is None:
            self._written = (await self._backend.store.get(self.thread_id)).next

    async def is_alone(self) -> bool:
        """Whether no other writer appended to the thread."""
        row = await find_row(self._backend.store, self.thread_id)
        return self._rows is None and row is not None and row.next == self._written

    def _reduce(self, record: NewRecord) -> NewRecord | None:
        kept = reduce_records([record], self._backend.persistence)
        return kept[0] if kept else None

    async def _append(self, make: Make) -> RecordPlace | None:
        ordinal = self._written + len(self._pending)
        record = self._reduce(make(ordinal))
        if record is None:
            return None
        self._pending.append(record)
        self._pending_bytes += len(record.body)
        if len(self._pending) >= BATCH_RECORDS or self._pending_bytes >= BATCH_BYTES:
            await self.flush()
        return RecordPlace(self.thread_id, ordinal)

    async def _begin(self) -> None:
        """Find the thread to follow, or create the one to write."""
        self.begun = True
        store = self._backend.store
        own = await find_row(store, self._name)
        if own is not None and own.dialect != self._dialect.name:
            self._name = f"{self._name}-{self._dialect.name}"
            own = await find_row(store, self._name)
        source = await find_row(store, self._source) if self._source is not None else None
        # Only a thread without a parent has all its records in its own source.
        if source is not None and source.parent is None and source.dialect == self._dialect.name and _is_fork_of(own, source):
            self._rows = _StoredRows(store, source)
            self.thread_id = source.id
            return
        self._source = None
        if self._origin is not None:
            await self._enter(self._name, parent=self._origin.thread_id, at=self._origin.at)
        else:
            await self._enter(self._name)
        await self._on_own()

    async def _end_rows(self) -> None:
        """Leave the source thread, or start appending, once all stored records are matched."""
        rows = self._rows
        if rows is None:
            return
        row = await self._backend.store.get(rows.thread_id)
        if rows.go_on_to(row.next):
            return
        if self._source is not None:
            await self._leave_source(at=row.next if self._passed is None else self._passed)
        else:
            self._rows, self._written = None, row.next

    async def _fork_at(self, record: NewRecord, *, at: int) -> None:
        """Continue in a fork, because the stored thread differs from `at` on."""
        if self._source is not None:
            await self._leave_source(at=at)
        else:
            await self._enter(f"{self._name}-{make_short_digest(record.body)}", parent=self.thread_id, at=at)

    async def _leave_source(self, *, at: int) -> None:
        parent, self._source = self.thread_id, None
        await self._enter(self._name, parent=parent, at=at)
        await self._on_own()

    async def _enter(self, name: str, *, parent: str | None = None, at: int = 0) -> None:
        """Go on in the thread called `name`, which begins at a record of `parent` if it has one; create it if needed.

        Another thread of that name cannot be followed, so names with a number are tried.
        """
        self._passed = None
        suffix = 0
        while True:
            self.thread_id = name if suffix == 0 else f"{name}-{suffix}"
            row = await find_row(self._backend.store, self.thread_id)
            if row is None:
                if parent is None:
                    await create_thread(self._backend, self._dialect, thread_id=self.thread_id, agent=self._agent)
                else:
                    await create_fork(self._backend, parent, at=at, new_id=self.thread_id)
                self._rows, self._written = None, at + 1
                return
            if (row.parent, row.start, row.dialect) == (parent, at, self._dialect.name):
                self._rows = _StoredRows(self._backend.store, row)
                return
            suffix += 1


def _is_there(record: NewRecord, row: Record) -> bool:
    """Whether a stored record equals `record`; items are compared by their chain digest, whatever their spelling."""
    if row.kind is not record.kind:
        return False
    return row.digest == digest_body(record.body) if record.chain is None else row.chain == record.chain


def _is_fork_of(own: ThreadRow | None, source: ThreadRow) -> bool:
    """Whether a thread that repeats `source` is, or will be, its fork; one imported earlier is independent."""
    return own is None or own.parent == source.id


class _StoredRows:
    """A thread's own records after the first, in order, without bodies."""

    def __init__(self, store: ThreadStore, row: ThreadRow, *, start: int | None = None) -> None:
        self.thread_id = row.id
        self._store = store
        self._next = row.start + 1 if start is None else start
        self.stop = row.next
        self._page: list[Record] = []
        self._at = 0

    async def peek(self) -> Record | None:
        while self._at >= len(self._page):
            if self._next >= self.stop:
                return None
            span = Span(thread_id=self.thread_id, start=self._next, stop=min(self._next + PAGE, self.stop))
            self._page = await self._store.read(span, bodies=False)
            self._next, self._at = span.stop, 0
        return self._page[self._at]

    def take(self) -> None:
        self._at += 1

    def go_on_to(self, stop: int) -> bool:
        """Extend to records appended meanwhile; return whether there are any."""
        grown = stop > self.stop
        self.stop = max(stop, self.stop)
        return grown


async def find_row(store: ThreadStore, thread_id: str) -> ThreadRow | None:
    """Return a thread's row; None if there is no such thread."""
    try:
        return await store.get(thread_id)
    except ThreadNotFound:
        return None
