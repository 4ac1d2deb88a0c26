"""One SQLite file and the threads that work on it."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import Callable
from functools import partial
from os import PathLike
from pathlib import Path

from threadkeep.store.base import Tenant
from threadkeep.store.sqlite.file import connect_to_write, open_in_memory
from threadkeep.store.sqlite.queries import QUERIES
from threadkeep.store.sqlite.store import SqliteStore
from threadkeep.store.sqlite.watch import FileWatch
from threadkeep.store.sqlite.workers import Readers, Writer

_KEY_BYTES = 32


class SqliteDatabase:
    """An open file. Belongs to the event loop that opened it; any number of processes may have the same file open."""

    def __init__(self, *, writer: Writer, readers: Readers | Writer, searchable: Callable[[str, bytes], str]) -> None:
        self._writer = writer
        self._readers = readers
        self._watch = FileWatch(readers)
        self._searchable = searchable

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
            await database._readers.run(lambda _: None)
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

        found = await self._readers.run(lambda connection: _find_tenant(connection, name))
        number, known = found if found is not None else await self._writer.run(add)
        return SqliteStore(
            number=number,
            tenant=Tenant(name=name, key=known),
            writer=self._writer,
            readers=self._readers,
            file_watch=self._watch,
            searchable=self._searchable,
            close=self.close,
        )

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""
        return await self._readers.run(lambda connection: _find_tenant(connection, name)) is not None

    async def close(self) -> None:
        """Finish what was accepted and close the file, for every tenant's store. Closing twice is no error."""
        self._writer.refuse()
        self._readers.refuse()
        self._watch.refuse()
        # A cancelled caller must not leave a thread behind.
        await asyncio.shield(asyncio.to_thread(self._join))

    def _join(self) -> None:
        # The writer last: closing the file's last connection folds the log back into it, which a reader cannot do.
        self._readers.join()
        self._writer.join()


def _find_tenant(connection: sqlite3.Connection, name: str) -> tuple[int, bytes] | None:
    row = connection.execute(QUERIES["find_tenant"], {"name": name}).fetchone()
    return None if row is None else (row[0], row[2])
