"""One tenant's store in a SQLite file: the port, as operations of the writer and the readers."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Concatenate, ParamSpec, TypeVar

from threadkeep.errors import StoreError
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.sqlite import operations, search
from threadkeep.store.sqlite.watch import FileWatch
from threadkeep.store.sqlite.workers import Readers, Writer

P = ParamSpec("P")
T = TypeVar("T")
# What is done on a connection for the tenant of that number.
Operation = Callable[Concatenate[sqlite3.Connection, int, P], T]


class SqliteStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `SqliteDatabase`."""

    def __init__(
        self,
        *,
        number: int,
        tenant: Tenant,
        writer: Writer,
        readers: Readers | Writer,
        file_watch: FileWatch,
        searchable: Callable[[str, bytes], str],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._number = number
        self._tenant = tenant
        self._writer = writer
        self._readers = readers
        self._file_watch = file_watch
        self._searchable = searchable
        self._close = close

    @property
    def tenant(self) -> Tenant:
        return self._tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        await self._write(operations.create_thread, thread, tuple(records))

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        return await self._write(operations.append_records, thread_id, tuple(records), expected=expected)

    async def get(self, thread_id: str) -> ThreadRow:
        return await self._read(operations.get_thread, thread_id)

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return await self._read(operations.list_threads, prefix=prefix, limit=limit)

    async def read(
        self,
        span: Span,
        *,
        kinds: Collection[RecordKind] | None = None,
        ordinals: Collection[int] | None = None,
        turn: int | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        bodies: bool = True,
    ) -> list[Record]:
        wanted = operations.Filter(
            kinds=kinds, ordinals=ordinals, turn=turn, newest_first=newest_first, limit=limit, bodies=bodies
        )
        return await self._read(operations.read_records, span, wanted)

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        return await self._read(operations.find_chains, tuple(chains))

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        expression = search.make_expression(query)
        if not expression or not spans:
            return []
        state = await self._readers.run(search.read_index_state)
        newest = state.newest
        while state.upto < newest:
            batch = await self._readers.run(partial(search.gather_batch, was=state, searchable=self._searchable))
            await self._writer.run(partial(search.write_batch, batch=batch))
            state = await self._readers.run(search.read_index_state)
        return await self._read(search.search_index, tuple(spans), expression, limit=limit)

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        return await self._write(operations.acquire_lease, key=key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms)

    async def release(self, key: str, *, holder: str) -> None:
        await self._write(operations.release_lease, key=key, holder=holder)

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        erased = await self._write(operations.erase_bodies, thread_id, tuple(ordinals), at_ms=at_ms)
        if not await self._readers.run(operations.empty_log):
            unfinished = "the records are erased, but another process kept the log, and their bytes in it; erase again to finish"
            raise StoreError(self._readers.location, unfinished)
        return erased

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        async with self._file_watch.watch() as watch:
            if thread_id is not None:
                await self.get(thread_id)
            yield watch

    async def close(self) -> None:
        """Close the file this store came from, and with it every other tenant's store on it."""
        await self._close()

    async def _write(self, operation: Operation[P, T], *given: P.args, **named: P.kwargs) -> T:
        return await self._writer.run(lambda connection: operation(connection, self._number, *given, **named))

    async def _read(self, operation: Operation[P, T], *given: P.args, **named: P.kwargs) -> T:
        return await self._readers.run(lambda connection: operation(connection, self._number, *given, **named))
