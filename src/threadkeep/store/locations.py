"""From a store's location, as people write it, to an open store."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from threadkeep.dialects import render_search_text
from threadkeep.errors import InvalidSetting, MissingExtra
from threadkeep.store.addresses import SERVERS
from threadkeep.store.base import FullStore
from threadkeep.store.sqlite import SqliteDatabase

IN_MEMORY = "memory:"


class Database(Protocol):
    """The stores of all tenants in one place."""

    async def open_tenant(self, name: str = ..., *, key: bytes | None = ...) -> FullStore: ...

    async def has_tenant(self, name: str) -> bool: ...

    async def close(self) -> None: ...


def is_file(location: str) -> bool:
    """Whether a location names a file, which may not be there yet."""
    return location != IN_MEMORY and not location.startswith(SERVERS)


async def open_database(location: str, *, listen: str | None = None) -> Database:
    """Open the store at `location`: a path, `sqlite:///PATH`, `postgresql://…`, or `memory:` for one that ends with the process.

    `listen` is the server's own address if `location` is that of a pooler in front of it.

    Raises:
        InvalidSetting: It names a kind of store this threadkeep does not have.
        MissingExtra: It names one whose driver is not installed.
    """
    if location == IN_MEMORY:
        return await SqliteDatabase.open_in_memory(searchable=render_search_text)
    if not location.startswith(SERVERS):
        return await SqliteDatabase.open(parse_sqlite_path(location), searchable=render_search_text)
    try:
        # The driver is an extra.
        from threadkeep.store.postgres import PostgresDatabase
    except ImportError as error:
        raise MissingExtra("a PostgreSQL store", extra="postgres") from error
    return await PostgresDatabase.open(location, searchable=render_search_text, listen_url=listen)


def parse_sqlite_path(location: str) -> Path:
    """Return the file a store location names.

    Raises:
        InvalidSetting: It names a kind of store this threadkeep does not have.
    """
    if location.startswith("sqlite:///"):
        location = location.removeprefix("sqlite:///")
    elif "://" in location:
        scheme = location.split("://", 1)[0]
        text = f"no store is reached by {scheme}://; write a path, sqlite:///PATH, postgresql://… or memory:"
        raise InvalidSetting("store", text)
    return Path(location).expanduser()
