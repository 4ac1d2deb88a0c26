"""A thread's connection to the file, and whether what was read through it can be relied on."""

from __future__ import annotations

from pathlib import Path

from threadkeep.errors import StoreCorrupt
from threadkeep.store.sqlite.file import connect, is_writable, open_to_read
from threadkeep.store.sqlite.state import Connection


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
