"""How large a picture is and how long a sound lasts, read from the first bytes of a file and never by decoding it."""

from __future__ import annotations

from binascii import a2b_base64
from typing import NamedTuple

# Cameras and editors put up to a few 64 KiB segments (Exif, colour profiles) before the frame header of a JPEG.
HEAD_BYTES = 256 * 1024
# What a low-rate speech codec needs for a second; a file whose rate is unknown is taken to be no denser than that.
UNKNOWN_BYTES_PER_SECOND = 4_000
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = frozenset({0x01, 0xFF, *range(0xD0, 0xD9)})


class Dimensions(NamedTuple):
    width: int
    height: int


def decoded_head(payload: str) -> bytes:
    """Return the first bytes that a base64 text stands for; nothing where it is not base64."""
    text = payload[: HEAD_BYTES * 4 // 3 // 4 * 4]
    try:
        return a2b_base64(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def dimensions(head: bytes) -> Dimensions | None:
    """Return the size of a PNG, GIF, WebP or JPEG picture in pixels; None for anything else, and for an empty picture."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        found = Dimensions(_big(head[16:20]), _big(head[20:24])) if head[12:16] == b"IHDR" and len(head) >= 24 else None
    elif head.startswith((b"GIF87a", b"GIF89a")):
        found = Dimensions(_little(head[6:8]), _little(head[8:10])) if len(head) >= 10 else None
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        found = _webp(head)
    elif head.startswith(b"\xff\xd8"):
        found = _jpeg(head)
    else:
        found = None
    return found if found and found.width > 0 and found.height > 0 else None


def sound_seconds(head: bytes, *, size: int) -> float:
    """Return how long a sound file of `size` bytes lasts: by its byte rate for WAV, else at most what its size allows."""
    return size / (_wav_bytes_per_second(head) or UNKNOWN_BYTES_PER_SECOND)


def _webp(head: bytes) -> Dimensions | None:
    if len(head) < 30:
        return None
    match head[12:16]:
        case b"VP8X":
            return Dimensions(_little(head[24:27]) + 1, _little(head[27:30]) + 1)
        case b"VP8L":
            bits = _little(head[21:25])
            return Dimensions((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            return Dimensions(_little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF)
        case _:
            return None


def _jpeg(head: bytes) -> Dimensions | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker in _JPEG_WITHOUT_LENGTH:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _JPEG_FRAMES:
            return Dimensions(_big(head[at + 7 : at + 9]), _big(head[at + 5 : at + 7]))
        at += 2 + max(2, _big(head[at + 2 : at + 4]))
    return None


def _wav_bytes_per_second(head: bytes) -> int | None:
    if not (head.startswith(b"RIFF") and head[8:12] == b"WAVE"):
        return None
    at = 12
    while at + 20 <= len(head):
        if head[at : at + 4] == b"fmt ":
            return _little(head[at + 16 : at + 20]) or None
        size = _little(head[at + 4 : at + 8])
        at += 8 + size + size % 2
    return None


def _big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _little(data: bytes) -> int:
    return int.from_bytes(data, "little")
