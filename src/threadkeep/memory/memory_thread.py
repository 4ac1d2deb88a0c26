"""The thread that holds a tenant's memory, as notes, so that every store can keep it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import suppress

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import DEFAULT
from threadkeep.errors import OrdinalConflict, ThreadExists, ThreadNotFound
from threadkeep.memory.records import MemoryRecord, MemoryState, Snapshot, decode_record, encode_record, fold_records
from threadkeep.store import NewRecord, NewThread, Record, RecordKind, Span, ThreadRow
from threadkeep.threads import MetaBody, encode_body
from threadkeep.threads.reader import iterate_records

MEMORY_THREAD = "threadkeep.memory"
# A thread needs a dialect; this one has no items.
DIALECT = DEFAULT.name
PAGE = 64


class MemoryThread:
    """The records of a tenant's memory. Any number of processes may write; each change is applied to the current state."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def load(self) -> MemoryState:
        """Return the memory. Reads back to the newest snapshot only."""
        row = await self._find_row()
        return MemoryState() if row is None else await self._load_state(row)

    async def load_newest(self) -> tuple[int, Snapshot] | None:
        """Return the newest snapshot and its ordinal; None if there is none."""
        row = await self._find_row()
        for record in (await self._read_since_snapshot(row))[:1] if row else ():
            said = decode_record(record.body)
            if isinstance(said, Snapshot):
                return record.ordinal, said
        return None

    async def load_at(self, ordinal: int) -> Snapshot | None:
        """Return the snapshot at an ordinal; None if there is none, or it was erased."""
        for record in await self._read(ordinal, bodies=True):
            said = decode_record(record.body)
            return said if isinstance(said, Snapshot) else None
        return None

    async def is_there(self, ordinal: int) -> bool:
        """Whether the record at an ordinal exists and is not erased."""
        return any(not record.erased for record in await self._read(ordinal, bodies=False))

    async def get_length(self) -> int:
        """Return the number of records, which changes when something is added."""
        row = await self._find_row()
        return row.next if row else 0

    async def _read(self, ordinal: int, *, bodies: bool) -> list[Record]:
        span = Span(thread_id=MEMORY_THREAD, start=ordinal, stop=ordinal + 1)
        return await self._backend.store.read(span, kinds={RecordKind.NOTE}, bodies=bodies)

    async def add(self, record: MemoryRecord) -> None:
        """Append a record, after any other writer's. Durable when it returns."""
        await self.change(lambda _: record)

    async def change(self, made: Callable[[MemoryState], MemoryRecord | None]) -> MemoryState:
        """Append the record that `made` returns for the state, if any; call it again if another process appended first."""
        while True:
            row = await self._find_row() or await self._create()
            state = await self._load_state(row)
            record = made(state)
            if record is None:
                return state
            try:
                await self._append(row, record)
            except OrdinalConflict:
                continue
            return await self.load()

    async def rewrite(self, made: Callable[[MemoryState], Snapshot]) -> MemoryState:
        """Append a snapshot and erase every record before it, so that what it leaves out cannot be read any more.

        If it is interrupted in between, `clear` completes it.
        """
        while True:
            row = await self._find_row() or await self._create()
            snapshot = made(await self._load_state(row))
            # Equal bytes are stored once: the nonce keeps the erasure of an older snapshot from erasing this one.
            unlike_any_other = msgspec.structs.replace(snapshot, nonce=secrets.token_hex(8), cleared_to=row.next)
            try:
                await self._append(row, unlike_any_other)
            except OrdinalConflict:
                continue
            break
        await self.clear()
        return await self.load()

    async def clear(self) -> None:
        """Erase what the newest rewrite left to erase; one read if there is nothing."""
        newest = await self.load_newest()
        row = await self._find_row()
        if newest is None or row is None or newest[1].cleared_to <= row.start:
            return
        older = Span(thread_id=row.id, start=row.start, stop=newest[1].cleared_to)
        # They are erased together: if the newest is, all are.
        last = await self._backend.store.read(older, kinds={RecordKind.NOTE}, newest_first=True, limit=1, bodies=False)
        if last and not last[0].erased:
            notes = await self._backend.store.read(older, kinds={RecordKind.NOTE}, bodies=False)
            ordinals = [record.ordinal for record in notes if not record.erased]
            await self._backend.store.erase(row.id, ordinals, at_ms=self._backend.clock.now_ms())

    async def _load_state(self, row: ThreadRow) -> MemoryState:
        said = [decode_record(record.body) for record in await self._read_since_snapshot(row)]
        return fold_records(record for record in said if record is not None)

    async def _read_since_snapshot(self, row: ThreadRow) -> list[Record]:
        """Return the newest snapshot and later records, oldest first; all records if there is no snapshot."""
        found: list[Record] = []
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        async for record in iterate_records(self._backend.store, [own], kinds={RecordKind.NOTE}, newest_first=True, page=PAGE):
            found.append(record)
            if isinstance(decode_record(record.body), Snapshot):
                break
        return found[::-1]

    async def _find_row(self) -> ThreadRow | None:
        try:
            return await self._backend.store.get(MEMORY_THREAD)
        except ThreadNotFound:
            return None

    async def _create(self) -> ThreadRow:
        now = self._backend.clock.now_ms()
        # Archived: it is no conversation, so thread lists leave it out.
        meta = MetaBody(dialect=DIALECT, title="memory", archived=True)
        first = NewRecord(kind=RecordKind.META, at_ms=now, turn=0, tokens=0, body=encode_body(meta))
        # Another process may create it at the same time.
        with suppress(ThreadExists):
            await self._backend.store.create(NewThread(id=MEMORY_THREAD, dialect=DIALECT, created_at_ms=now), [first])
        return await self._backend.store.get(MEMORY_THREAD)

    async def _append(self, row: ThreadRow, record: MemoryRecord) -> None:
        note = NewRecord(kind=RecordKind.NOTE, at_ms=self._backend.clock.now_ms(), turn=0, tokens=0, body=encode_record(record))
        # Straight into the store: the persistence mode does not apply to the memory.
        await self._backend.store.append(row.id, [note], expected=row.next)
