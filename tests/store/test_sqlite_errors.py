"""Every failure of SQLite and of the file system has a name of ours.

Of one backend alone: result codes are SQLite's; test_postgres_errors.py has PostgreSQL's.
"""

from __future__ import annotations

import errno
import sqlite3

import pytest

from threadkeep.errors import StoreBusy, StoreCorrupt, StoreError, StoreForeign, StoreFull, StoreReadOnly
from threadkeep.store.sqlite.errors import name_os_error, name_sqlite_error, translate_errors

PRIMARY_CODES = {
    "SQLITE_ERROR": StoreError,
    "SQLITE_INTERNAL": StoreError,
    "SQLITE_PERM": StoreReadOnly,
    "SQLITE_ABORT": StoreError,
    "SQLITE_BUSY": StoreBusy,
    "SQLITE_LOCKED": StoreBusy,
    "SQLITE_NOMEM": StoreError,
    "SQLITE_READONLY": StoreReadOnly,
    "SQLITE_INTERRUPT": StoreError,
    "SQLITE_IOERR": StoreError,
    "SQLITE_CORRUPT": StoreCorrupt,
    "SQLITE_NOTFOUND": StoreError,
    "SQLITE_FULL": StoreFull,
    "SQLITE_CANTOPEN": StoreReadOnly,
    "SQLITE_PROTOCOL": StoreError,
    "SQLITE_EMPTY": StoreError,
    "SQLITE_SCHEMA": StoreError,
    "SQLITE_TOOBIG": StoreError,
    "SQLITE_CONSTRAINT": StoreError,
    "SQLITE_MISMATCH": StoreError,
    "SQLITE_MISUSE": StoreError,
    "SQLITE_NOLFS": StoreError,
    "SQLITE_AUTH": StoreReadOnly,
    "SQLITE_FORMAT": StoreCorrupt,
    "SQLITE_RANGE": StoreError,
    "SQLITE_NOTADB": StoreForeign,
}
EXTENDED_CODES = {
    "SQLITE_BUSY_SNAPSHOT": StoreBusy,
    "SQLITE_READONLY_DBMOVED": StoreReadOnly,
    "SQLITE_CANTOPEN_ISDIR": StoreReadOnly,
    "SQLITE_CORRUPT_INDEX": StoreCorrupt,
    "SQLITE_IOERR_FSYNC": StoreError,
}


def sqlite_error(code: int | None) -> sqlite3.Error:
    error = sqlite3.OperationalError("what SQLite said")
    if code is not None:
        error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(("name", "wanted"), [*PRIMARY_CODES.items(), *EXTENDED_CODES.items()])
def test_each_code_has_one_name(name: str, wanted: type[StoreError]) -> None:
    """A result code of SQLite, extended ones too, becomes exactly one of our errors, its cause kept."""
    error = sqlite_error(getattr(sqlite3, name))
    named = name_sqlite_error(error, location="s.db")
    assert (type(named), named.location, named.__cause__) == (wanted, "s.db", error)


def test_the_table_of_codes_is_whole() -> None:
    """Every primary error code this SQLite can return stands in the table above."""
    assert sorted(getattr(sqlite3, name) for name in PRIMARY_CODES) == list(range(1, 27))


def test_an_error_without_a_code_is_a_plain_store_error() -> None:
    """What the Python module raises on its own carries no code, and still becomes ours."""
    assert type(name_sqlite_error(sqlite_error(None), location="s.db")) is StoreError


@pytest.mark.parametrize(
    ("number", "wanted"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EACCES, StoreReadOnly),
        (errno.EROFS, StoreReadOnly),
        (errno.EISDIR, StoreError),
        (errno.EIO, StoreError),
    ],
)
def test_each_file_error_has_one_name(number: int, wanted: type[StoreError]) -> None:
    """Failures of the file system are named like SQLite's."""
    assert type(name_os_error(OSError(number, "said the system"), location="s.db")) is wanted


@pytest.mark.parametrize("raised", [sqlite_error(sqlite3.SQLITE_FULL), OSError(errno.ENOSPC, "full")])
def test_nothing_foreign_leaves_the_boundary(raised: Exception) -> None:
    """Inside the boundary anything may be raised; outside only ours is seen."""
    with pytest.raises(StoreFull) as outside, translate_errors("s.db"):
        raise raised
    assert outside.value.__cause__ is raised
