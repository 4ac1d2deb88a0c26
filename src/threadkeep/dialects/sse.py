"""Server-sent events, read from chunks cut anywhere."""

from __future__ import annotations

# A line that never ends must not eat the machine. The largest item a provider sends, an image in base64, is far below.
MAX_EVENT_BYTES = 64 * 1024 * 1024

BOM = b"\xef\xbb\xbf"


class EventReader:
    """Yields each event. Lines may end in LF, CR or CRLF; an event beyond `MAX_EVENT_BYTES` is skipped.

    What it yields depends on the bytes fed so far and never on how they were cut. It never raises.
    """

    def __init__(self) -> None:
        self._raw: list[bytes] = []
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._size = 0
        self._oversized = False
        self._first_line = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return the data of every event that ends in them and has any."""
        return [data for _, data in self.split(chunk) if data]

    def split(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        """Take the next bytes and return every event that ends in them: its exact bytes, and its data."""
        if not chunk:
            return []
        # An LF right behind a CR belongs to the line end that the CR already was.
        rest = chunk
        if self._after_cr and chunk.startswith(b"\n"):
            self._raw.append(b"\n")
            rest = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        ended: list[tuple[bytes, bytes]] = []
        for line in rest.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            self._hold(line, content)
            if len(content) < len(line):
                is_blank = self._line_size == 0
                self._end_line()
                if is_blank:
                    ended.append(self._end_event())
        return ended

    def end(self) -> tuple[bytes, bytes]:
        """Return what is left once no more bytes come, as `split` returns an event; a stream may lack its last line end."""
        self._end_line()
        return self._end_event()

    def _hold(self, line: bytes, content: bytes) -> None:
        self._line_size += len(content)
        self._size += len(line)
        if self._size > MAX_EVENT_BYTES:
            self._oversized = True
        if self._oversized:
            self._raw.clear()
            self._line.clear()
            self._data.clear()
        else:
            self._raw.append(line)
            self._line.append(content)

    def _end_line(self) -> None:
        line = b"".join(self._line)
        self._line.clear()
        self._line_size = 0
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))

    def _end_event(self) -> tuple[bytes, bytes]:
        event = b"".join(self._raw), b"\n".join(self._data)
        self._raw.clear()
        self._data.clear()
        self._size = 0
        self._oversized = False
        return event
