"""One SQLite file and the threads that work on it."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import threading
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import TypeVar

from threadkeep.store.base import Tenant
from threadkeep.store.sqlite.file import Connection, is_writable, open_file
from threadkeep.store.sqlite.queries import QUERIES
from threadkeep.store.sqlite.store import SqliteStore
from threadkeep.store.sqlite.watch import Changes
from threadkeep.store.sqlite.workers import Readers, Writer

T = TypeVar("T")

_KEY_BYTES = 32


class SqliteDatabase:
    """An open file. Belongs to the event loop that opened it; any number of processes may have the same file open."""

    def __init__(
        self, *, writer: Writer, readers: Readers, changes: Changes, searchable: Callable[[str, bytes], str], read_only: bool
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._changes = changes
        self._searchable = searchable
        self._read_only = read_only

    @classmethod
    async def open(cls, path: str | PathLike[str], *, searchable: Callable[[str, bytes], str]) -> SqliteDatabase:
        """Open the file at `path`, or create it, its folders too, readable by its owner alone.

        A store that cannot be written is opened all the same, to be read: writing to it raises `StoreReadOnly`, and so does
        a search while its index is behind, or asking for a tenant it does not know.

        Args:
            searchable: Given a dialect and an item's bytes, returns the text to index. Called on other threads; must
                not raise, whatever the bytes.

        Raises:
            StoreForeign: The file is another program's; it was not touched.
            StoreTooNew: A newer threadkeep wrote it.
            StoreReadOnly: It is not there and cannot be made, or is of an older schema and cannot be brought up to date.
        """
        file = Path(path)
        opening = _Opening(file)
        try:
            connection, read_only = await asyncio.to_thread(opening.run)
        except BaseException:
            opening.forsake()
            raise
        readers = Readers(file, connection)
        return cls(writer=Writer(file), readers=readers, changes=Changes(file), searchable=searchable, read_only=read_only)

    @property
    def read_only(self) -> bool:
        """Whether it was opened to be read only, because the file or its folder cannot be written."""
        return self._read_only

    async def open_tenant(self, name: str = "local", *, key: bytes | None = None) -> SqliteStore:
        """Return the store of the tenant called `name`; it and its random key are made when it is first asked for.

        `key` is the one it is made with if it is not there yet: that of the store its threads are copied from.
        """

        def find(connection: sqlite3.Connection) -> tuple[int, str, bytes] | None:
            row: tuple[int, str, bytes] | None = connection.execute(QUERIES["find_tenant"], {"name": name}).fetchone()
            return row

        def add(connection: sqlite3.Connection) -> tuple[int, str, bytes]:
            connection.execute(QUERIES["add_tenant"], {"name": name, "key": key or secrets.token_bytes(_KEY_BYTES)})
            row = find(connection)
            assert row is not None
            return row

        found = await self._readers.run(find)
        number, _, known = await self._writer.run(add) if found is None else found
        return SqliteStore(
            number=number,
            tenant=Tenant(name=name, key=known),
            writer=self._writer,
            readers=self._readers,
            changes=self._changes,
            searchable=self._searchable,
            close=self.close,
        )

    async def has_tenant(self, name: str) -> bool:
        """Whether there is a tenant called `name`; none is made."""

        def find(connection: sqlite3.Connection) -> bool:
            return connection.execute(QUERIES["find_tenant"], {"name": name}).fetchone() is not None

        return await self._readers.run(find)

    async def close(self) -> None:
        """Finish what was accepted and close the file, for every tenant's store. Closing twice is no error."""
        self._writer.refuse()
        self._readers.refuse()
        self._changes.refuse()
        # Whoever does not wait for it leaves no thread that nobody told to end.
        await asyncio.shield(asyncio.to_thread(self._join))

    def _join(self) -> None:
        # The writer last: closing the file's last connection folds the log back into it, which a reader cannot do.
        self._readers.join()
        self._changes.join()
        self._writer.join()


class _Opening:
    """A file that a thread opens for somebody who may not wait for it: closed then, whichever of the two is done first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._is_forsaken = False

    def run(self) -> tuple[Connection, bool]:
        """Return a connection, and whether the file can only be read. Blocks; call it off the event loop."""
        connection = open_file(self._path)
        with self._lock:
            self._connection = connection
            if self._is_forsaken:
                connection.close()
        return connection, not is_writable(self._path)

    def forsake(self) -> None:
        """Close what was opened, or have it closed once it is."""
        with self._lock:
            self._is_forsaken = True
            if self._connection is not None:
                self._connection.close()
