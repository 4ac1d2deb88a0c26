"""The database file: whose it is, how it is made, migrated and connected to, and whether what was read from it stands."""

from __future__ import annotations

import os
import random
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from threadkeep.errors import StoreCorrupt, StoreError, StoreForeign, StoreReadOnly, StoreTooNew
from threadkeep.store.sqlite.errors import store_errors
from threadkeep.store.sqlite.queries import SQL_FOLDER, statements


@dataclass(frozen=True, slots=True, kw_only=True)
class FileState:
    """A file as the file system has it. A writer of ours makes a log first of all, and leaves another time when it goes."""

    device: int
    inode: int
    size: int
    written_at_ns: int
    has_log: bool
    has_index: bool

    @classmethod
    def of(cls, path: Path) -> FileState:
        """Look at the file; a link is followed, for the log lies beside the file and has its name."""
        file, found = path.resolve(), path.stat()
        return cls(
            device=found.st_dev,
            inode=found.st_ino,
            size=found.st_size,
            written_at_ns=found.st_mtime_ns,
            has_log=file.with_name(f"{file.name}-wal").exists(),
            has_index=file.with_name(f"{file.name}-shm").exists(),
        )


class Connection(sqlite3.Connection):
    """A connection that knows, where no lock guards what it reads, which file it was made for."""

    made_for: tuple[Path, FileState] | None = None

    @property
    def is_guarded(self) -> bool:
        """Whether SQLite itself sees to it that nothing changes under a read."""
        return self.made_for is None

    @property
    def is_overtaken(self) -> bool:
        """Whether the file was written, or another put in its place, since a connection without locks was made."""
        if self.made_for is None:
            return False
        path, then = self.made_for
        try:
            return FileState.of(path) != then
        except OSError:
            # It is gone, or cannot be looked at any more; connecting anew says which.
            return True


APPLICATION_ID = int.from_bytes(b"hldf", "big")
# A checkpoint on a slow disk holds the lock for seconds; another process must outwait it, not lose its turn to it.
BUSY_SECONDS = 10.0
# How long a writer waits, at random between the two, before it asks for the lock again.
_ASK_AGAIN_SECONDS = (0.0005, 0.003)
_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_APPLICATION_ID_AT = slice(68, 72)


def migrations() -> Mapping[int, str]:
    """Return the migrations by the version each leads to."""
    return {int(path.name[:4]): path.read_text(encoding="utf-8") for path in sorted(SQL_FOLDER.glob("[0-9]*.sql"))}


def open_file(path: Path) -> Connection:
    """Make `path` a store of the newest schema, unless it is one, and return a connection that reads it.

    Where the file and its folder can be written, the lock for it was taken for a moment, so that it is known to be had.

    Raises:
        StoreForeign: The file is another program's. It was read, never opened as a database, never written to.
        StoreTooNew: A newer threadkeep wrote it.
        StoreReadOnly: It cannot be written, and is not there yet or of an older schema.
    """
    location = str(path)
    with store_errors(location):
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


def open_to_read(path: Path) -> Connection:
    """Return a connection that reads an existing store of the newest schema; what is wrong with it is told as `open_file` does.

    A file may be without locks, or its log on its way in or out: what went wrong while it moved is tried again.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        before = FileState.of(path)
        try:
            return _checked(path)
        except sqlite3.Error:
            if FileState.of(path) == before or time.monotonic() > deadline:
                raise


def connect(path: Path, *, read_only: bool = False) -> Connection:
    """Return a connection to an existing store; it may be handed from thread to thread."""
    state = None if is_writable(path) else FileState.of(path)
    uri = f"{path.resolve().as_uri()}?{_mode(state)}"
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False, factory=Connection
    )
    try:
        if state is not None and not state.has_log:
            connection.made_for = (path, state)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        else:
            # What was erased, or left behind when the index merged, is overwritten; free pages would keep it for years.
            connection.execute("PRAGMA secure_delete = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_write(path: Path) -> Connection:
    """Return a connection for `begin_writing`: with a log in place nothing else ever waits."""
    connection = connect(path)
    _set_patience(connection, seconds=0.0)
    return connection


def begin_writing(connection: sqlite3.Connection) -> None:
    """Begin a transaction with the write lock in hand, on a connection that has no patience of its own.

    SQLite's doubles to a tenth of a second between two tries, so that a process which writes without a pause wins nearly
    each of them: others starve beside it. Asked for every few milliseconds the lock goes round.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(*_ASK_AGAIN_SECONDS))


