"""The database file: whose it is, how it is made, migrated and connected to, and whether what was read from it stands."""

from __future__ import annotations

import os
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from threadkeep.errors import StoreBusy, StoreError, StoreForeign, StoreReadOnly, StoreTooNew, ThreadkeepError
from threadkeep.store.sqlite.errors import translate_errors
from threadkeep.store.sqlite.sql_files import SQL_FOLDER, split_statements

T = TypeVar("T")

APPLICATION_ID = int.from_bytes(b"hldf", "big")
# A checkpoint on a slow disk holds the lock for seconds; another process must outwait it, not lose its turn to it.
BUSY_SECONDS = 10.0
# How long a writer waits, at random between the two, before it asks for the lock again.
_RETRY_SECONDS = (0.0005, 0.003)
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_AT = slice(68, 72)
# How many readers of this process are connected to a file, by device and inode.
_connected: Counter[tuple[int, int]] = Counter()
_counting = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file as the file system has it. Our writers create a log before anything else, and leave another time when they go."""

    device: int
    inode: int
    size: int
    written_at_ns: int
    has_log: bool
    has_index: bool

    @classmethod
    def read(cls, path: Path) -> FileState:
        """Look at the file; a link is followed, because the log lies beside the file and has its name."""
        file, found = path.resolve(), path.stat()
        return cls(
            device=found.st_dev,
            inode=found.st_ino,
            size=found.st_size,
            written_at_ns=found.st_mtime_ns,
            has_log=file.with_name(f"{file.name}-wal").exists(),
            has_index=file.with_name(f"{file.name}-shm").exists(),
        )


class Reader:
    """Reads a file through one connection, which it makes when it first reads.

    Where SQLite takes no locks, a connection keeps pages it has read and finds whatever a writer leaves beside them. So such a
    connection serves one read, and if the file changed meanwhile, the read is repeated.
    """

    def __init__(self, path: Path, *, creates: bool = False) -> None:
        """Read the file at `path`; with `creates` the first connection makes it a store of the newest schema (`open_file`)."""
        self._path = path
        self._creates = creates
        self._connection: sqlite3.Connection | None = None
        self._file = (0, 0)

    def read(self, operation: Callable[[sqlite3.Connection], T]) -> T:
        """Return what `operation` reads. It may run more than once.

        Raises:
            StoreBusy: The file changed during every try.
        """
        location, deadline = str(self._path), time.monotonic() + BUSY_SECONDS
        while True:
            with translate_errors(location):
                connection, unlocked = self._connect()
                if unlocked is None:
                    return operation(connection)
            failure: ThreadkeepError | None = None
            try:
                with translate_errors(location):
                    result = operation(connection)
            except ThreadkeepError as error:
                failure = error
            finally:
                connection.close()
            with translate_errors(location):
                is_settled = FileState.read(self._path) == unlocked
            if is_settled and failure is not None:
                raise failure
            if is_settled:
                return result
            if time.monotonic() > deadline:
                raise StoreBusy(location)

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            with _counting:
                _connected[self._file] -= 1

    def _connect(self) -> tuple[sqlite3.Connection, FileState | None]:
        """Return a connection, and the file's state if nothing but that shows whether it changes under a read."""
        if self._connection is not None:
            return self._connection, None
        creates, self._creates = self._creates, False
        unlocked = find_unlocked_state(self._path) if self._path.exists() else None
        connection = open_file(self._path) if creates else open_to_read(self._path)
        if unlocked is None:
            self._connection = connection
            found = self._path.stat()
            self._file = (found.st_dev, found.st_ino)
            with _counting:
                _connected[self._file] += 1
        return connection, unlocked


def read_migrations() -> Mapping[int, str]:
    """Return the migrations by the version each leads to."""
    return {int(path.name[:4]): path.read_text(encoding="utf-8") for path in sorted(SQL_FOLDER.glob("[0-9]*.sql"))}


def open_file(path: Path) -> sqlite3.Connection:
    """Make `path` a store of the newest schema, unless it is one, and return a connection that reads it.

    Where the file and its folder are writable, this takes the write lock for a moment, so that a file that only looks writable is
    found out now.

    Raises:
        StoreForeign: The file is another program's. It was read, never opened as a database, never written to.
        StoreTooNew: A newer threadkeep wrote it.
        StoreReadOnly: It cannot be written, and is not there yet or of an older schema.
    """
    location = str(path)
    with translate_errors(location):
        if not path.exists():
            _create(path)
        if not is_writable(path):
            return open_to_read(path)
        _refuse_foreign(path)
        connection = connect(path)
        try:
            _migrate(connection, location=location)
            _use_wal(connection, location=location)
            connection.execute("PRAGMA query_only = ON")
        except BaseException:
            connection.close()
            raise
        return connection


