"""One tenant's view of a SQLite file: the port, spelled as operations on the writer and the readers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial

from threadkeep.errors import StoreError
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.sqlite import operations
from threadkeep.store.sqlite import search as text
from threadkeep.store.sqlite.watch import Changes
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
        changes: Changes,
        searchable: Callable[[str, bytes], str],
        close: Callable[[], Awaitable[None]],
    ) -> None:
        self._number = number
        self._tenant = tenant
        self._writer = writer
        self._readers = readers
        self._changes = changes
        self._searchable = searchable
        self._close = close

    @property
    def tenant(self) -> Tenant:
        return self._tenant

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> None:
        await self._writer.run(partial(operations.create, thread=thread, records=tuple(records), tenant=self._number))

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        operation = partial(
            operations.append, thread_id=thread_id, records=tuple(records), expected=expected, tenant=self._number
        )
        return await self._writer.run(operation)

    async def get(self, thread_id: str) -> ThreadRow:
        return await self._readers.run(partial(operations.get, thread_id=thread_id, tenant=self._number))

    async def threads(self, *, prefix: str = "", limit: int = 100) -> list[ThreadRow]:
        return await self._readers.run(partial(operations.threads, tenant=self._number, prefix=prefix, limit=limit))

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
        return await self._readers.run(partial(operations.read, span=span, wanted=wanted, tenant=self._number))

    async def lookup(self, chains: Sequence[bytes]) -> list[Found]:
        return await self._readers.run(partial(operations.lookup, chains=tuple(chains), tenant=self._number))

    async def search(self, spans: Sequence[Span], query: str, *, limit: int) -> list[Hit]:
        match = text.match_expression(query)
        if not match or not spans:
            return []
        reach = await self._readers.run(text.reach)
        newest = reach.newest
        while reach.upto < newest:
            batch = await self._readers.run(partial(text.gather, was=reach, searchable=self._searchable))
            await self._writer.run(partial(text.index, batch=batch))
            reach = await self._readers.run(text.reach)
        return await self._readers.run(partial(text.search, spans=tuple(spans), match=match, tenant=self._number, limit=limit))

    async def acquire(self, key: str, *, holder: str, now_ms: int, ttl_ms: int) -> bool:
        operation = partial(operations.acquire, key=key, holder=holder, now_ms=now_ms, ttl_ms=ttl_ms, tenant=self._number)
        return await self._writer.run(operation)

    async def release(self, key: str, *, holder: str) -> None:
        await self._writer.run(partial(operations.release, key=key, holder=holder, tenant=self._number))

    async def erase(self, thread_id: str, ordinals: Collection[int], *, at_ms: int) -> int:
        operation = partial(operations.erase, thread_id=thread_id, ordinals=tuple(ordinals), at_ms=at_ms, tenant=self._number)
        erased = await self._writer.run(operation)
        if not await self._readers.run(operations.empty_the_log):
            unfinished = "the records are erased, but another process kept the log, and their bytes in it; erase again to finish"
            raise StoreError(self._readers.location, unfinished)
        return erased

    @asynccontextmanager
    async def watch(self, thread_id: str | None = None) -> AsyncIterator[Watch]:
        async with self._changes.watch() as watch:
            if thread_id is not None:
                await self.get(thread_id)
            yield watch

    async def close(self) -> None:
        """Close the file this store came from, and with it every other tenant's store on it."""
        await self._close()
