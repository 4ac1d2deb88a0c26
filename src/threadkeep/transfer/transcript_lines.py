"""Reads transcript files as lines, plain or compressed with zstd."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from threadkeep.errors import UnreadableTranscript

SQLITE = b"SQLite format 3\0"
ZSTD = b"\x28\xb5\x2f\xfd"
CHUNK = 1 << 20
LONGEST_LINE = 256 << 20
SAMPLE_BYTES = 4 << 20
SAMPLE_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line without its end. `stop` is the offset of the next line; `whole` is False for a last line without an end.

    `raw` is None for a line that is too long.
    """

    number: int
    raw: bytes | None
    stop: int
    whole: bool = True


def is_sqlite(path: Path) -> bool:
    return _read_beginning(path).startswith(SQLITE)


def is_packed(path: Path) -> bool:
    """Whether a file is compressed with zstd."""
    return _read_beginning(path).startswith(ZSTD)


def sample(path: Path) -> bytes:
    """Return the decompressed beginning of a file."""
    found = bytearray()
    with open_plain(path) as stream:
        try:
            for chunk in _read_chunks(stream, str(path), size=SAMPLE_CHUNK):
                found += chunk
                if len(found) >= SAMPLE_BYTES:
                    break
        except UnreadableTranscript:
            # Damage further on is reported when it is reached.
            if not found:
                raise
    return bytes(found)


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, decompressed if needed.

    Raises:
        UnreadableTranscript: The file cannot be opened.
    """
    try:
        packed = is_packed(path)
        stream = path.open("rb")
    except OSError as error:
        raise UnreadableTranscript(str(path), error.strerror or str(error)) from error
    if not packed:
        return stream
    reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True, closefd=True)
    return cast(BinaryIO, reader)


def read_lines(path: Path, *, start: int = 0, number: int = 0) -> Iterator[Line]:
    """Yield the lines from byte `start` on; `number` is the number of the line before.

    Raises:
        UnreadableTranscript: The file cannot be read to its end; all lines before the damage were yielded.
    """
    with open_plain(path) as stream:
        if start:
            stream.seek(start)
        yield from _split_lines(stream, str(path), position=start, number=number)


def _split_lines(stream: BinaryIO, name: str, *, position: int, number: int) -> Iterator[Line]:
    held = bytearray()
    lost = False
    for chunk in _read_chunks(stream, name):
        at = 0
        while (end := chunk.find(b"\n", at)) >= 0:
            held += chunk[at:end]
            position += end + 1 - at
            number += 1
            yield Line(number=number, raw=None if lost else _strip_return(held), stop=position)
            held.clear()
            lost, at = False, end + 1
        position += len(chunk) - at
        if not lost:
            held += chunk[at:]
        if len(held) > LONGEST_LINE:
            held.clear()
            lost = True
    if held or lost:
        yield Line(number=number + 1, raw=None if lost else _strip_return(held), stop=position, whole=False)


def _strip_return(held: bytearray) -> bytes:
    return bytes(held[:-1] if held.endswith(b"\r") else held)


def _read_chunks(stream: BinaryIO, name: str, *, size: int = CHUNK) -> Iterator[bytes]:
    while True:
        try:
            chunk = stream.read(size)
        except (OSError, EOFError, ValueError, zstandard.ZstdError) as error:
            raise UnreadableTranscript(name, f"it cannot be read further: {error}") from error
        if not chunk:
            return
        yield chunk


def _read_beginning(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(16)
    except OSError as error:
        raise UnreadableTranscript(str(path), error.strerror or str(error)) from error


def read_whole(path: Path, *, limit: int) -> bytes:
    """Return the decompressed content of a file.

    Raises:
        UnreadableTranscript: It is larger than `limit`, or cannot be read to its end.
    """
    body = bytearray()
    with open_plain(path) as stream:
        for chunk in _read_chunks(stream, str(path)):
            body += chunk
            if len(body) > limit:
                reason = f"it is one JSON document of more than {limit >> 20} MB; write it as one item a line"
                raise UnreadableTranscript(str(path), reason)
    return bytes(body)