def open_to_read(path: Path) -> sqlite3.Connection:
    """Return a connection that reads an existing store of the newest schema; raises as `open_file` does.

    A file may be without locks while its log comes or goes: a failure while the file changed is tried again.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        before = FileState.read(path)
        try:
            _refuse_foreign(path)
            connection = connect(path, read_only=True)
            try:
                _check_version(connection, location=str(path))
            except BaseException:
                connection.close()
                raise
            return connection
        except sqlite3.Error:
            if FileState.read(path) == before or time.monotonic() > deadline:
                raise


def find_unlocked_state(path: Path) -> FileState | None:
    """Return the state of a file that SQLite reads without locks: one that cannot be written and has no log; else None."""
    state = None if is_writable(path) else FileState.read(path)
    return None if state is None or state.has_log else state


def connect(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
    """Return a connection to an existing store; it may be handed from thread to thread."""
    if is_writable(path):
        mode = "mode=rw"
    elif find_unlocked_state(path) is None:
        # There is, or was, a writer: SQLite reads through its log and locks.
        mode = "mode=ro"
    else:
        # SQLite could not even read: it would have to create the log's index first. Nothing is pending without a log, so the file
        # is read as it lies, for as long as it does not change (`Reader`).
        mode = "mode=ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.resolve().as_uri()}?{mode}",
        uri=True,
        isolation_level=None,
        timeout=BUSY_SECONDS,
        check_same_thread=False,
    )
    try:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Erased bytes, and those left behind when the index merges, are overwritten; free pages would keep them for years.
        connection.execute("PRAGMA query_only = ON" if read_only else "PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_in_memory() -> sqlite3.Connection:
    """Return the only connection to a new, empty store that ends with it."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA foreign_keys = ON")
    _migrate(connection, location=":memory:")
    _set_busy_timeout(connection, seconds=0.0)
    return connection


def connect_to_write(path: Path) -> sqlite3.Connection:
    """Return a connection for `begin_writing`; with a log in place nothing else ever waits."""
    connection = connect(path)
    _set_busy_timeout(connection, seconds=0.0)
    return connection


def begin_writing(connection: sqlite3.Connection) -> None:
    """Begin a transaction that holds the write lock, on a connection without a busy timeout.

    SQLite doubles its wait up to a tenth of a second, so a process that writes without a pause wins nearly every time and others
    starve beside it. With a retry every few milliseconds the lock goes round.
    """
    _retry_while_busy(lambda: connection.execute("BEGIN IMMEDIATE"))


def is_writable(path: Path) -> bool:
    """Whether the file and its folder can be written; both must be, because the log lies beside the file."""
    options = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    return all(os.access(place, os.W_OK, **options) for place in (path, path.resolve().parent))


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        # Created before SQLite sees it: transcripts are private, and the log beside it inherits the mode.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _refuse_foreign(path: Path) -> None:
    """Raise unless the file is empty or ours.

    It is read as bytes: opening another program's database through SQLite could already replay its journal. Our mark is
    always in the file itself, never only in the log, because `_migrate` commits it before the log exists.

    A file that this process reads already was checked. To open and close it again would end all locks of this process on it
    (POSIX), and another process that leaves would take itself for the last and remove the log under our readers.
    """
    found = path.stat()
    if _connected[found.st_dev, found.st_ino] > 0:
        return
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if not header:
        return
    mark = int.from_bytes(header[_APPLICATION_ID_AT], "big")
    if not header.startswith(_MAGIC) or mark != APPLICATION_ID:
        raise StoreForeign(str(path))


def _migrate(connection: sqlite3.Connection, *, location: str) -> None:
    """Run the missing migrations; each version bump commits with its migration.

    The write lock is taken even when nothing is missing: a file that only looks writable fails now, not at the first append.
    """
    steps = read_migrations()
    known = max(steps)
    _set_busy_timeout(connection, seconds=0.0)
    begin_writing(connection)
    try:
        # A commit to a file that has no log yet waits for its readers.
        _set_busy_timeout(connection, seconds=BUSY_SECONDS)
        (found,) = connection.execute("PRAGMA user_version").fetchone()
        if found > known:
            raise StoreTooNew(location, found=found, known=known)
        for version in range(found + 1, known + 1):
            for statement in split_statements(steps[version]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version:d}")
        if found == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID:d}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _check_version(connection: sqlite3.Connection, *, location: str) -> None:
    """Raise unless the file has the schema this threadkeep knows; it cannot be migrated."""
    known = max(read_migrations())
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > known:
        raise StoreTooNew(location, found=found, known=known)
    if found < known:
        raise StoreReadOnly(location)


def _use_wal(connection: sqlite3.Connection, *, location: str) -> None:
    # The switch needs the file to itself and ignores the busy timeout; of several processes that make the same store, all but
    # one would fail here.
    (mode,) = _retry_while_busy(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone())
    if mode != "wal":
        raise StoreError(location, "its file system cannot hold a write-ahead log; choose a local disk")


def _retry_while_busy(attempt: Callable[[], T]) -> T:
    """Return what `attempt` returns, trying again for `BUSY_SECONDS` while another process holds the lock."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(*_RETRY_SECONDS))


def _set_busy_timeout(connection: sqlite3.Connection, *, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")
