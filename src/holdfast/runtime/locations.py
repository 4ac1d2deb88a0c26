"""From a store's location, as people write it, to an open store."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from holdfast.dialects import searchable_text
from holdfast.errors import BadInput
from holdfast.runtime.backend import Backing
from holdfast.store.memory import MemoryDatabase
from holdfast.store.sqlite import SqliteDatabase

IN_MEMORY = "memory:"


class Database(Protocol):
    """Where the stores of all tenants live."""

    async def tenant(self, name: str = ...) -> Backing: ...


async def open_database(location: str) -> Database:
    """Open the store at `location`: a path, `sqlite:///PATH`, or `memory:` for one that ends with the process.

    Raises:
        BadInput: It names a kind of store this holdfast does not have.
    """
    if location == IN_MEMORY:
        return MemoryDatabase(searchable=searchable_text)
    return await SqliteDatabase.open(sqlite_path(location), searchable=searchable_text)


def sqlite_path(location: str) -> Path:
    """Return the file a store location names.

    Raises:
        BadInput: It names a kind of store this holdfast does not have.
    """
    if location.startswith("sqlite:///"):
        location = location.removeprefix("sqlite:///")
    elif "://" in location:
        scheme = location.split("://", 1)[0]
        raise BadInput(f"no store is reached by {scheme}://; write a path, sqlite:///PATH or memory:")
    return Path(location).expanduser()
