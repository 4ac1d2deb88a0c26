"""Codex's token estimate: four bytes to a token, with images, sounds and sealed content counted as what they cost.

Measured against o200k it is off by +5 % on English, +7 % on code and -11 % on JSON; real usage corrects it (`Calibration`).

Only a field of the item can be a payload: `image_url` and `audio_url` with a data URL (Responses, Chat Completions),
`input_audio.data` (Chat Completions), a base64 `source` (Messages), and `encrypted_content`. The same text inside a message is
text.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import NamedTuple

# Cameras and editors put up to a few 64 KiB segments (Exif, colour profiles) before the frame header of a JPEG.
HEAD_BYTES = 256 * 1024
# The rate of a low-rate speech codec; a sound of unknown rate counts as no denser.
UNKNOWN_BYTES_PER_SECOND = 4_000
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_WITHOUT_LENGTH = frozenset({0x01, 0xFF, *range(0xD0, 0xD9)})


class Dimensions(NamedTuple):
    width: int
    height: int


def decode_head(payload: str) -> bytes:
    """Return the first bytes of a base64 text, decoded; none if it is not base64."""
    text = payload[: HEAD_BYTES * 4 // 3 // 4 * 4]
    try:
        return a2b_base64(text + "=" * (-len(text) % 4))
    except ValueError:
        return b""


def read_dimensions(head: bytes) -> Dimensions | None:
    """Return the size of a PNG, GIF, WebP or JPEG image in pixels; None for anything else, and for an empty image."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        found = Dimensions(_read_big(head[16:20]), _read_big(head[20:24])) if head[12:16] == b"IHDR" and len(head) >= 24 else None
    elif head.startswith((b"GIF87a", b"GIF89a")):
        found = Dimensions(_read_little(head[6:8]), _read_little(head[8:10])) if len(head) >= 10 else None
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        found = _read_webp(head)
    elif head.startswith(b"\xff\xd8"):
        found = _read_jpeg(head)
    else:
        found = None
    return found if found and found.width > 0 and found.height > 0 else None


def measure_seconds(head: bytes, *, size: int) -> float:
    """Return the length of a sound of `size` bytes: by its byte rate for WAV, else at most what its size allows."""
    return size / (_read_wav_rate(head) or UNKNOWN_BYTES_PER_SECOND)


