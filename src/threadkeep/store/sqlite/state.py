"""What tells two moments of a file apart, and connections that can be overtaken by the second."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from pathlib import Path


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
