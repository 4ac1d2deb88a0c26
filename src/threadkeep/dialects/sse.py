"""Server-sent events, read from chunks cut anywhere."""

from __future__ import annotations

# A line that never ends must not eat the machine. The largest item a provider sends, an image in base64, is far below.
MAX_EVENT_BYTES = 64 * 1024 * 1024

BOM = b"\xef\xbb\xbf"


class EventReader:
    """Yields the data of each event. Lines may end in LF, CR or CRLF; an event beyond `MAX_EVENT_BYTES` is skipped.

    What it yields depends on the bytes fed so far and never on how they were cut. It never raises.
    """

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._oversized = False
        self._first_line = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return the data of every event that ends in them."""
        if not chunk:
            return []
        # An LF right behind a CR belongs to the line end that the CR already was.
        rest = chunk[1:] if self._after_cr and chunk.startswith(b"\n") else chunk
        self._after_cr = chunk.endswith(b"\r")
        ended: list[bytes] = []
        for line in rest.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            self._hold(content)
            if len(content) < len(line) and (data := self._end_line()):
                ended.append(data)
        return ended

    def _hold(self, content: bytes) -> None:
        self._line_size += len(content)
        if self._line_size + self._data_size > MAX_EVENT_BYTES:
            self._oversized = True
        if self._oversized:
            self._line.clear()
            self._data.clear()
        else:
            self._line.append(content)

    def _end_line(self) -> bytes:
        """Take the line that just ended; return the event's data where it was the blank one that ends an event."""
        line = b"".join(self._line)
        blank = self._line_size == 0
        self._line.clear()
        self._line_size = 0
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(BOM)
        if blank:
            return self._end_event()
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._data_size += len(line)
        return b""

    def _end_event(self) -> bytes:
        data = b"\n".join(self._data)
        self._data.clear()
        self._data_size = 0
        self._oversized = False
        return data
