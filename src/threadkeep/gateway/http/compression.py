"""Decompresses the body of a request, up to a limit: a few bytes can expand to gigabytes."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from enum import Enum, auto
from importlib.util import find_spec
from io import BytesIO

import zstandard

GZIP_WINDOW = 16 + zlib.MAX_WBITS
STEP = 256 * 1024
# A decompressor copies what it was given beyond the end of a member. So each member is fed little at first and then twice as much
# each time: what is copied is never more than the member's own size.
FIRST_PIECE = 64


class DecodeFailure(Enum):
    """Why a body could not be decompressed."""

    UNKNOWN = auto()
    DAMAGED = auto()
    TOO_LARGE = auto()


# Takes a body and a limit; a result of that length was too large.
_Undo = Callable[[bytes, int], bytes]


def parse_codings(header: str) -> list[str]:
    """Return the codings a Content-Encoding header names, in the order they were applied; none for `identity`."""
    named = [coding.strip().lower() for coding in header.split(",")]
    return [coding for coding in named if coding not in ("", "identity")]


def decode_body(body: bytes, codings: Sequence[str], *, limit: int) -> bytes | DecodeFailure:
    """Return `body` with `codings` undone, or why not. What it returns is never longer than `limit`."""
    for coding in reversed(codings):
        undo = _UNDO.get(coding)
        if undo is None:
            return DecodeFailure.UNKNOWN
        try:
            body = undo(body, limit + 1)
        except (zlib.error, zstandard.ZstdError, EOFError, MemoryError):
            return DecodeFailure.DAMAGED
        if len(body) > limit:
            return DecodeFailure.TOO_LARGE
    return body


def is_known(codings: Sequence[str]) -> bool:
    """Whether every one of `codings` can be undone here."""
    return all(coding in _UNDO for coding in codings)


def _gunzip(body: bytes, most: int) -> bytes:
    return _inflate(body, most, window=GZIP_WINDOW)


def _undeflate(body: bytes, most: int) -> bytes:
    # The name means a zlib stream; some senders leave its two bytes of header out.
    try:
        return _inflate(body, most, window=zlib.MAX_WBITS)
    except zlib.error:
        return _inflate(body, most, window=-zlib.MAX_WBITS)


def _inflate(body: bytes, most: int, *, window: int) -> bytes:
    whole = bytearray()
    rest = memoryview(body)
    while True:
        stream = zlib.decompressobj(wbits=window)
        piece = FIRST_PIECE
        while rest and not stream.eof:
            whole += stream.decompress(rest[:piece], most - len(whole))
            if len(whole) >= most:
                return bytes(whole)
            rest = rest[min(piece, len(rest)) - len(stream.unused_data) :]
            piece = min(2 * piece, STEP)
        if not stream.eof:
            raise EOFError("the stream breaks off")
        # A gzip file may be several, one after the other.
        if not rest:
            return bytes(whole)


def _unzstd(body: bytes, most: int) -> bytes:
    """Decompress one or several frames.

    The first pass stops at `most` bytes, but cannot tell whether the last frame is complete; the second pass can.
    """
    # The memory a frame may ask for is bounded too; 2 ** 27 is what every decoder must take.
    decoder = zstandard.ZstdDecompressor(max_window_size=1 << 27)
    beginning = bytearray()
    with decoder.stream_reader(BytesIO(body), read_across_frames=True) as reader:
        while len(beginning) < most and (chunk := reader.read(min(STEP, most - len(beginning)))):
            beginning += chunk
    if len(beginning) >= most:
        return bytes(beginning)
    whole = bytearray()
    rest = memoryview(body)
    while True:
        frame = decoder.decompressobj()
        piece = FIRST_PIECE
        while rest and not frame.eof:
            whole += frame.decompress(rest[:piece])
            rest = rest[min(piece, len(rest)) - len(frame.unused_data) :]
            piece = min(2 * piece, STEP)
        if not frame.eof:
            raise EOFError("the frame breaks off")
        if not rest:
            return bytes(whole)


def _unbrotli(body: bytes, most: int) -> bytes:
    import brotli

    stream = brotli.Decompressor()
    whole = bytearray()
    try:
        whole += stream.process(body, output_buffer_limit=min(STEP, most))
        while len(whole) < most and not stream.is_finished():
            if not (more := stream.process(b"", output_buffer_limit=min(STEP, most - len(whole)))):
                raise EOFError("the stream breaks off")
            whole += more
    except brotli.error as error:
        raise EOFError("this is no such stream") from error
    return bytes(whole)


_UNDO: dict[str, _Undo] = {"gzip": _gunzip, "x-gzip": _gunzip, "deflate": _undeflate, "zstd": _unzstd}
# An extra: no client that we know sends it, and where one does it should be recorded like any other.
if find_spec("brotli") is not None:
    _UNDO["br"] = _unbrotli
