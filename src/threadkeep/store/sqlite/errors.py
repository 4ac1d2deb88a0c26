"""The one place where SQLite's failures, and the file system's, become the store's."""

from __future__ import annotations

import errno
import sqlite3
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from threadkeep.errors import StoreBusy, StoreCorrupt, StoreError, StoreForeign, StoreFull, StoreReadOnly


def _busy(location: str, _: str) -> StoreError:
    return StoreBusy(location)


def _full(location: str, _: str) -> StoreError:
    return StoreFull(location)


def _read_only(location: str, _: str) -> StoreError:
    return StoreReadOnly(location)


def _foreign(location: str, _: str) -> StoreError:
    return StoreForeign(location)


def _plain(location: str, detail: str) -> StoreError:
    return StoreError(location, f"SQLite could not do it ({detail}); nothing was written")


class Damaged(Exception):
    """Something in the file that no threadkeep wrote."""


_BY_CODE: Mapping[int, Callable[[str, str], StoreError]] = MappingProxyType(
    {
        sqlite3.SQLITE_BUSY: _busy,
        sqlite3.SQLITE_LOCKED: _busy,
        sqlite3.SQLITE_FULL: _full,
        sqlite3.SQLITE_READONLY: _read_only,
        sqlite3.SQLITE_CANTOPEN: _read_only,
        sqlite3.SQLITE_PERM: _read_only,
        sqlite3.SQLITE_AUTH: _read_only,
        sqlite3.SQLITE_NOTADB: _foreign,
        sqlite3.SQLITE_CORRUPT: StoreCorrupt,
        sqlite3.SQLITE_FORMAT: StoreCorrupt,
    }
)


def from_sqlite(error: sqlite3.Error, *, location: str) -> StoreError:
    """Return the store's name for a SQLite error, its cause kept; an unforeseen one is a plain `StoreError`."""
    # An extended code (SQLITE_READONLY_DBMOVED) carries its primary one in the low byte; errors the Python module
    # raises on its own have no code at all.
    primary = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    named = _BY_CODE.get(primary, _plain)(location, str(error))
    named.__cause__ = error
    return named


def from_os(error: OSError, *, location: str) -> StoreError:
    """Return the store's name for a failure of the file system, its cause kept."""
    named: StoreError
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        named = StoreFull(location)
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        named = StoreReadOnly(location)
    else:
        named = StoreError(location, f"the file cannot be opened ({error.strerror}); choose another path")
    named.__cause__ = error
    return named


@contextmanager
def store_errors(location: str) -> Iterator[None]:
    """Let only threadkeep's own errors out."""
    try:
        yield
    except sqlite3.Error as error:
        raise from_sqlite(error, location=location) from error
    except zlib.error as error:
        raise StoreCorrupt(location, f"a body does not inflate: {error}") from error
    except Damaged as error:
        raise StoreCorrupt(location, str(error)) from error
    except UnicodeDecodeError as error:
        # A damaged schema, quoted in SQLite's own message, is no text; Python then cannot even say what the error was.
        raise StoreCorrupt(location, "its schema or a text in it holds bytes that are no text") from error
    except OSError as error:
        raise from_os(error, location=location) from error
