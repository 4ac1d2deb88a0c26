"""One SQLite file, or one in memory, and each tenant's store in it: the port, as operations of the writer and the readers."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from threadkeep.errors import StoreError
from threadkeep.store.base import Found, Hit, NewRecord, NewThread, Record, RecordKind, Span, Tenant, ThreadRow, Watch
from threadkeep.store.sqlite import operations, search
from threadkeep.store.sqlite.file import connect_to_write, open_in_memory
from threadkeep.store.sqlite.sql_files import QUERIES
from threadkeep.store.sqlite.watch import FileWatch
from threadkeep.store.sqlite.workers import Readers, Writer

_KEY_BYTES = 32

P = ParamSpec("P")
T = TypeVar("T")
# What is done on a connection for the tenant of that number.
Operation = Callable[Concatenate[sqlite3.Connection, int, P], T]


class SqliteStore:
    """`ThreadStore` and every optional port for one tenant; contracts are stated there. Made by `SqliteDatabase`."""

    def __init__(self, database: SqliteDatabase, *, number: int, tenant: Tenant) -> None:
        self._database = database
        self._number = number
        self._tenant = tenant
        self._writer = database.writer
        self._readers = database.readers

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
            batch = await self._readers.run(partial(search.gather_batch, was=state, searchable=self._database.searchable))
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
        async with self._database.file_watch.watch() as watch:
            if thread_id is not None:
                await self.get(thread_id)
            yield watch

    async def close(self) -> None:
        """Close the file this store came from, and with it every other tenant's store on it."""
        await self._database.close()

    async def _write(self, operation: Operation[P, T], *given: P.args, **named: P.kwargs) -> T:
        return await self._writer.run(lambda connection: operation(connection, self._number, *given, **named))

    async def _read(self, operation: Operation[P, T], *given: P.args, **named: P.kwargs) -> T:
        return await self._readers.run(lambda connection: operation(connection, self._number, *given, **named))


class SqliteDatabase:
    """An open file. Belongs to the event loop that opened it; any number of processes may have the same file open."""

    def __init__(self, *, writer: Writer, readers: Readers | Writer, searchable: Callable[[str, bytes], str]) -> None:
        self.writer = writer
        self.readers = readers
        self.file_watch = FileWatch(readers)
        self.searchable = searchable

    @classmethod
    async def open_in_memory(cls, *, searchable: Callable[[str, bytes], str]) -> SqliteDatabase:
        """Open a new database that ends when it is closed. One connection, in one thread, reads and writes it."""
        only = Writer(":memory:", connect=open_in_memory)
        return cls(writer=only, readers=only, searchable=searchable)

    @classmethod
    async def open(cls, path: str | PathLike[str], *, searchable: Callable[[str, bytes], str]) -> SqliteDatabase:
        """Open the file at `path`, or create it, its folders too, readable by its owner alone.

        A store that cannot be written is opened to be read: writing to it raises `StoreReadOnly`, and so does a search while its
        index is behind, or asking for a tenant it does not have.

        Args:
            searchable: Given a dialect and an item's bytes, returns the text to index. Called on other threads; must
                not raise, whatever the bytes.

        Raises:
            StoreForeign: The file is another program's; it was not touched.
            StoreTooNew: A newer threadkeep wrote it.
            StoreReadOnly: It is not there and cannot be made, or is of an older schema and cannot be migrated.
        """
        file = Path(path)
        writer = Writer(str(file), connect=partial(connect_to_write, file))
        database = cls(writer=writer, readers=Readers(file), searchable=searchable)
        try:
            await database.readers.run(lambda _: None)
        except BaseException:
            await database.close()
            raise
        return database

    async def open_tenant(self, name: str = "local", *, key: bytes | None = None) -> SqliteStore:
        """Return the store of the tenant called `name`; it and its random key are made when it is first asked for.

        A new tenant gets `key` if one is given: that of the store its threads are copied from.
        """

        def add(connection: sqlite3.Connection) -> tuple[int, bytes]:
            connection.execute(QUERIES["add_tenant"], {"name": name, "key": key or secrets.token_bytes(_KEY_BYTES)})
            row = _find_tenant(connection, name)
            assert row is not None
            return row

        found = await self.readers.run(lambda connection: _find_tenant(connection, name))
        number, known = found if found is not None else await self.writer.run(add)
        return SqliteStore(self, number=number, tenant=Tenant(name=name, key=known))

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return await self.readers.run(lambda connection: _find_tenant(connection, name)) is not None

    async def close(self) -> None:
        """Finish what was accepted and close the file, for every tenant's store. Closing twice is no error."""
        self.writer.refuse()
        self.readers.refuse()
        self.file_watch.refuse()
        # A cancelled caller must not leave a thread behind.
        await asyncio.shield(asyncio.to_thread(self._join))

    def _join(self) -> None:
        # The writer last: closing the file's last connection folds the log back into it, which a reader cannot do.
        self.readers.join()
        self.writer.join()


def _find_tenant(connection: sqlite3.Connection, name: str) -> tuple[int, bytes] | None:
    row = connection.execute(QUERIES["find_tenant"], {"name": name}).fetchone()
    return None if row is None else (row[0], row[2])