def is_writable(path: Path) -> bool:
    """Whether the file and its folder can be written; both must, because the log lies beside the file."""
    asked = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    return all(os.access(place, os.W_OK, **asked) for place in (path, path.resolve().parent))


def _mode(unwritable: FileState | None) -> str:
    if unwritable is None:
        return "mode=rw"
    # With a log there is, or was, a writer, and SQLite reads through its log and locks. Without one it could not even
    # read: it would have to make the log's index first. Nothing is pending then, and the file is taken as it lies, for as
    # long as it lies so (`Reading`).
    return "mode=ro" if unwritable.has_log else "mode=ro&immutable=1"


def _checked(path: Path) -> Connection:
    _refuse_foreign(path)
    connection = connect(path, read_only=True)
    try:
        _check_version(connection, location=str(path))
    except BaseException:
        connection.close()
        raise
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

    The write lock is taken even when nothing is missing: a file that only looks as if it could be written says so now, not
    at the first append.
    """
    steps = migrations()
    known = max(steps)
    _set_patience(connection, seconds=0.0)
    begin_writing(connection)
    try:
        # A file that has no log yet is committed to once nobody reads it.
        _set_patience(connection, seconds=BUSY_SECONDS)
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


def _check_version(connection: sqlite3.Connection, *, location: str) -> None:
    """Raise unless the file is of the schema this threadkeep knows; it cannot be brought there."""
    known = max(migrations())
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > known:
        raise StoreTooNew(location, found=found, known=known)
    if found < known:
        raise StoreReadOnly(location)


def _use_wal(connection: sqlite3.Connection, *, location: str) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            # The switch needs the file to itself and does not heed the busy timeout; of several processes that make
            # the same store, all but one would fail here.
            if not _is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(*_ASK_AGAIN_SECONDS))
    if mode != "wal":
        raise StoreError(location, "its file system cannot hold a write-ahead log; choose a local disk")


def _set_patience(connection: sqlite3.Connection, *, seconds: float) -> None:
    connection.execute(f"PRAGMA busy_timeout = {seconds * 1000:.0f}")


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


class Reading:
    """Connects when something is first read, and anew where no lock guards the file and it is not what it was.

    A connection without locks keeps pages it has read, and finds whatever a writer leaves beside them: it misses what was
    written since, or takes the mixture for damage. So the file is looked at before each read and after it.
    """

    def __init__(self, path: Path, first: Connection | None = None) -> None:
        """Read the file at `path`, to begin with through a connection that is there already, if there is one."""
        self._path = path
        self._connection = first
        self._is_new = False
        self.times_overtaken = 0

    def connection(self) -> Connection:
        """Return a connection to the file as it is now."""
        if self._connection is not None and self._connection.is_overtaken:
            self._let_go()
        self._is_new = self._connection is None
        if self._connection is None:
            # Whatever took the place of a file that was checked is checked too.
            plain = is_writable(self._path) and not self.times_overtaken
            self._connection = connect(self._path, read_only=True) if plain else open_to_read(self._path)
        return self._connection

    def vouches_for(self, error: Exception | None) -> bool:
        """Whether what the last read came to, a result or `error`, stands; where it does not, it is to be read again."""
        if self._connection is None or self._connection.is_guarded:
            return True
        doubtful = isinstance(error, StoreCorrupt) and not self._is_new
        if not doubtful and not self._connection.is_overtaken:
            return True
        self._let_go()
        return False

    def close(self) -> None:
        """Let go of the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _let_go(self) -> None:
        self.close()
        self.times_overtaken += 1
