"""The database file: whose it is, how it is made, how it is brought up to date, how it is connected to."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import StoreError, StoreForeign, StoreTooNew
from holdfast.store.sqlite.errors import store_errors
from holdfast.store.sqlite.queries import SQL_FOLDER, statements

APPLICATION_ID = int.from_bytes(b"hldf", "big")
# A checkpoint on a slow disk holds the lock for seconds; another process must outwait it, not lose its turn to it.
BUSY_SECONDS = 10.0
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_AT = slice(68, 72)


def migrations() -> Mapping[int, str]:
    """Return the migrations by the version each leads to."""
    return {int(path.name[:4]): path.read_text(encoding="utf-8") for path in sorted(SQL_FOLDER.glob("[0-9]*.sql"))}


def open_file(path: Path) -> sqlite3.Connection:
    """Make `path` a store of the newest schema, unless it is one, and return a connection that may write to it.

    Raises:
        StoreForeign: The file is another program's. It was read, never opened as a database, never written to.
        StoreTooNew: A newer holdfast wrote it.
        StoreReadOnly: It cannot be written.
    """
    location = str(path)
    with store_errors(location):
        _create(path)
        _refuse_foreign(path)
        connection = connect(path)
        try:
            _migrate(connection, location=location)
            _use_wal(connection, location=location)
        except BaseException:
            connection.close()
            raise
        return connection


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection to an existing store; it may be handed from thread to thread."""
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?mode=rw", uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    return connection


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Made before SQLite sees it: transcripts are private, and the log beside it inherits the mode.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _refuse_foreign(path: Path) -> None:
    """Raise unless the file is empty or ours.

    Read as bytes: opening another program's database through SQLite could already replay its journal. Our mark is
    always in the file itself, never only in the log, because `_migrate` commits it before the log exists.
    """
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return
    mark = int.from_bytes(header[_APPLICATION_ID_AT], "big")
    if not header.startswith(_MAGIC) or mark != APPLICATION_ID:
        raise StoreForeign(str(path))


def _migrate(connection: sqlite3.Connection, *, location: str) -> None:
    """Run the migrations that are missing; each version bump commits with its migration.

    The write lock is taken even when nothing is missing: a file that cannot be written says so now, not at the first
    append.
    """
    steps = migrations()
    known = max(steps)
    connection.execute("BEGIN IMMEDIATE")
    try:
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > known:
            raise StoreTooNew(location, found=found, known=known)
        for version in range(found + 1, known + 1):
            for statement in statements(steps[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version:d}")
        if found == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _use_wal(connection: sqlite3.Connection, *, location: str) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # The switch needs the file to itself and does not heed the busy timeout; of several processes that make
            # the same store, all but one would fail here.
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
    if mode != "wal":
        raise StoreError(location, "its file system cannot hold a write-ahead log; choose a local disk")
