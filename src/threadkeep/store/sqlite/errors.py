"""The one place where failures of SQLite and the file system become the store's."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from threadkeep.errors import StoreBusy, StoreCorrupt, StoreError, StoreForeign, StoreFull, StoreReadOnly


class Damaged(Exception):
    """The file holds something that no threadkeep wrote."""


# What the Python module raises for a value that no database can hold.
UNSTORABLE = (OverflowError, UnicodeEncodeError)


def name_sqlite_error(error: sqlite3.Error | OverflowError | UnicodeEncodeError, *, location: str) -> StoreError:
    """Return the store's error for a SQLite error, its cause kept; an unforeseen one is a plain `StoreError`."""
    named: StoreError
    if isinstance(error, UNSTORABLE):
        named = StoreError(location, "SQLite cannot hold half a surrogate, or so large a number; nothing was written")
        named.__cause__ = error
        return named
    # An extended code (SQLITE_READONLY_DBMOVED) carries its primary one in the low byte; errors the Python module
    # raises on its own have no code at all.
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            named = StoreBusy(location)
        case sqlite3.SQLITE_FULL:
            named = StoreFull(location)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            named = StoreReadOnly(location)
        case sqlite3.SQLITE_NOTADB:
            named = StoreForeign(location)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_FORMAT:
            named = StoreCorrupt(location, str(error))
        case _:
            named = StoreError(location, f"SQLite failed ({error}); nothing was written")
    named.__cause__ = error
    return named


def name_os_error(error: OSError, *, location: str) -> StoreError:
    """Return the store's error for a failure of the file system, its cause kept."""
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
def translate_errors(location: str) -> Iterator[None]:
    """Turn every foreign error raised in the block into a `StoreError`."""
    try:
        yield
    except (sqlite3.Error, *UNSTORABLE) as error:
        raise name_sqlite_error(error, location=location) from error
    except Damaged as error:
        raise StoreCorrupt(location, str(error)) from error
    except UnicodeDecodeError as error:
        # SQLite quotes a damaged schema in its message; Python then fails to decode the message itself.
        raise StoreCorrupt(location, "its schema or a text in it is not valid UTF-8") from error
    except OSError as error:
        raise name_os_error(error, location=location) from error
