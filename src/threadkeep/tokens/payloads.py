"""What stands in an item's JSON and is not read as text: pictures, sounds, sealed content.

Codex counts such a payload as the bytes it stands for. The forms are those of all three dialects: `image_url` and
`audio_url` with a data URL (Responses, Chat Completions), `input_audio.data` (Chat Completions) and a base64 `source`
(Messages). Only a field of the item can be a payload; the same text inside a message is text and costs what text costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

from threadkeep.tokens.media import decoded_head, dimensions, sound_seconds

BYTES_PER_TOKEN = 4
# A provider bills an inline image by its size on screen, not by the length of its base64.
IMAGE_BYTES = 7_373
PATCH_PIXELS = 32
MAX_PATCHES = 10_000
SOUND_TOKENS_PER_SECOND = 10
# Base64 shrinks by a quarter when decoded, and the envelope around what is sealed is not read.
ENVELOPE_BYTES = 650
_SEALED_ITEMS = frozenset({"reasoning", "compaction", "context_compaction"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """A text that is not read as text, and the bytes it is counted as."""

    text: str
    counted_bytes: int


def sealed_bytes(item: object) -> int | None:
    """Return the bytes a wholly sealed item is counted as, whatever else is in it; None for any other item."""
    if not isinstance(item, dict):
        return None
    kind, content = item.get("type"), item.get("encrypted_content")
    if not (isinstance(kind, str) and kind in _SEALED_ITEMS and isinstance(content, str)):
        return None
    return max(0, _size(content) * 3 // 4 - ENVELOPE_BYTES)


def detach_payloads(item: object) -> list[Payload]:
    """Take every payload out of a decoded item, leaving what stood around it, and return them.

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
        yield Payload(text=sound, counted_bytes=_sound_bytes(sound))
    source = part.get("source") if part.get("type") == "image" else None
    if isinstance(source, dict) and source.get("type") == "base64" and isinstance(picture := source.get("data"), str):
        source["data"] = ""
        yield Payload(text=picture, counted_bytes=IMAGE_BYTES)
    sealed = part.get("encrypted_content") if part.get("type") == "encrypted_content" else None
    if isinstance(sealed, str):
        part["encrypted_content"] = ""
        yield Payload(text=sealed, counted_bytes=-(-_size(sealed) * 9 // 16))


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
        text=payload, counted_bytes=_image_bytes(payload, original=original) if media == "image/" else _sound_bytes(payload)
    )


def _image_bytes(payload: str, *, original: bool) -> int:
    size = dimensions(decoded_head(payload)) if original else None
    if size is None:
        return IMAGE_BYTES
    patches = -(-size.width // PATCH_PIXELS) * -(-size.height // PATCH_PIXELS)
    return min(patches, MAX_PATCHES) * BYTES_PER_TOKEN


def _sound_bytes(payload: str) -> int:
    seconds = sound_seconds(decoded_head(payload), size=len(payload) * 3 // 4)
    # A header that claims a byte a second would turn a short sound into hours.
    return min(ceil(seconds * SOUND_TOKENS_PER_SECOND) * BYTES_PER_TOKEN, len(payload))


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
