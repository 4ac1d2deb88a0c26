"""Whether a file packed with zstd is all there, told from its frames alone, without unpacking them.

An unpacker that is read as a stream ends at a cut as it ends at the end.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import zstandard

from threadkeep.errors import UnreadableTranscript

# Frames that hold nothing of the content: sixteen magic numbers, and the size of what to pass over.
SKIPPED = tuple(number.to_bytes(4, "little") for number in range(0x184D2A50, 0x184D2A60))
LONGEST_HEADER = 18
BLOCK_HEADER = 3
CHECKSUM = 4
REPEATED = 1


def is_cut(path: Path) -> bool:
    """Whether the file ends within a frame; false where its frames cannot be told, which unpacking it says better.

    Raises:
        UnreadableTranscript: It cannot be read.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            while stream.tell() < size:
                if not _passed_frame(stream):
                    return True
            return stream.tell() > size
    except zstandard.ZstdError:
        return False
    except OSError as error:
        raise UnreadableTranscript(str(path), error.strerror or str(error)) from error


def _passed_frame(stream: BinaryIO) -> bool:
    """Go to the end of a frame; false where the file ends before it is known where that is."""
    start = stream.tell()
    head = stream.read(LONGEST_HEADER)
    if head[:4] in SKIPPED:
        stream.seek(start + 8 + int.from_bytes(head[4:8], "little"))
        return len(head) >= 8
    if len(head) < 5 or len(head) < zstandard.frame_header_size(head):
        return False
    has_checksum = zstandard.get_frame_parameters(head).has_checksum
    stream.seek(start + zstandard.frame_header_size(head))
    last = False
    while not last:
        block = stream.read(BLOCK_HEADER)
        if len(block) < BLOCK_HEADER:
            return False
        header = int.from_bytes(block, "little")
        last = bool(header & 1)
        stream.seek(1 if (header >> 1) & 3 == REPEATED else header >> 3, os.SEEK_CUR)
    if has_checksum:
        stream.seek(CHECKSUM, os.SEEK_CUR)
    return True
