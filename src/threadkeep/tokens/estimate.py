"""Codex's token estimate: four bytes to a token, with images, sounds and sealed content counted as what they cost.

Measured against o200k it is off by +5 % on English, +7 % on code and -11 % on JSON; real usage corrects it (`Calibration`).

Only a field of the item can be a payload: `image_url` and `audio_url` with a data URL (Responses, Chat Completions),
`input_audio.data` (Chat Completions), a base64 `source` (Messages), `inlineData` (Gemini), and `encrypted_content`. The same text
inside a message is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

BYTES_PER_TOKEN = 4
# A provider charges an inline image by its size in pixels, not by the length of its base64; this is a common size.
IMAGE_BYTES = 7_373
SOUND_TOKENS_PER_SECOND = 10
# The rate of a low-rate speech codec; no sound counts as denser.
SOUND_BYTES_PER_SECOND = 4_000
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
    inline = part.get("inlineData", part.get("inline_data"))
    if isinstance(inline, dict) and isinstance(data := inline.get("data"), str):
        media = str(inline.get("mimeType", inline.get("mime_type")))
        if media.startswith(("image/", "audio/")):
            inline["data"] = ""
            yield Payload(text=data, counted_bytes=IMAGE_BYTES if media.startswith("image/") else _count_sound(data))
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
    yield Payload(text=payload, counted_bytes=IMAGE_BYTES if media == "image/" else _count_sound(payload))


def _count_sound(payload: str) -> int:
    seconds = len(payload) * 3 // 4 / SOUND_BYTES_PER_SECOND
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
