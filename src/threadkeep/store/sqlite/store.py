"""One tenant's store in a SQLite file: the port, as operations of the writer and the readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from threadkeep.errors import StoreError
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.sqlite import operations, search
from threadkeep.store.sqlite.watch import FileWatch
from threadkeep.store.sqlite.workers import Readers, Writer


class SqliteStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `SqliteDatabase`."""

    def __init__(
        self,
        *,
        number: int,
        tenant: Tenant,
        writer: Writer,
        readers: Readers,
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
        await self._writer.run(partial(operations.create_thread, thread=thread, records=tuple(records), tenant=self._number))

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        return await self._writer.run(
            partial(
                operations.append_records,
                thread_id=thread_id,
                records=tuple(records),
                expected=expected,
                tenant=self._number,
            )
        )

    async def get(self, thread_id: str) -> ThreadRow:
        return await self._readers.run(partial(operations.get_thread, thread_id=thread_id, tenant=self._number))

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return await self._readers.run(partial(operations.list_threads, tenant=self._number, prefix=prefix, limit=limit))

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
        return await self._readers.run(partial(operations.read_records, span=span, wanted=wanted, tenant=self._number))

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        return await self._readers.run(partial(operations.find_chains, chains=tuple(chains), tenant=self._number))

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
        return await self._readers.run(
            partial(search.search_index, spans=tuple(spans), expression=expression, tenant=self._number, limit=limit)
        )

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        return await self._writer.run(
            partial(operations.acquire_lease, key=key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms, tenant=self._number)
        )

    async def release(self, key: str, *, holder: str) -> None:
        await self._writer.run(partial(operations.release_lease, key=key, holder=holder, tenant=self._number))

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        erased = await self._writer.run(
            partial(
                operations.erase_bodies,
                thread_id=thread_id,
                ordinals=tuple(ordinals),
                at_ms=at_ms,
                tenant=self._number,
            )
        )
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