def _read_webp(head: bytes) -> Dimensions | None:
    if len(head) < 30:
        return None
    match head[12:16]:
        case b"VP8X":
            return Dimensions(_read_little(head[24:27]) + 1, _read_little(head[27:30]) + 1)
        case b"VP8L":
            bits = _read_little(head[21:25])
            return Dimensions((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 ":
            return Dimensions(_read_little(head[26:28]) & 0x3FFF, _read_little(head[28:30]) & 0x3FFF)
        case _:
            return None


def _read_jpeg(head: bytes) -> Dimensions | None:
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker in _JPEG_WITHOUT_LENGTH:
            at += 1 if marker == 0xFF else 2
            continue
        if marker in _JPEG_FRAMES:
            return Dimensions(_read_big(head[at + 7 : at + 9]), _read_big(head[at + 5 : at + 7]))
        at += 2 + max(2, _read_big(head[at + 2 : at + 4]))
    return None


def _read_wav_rate(head: bytes) -> int | None:
    if not (head.startswith(b"RIFF") and head[8:12] == b"WAVE"):
        return None
    at = 12
    while at + 20 <= len(head):
        if head[at : at + 4] == b"fmt ":
            return _read_little(head[at + 16 : at + 20]) or None
        size = _read_little(head[at + 4 : at + 8])
        at += 8 + size + size % 2
    return None


def _read_big(data: bytes) -> int:
    return int.from_bytes(data, "big")


def _read_little(data: bytes) -> int:
    return int.from_bytes(data, "little")


BYTES_PER_TOKEN = 4
# A provider charges an inline image by its size in pixels, not by the length of its base64.
IMAGE_BYTES = 7_373
PATCH_PIXELS = 32
MAX_PATCHES = 10_000
SOUND_TOKENS_PER_SECOND = 10
# Base64 shrinks by a quarter when decoded, and the model does not read the envelope of sealed content.
ENVELOPE_BYTES = 650
_SEALED_ITEMS = frozenset({"reasoning", "compaction", "context_compaction"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """Text the model does not read as text, and the bytes it counts as."""

    text: str
    counted_bytes: int


def count_sealed(item: object) -> int | None:
    """Return the bytes a wholly sealed item counts as, whatever else it contains; None for any other item."""
    if not isinstance(item, dict):
        return None
    kind, content = item.get("type"), item.get("encrypted_content")
    if not (isinstance(kind, str) and kind in _SEALED_ITEMS and isinstance(content, str)):
        return None
    return max(0, _count_bytes(content) * 3 // 4 - ENVELOPE_BYTES)


def detach_payloads(item: object) -> list[Payload]:
    """Remove every payload from a decoded item and return them.

    Walks the item once and without recursion: its depth is the client's choice.
    """
    found: list[Payload] = []
    waiting = [item]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            found.extend(_detach(node))
            waiting.extend(node.values())
        elif isinstance(node, list):
            waiting.extend(node)
    return found


def _detach(part: dict[str, object]) -> Iterator[Payload]:
    if "image_url" in part:
        yield from _detach_url(part, "image_url", media="image/")
    if "audio_url" in part:
        yield from _detach_url(part, "audio_url", media="audio/")
    audio = part.get("input_audio")
    if isinstance(audio, dict) and isinstance(sound := audio.get("data"), str):
        audio["data"] = ""
        yield Payload(text=sound, counted_bytes=_count_sound(sound))
    source = part.get("source") if part.get("type") == "image" else None
    if isinstance(source, dict) and source.get("type") == "base64" and isinstance(picture := source.get("data"), str):
        source["data"] = ""
        yield Payload(text=picture, counted_bytes=IMAGE_BYTES)
    sealed = part.get("encrypted_content") if part.get("type") == "encrypted_content" else None
    if isinstance(sealed, str):
        part["encrypted_content"] = ""
        yield Payload(text=sealed, counted_bytes=-(-_count_bytes(sealed) * 9 // 16))


def _detach_url(part: dict[str, object], key: str, *, media: str) -> Iterator[Payload]:
    holder, field = part, key
    nested = part[key]
    if isinstance(nested, dict):
        holder, field = nested, "url"
    url = holder.get(field)
    if not isinstance(url, str) or url[:5].lower() != "data:":
        return
    head, comma, payload = url.partition(",")
    kind, *parameters = head[5:].split(";")
    if not comma or not kind.lower().startswith(media) or "base64" not in map(str.lower, parameters):
        return
    holder[field] = head + comma
    original = holder.get("detail") == "original"
    yield Payload(
        text=payload, counted_bytes=_count_image(payload, original=original) if media == "image/" else _count_sound(payload)
    )


def _count_image(payload: str, *, original: bool) -> int:
    size = read_dimensions(decode_head(payload)) if original else None
    if size is None:
        return IMAGE_BYTES
    patches = -(-size.width // PATCH_PIXELS) * -(-size.height // PATCH_PIXELS)
    return min(patches, MAX_PATCHES) * BYTES_PER_TOKEN


def _count_sound(payload: str) -> int:
    seconds = measure_seconds(decode_head(payload), size=len(payload) * 3 // 4)
    # A header that claims a byte a second would turn a short sound into hours.
    return min(ceil(seconds * SOUND_TOKENS_PER_SECOND) * BYTES_PER_TOKEN, len(payload))


def _count_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


# Every kind of payload contains one of these, so an item without them need not be decoded.
_SIGNS = (b"image", b"audio", b"encrypted_content")


def estimate_bytes(size: int) -> int:
    """Return the tokens of `size` bytes, rounded up."""
    return -(-size // BYTES_PER_TOKEN)


def estimate_text(text: str) -> int:
    """Return the tokens of a text."""
    return estimate_bytes(len(text.encode("utf-8", "replace")))


def estimate_item(raw: bytes) -> int:
    """Return the tokens of an item's JSON, as Codex counts them. Linear in its size; invalid JSON counts as text."""
    return estimate_bytes(count_visible_bytes(raw))


def count_visible_bytes(raw: bytes) -> int:
    """Return the bytes of an item's JSON that a model is charged for."""
    if not any(sign in raw for sign in _SIGNS):
        return len(raw)
    try:
        item = json.loads(raw)
    except (ValueError, RecursionError):
        return len(raw)
    sealed = count_sealed(item)
    if sealed is not None:
        return sealed
    # Some encoders write each slash of a base64 text as two bytes.
    escapes = b"\\/" in raw
    size = len(raw)
    for payload in detach_payloads(item):
        written = len(payload.text) + (payload.text.count("/") if escapes else 0)
        size += payload.counted_bytes - written
    return max(0, size)
