"""Token estimates, and how full a window is, measured against its limits.

The estimate is Codex's: four bytes to a token, with images, sounds and sealed content counted as what they cost. Measured
against o200k it is off by +5 % on English, +7 % on code and -11 % on JSON; real usage corrects it (`Calibration`). Only a field
of the item can be a payload: `image_url` and `audio_url` with a data URL (Responses, Chat Completions), `input_audio.data` (Chat
Completions), a base64 `source` (Messages), `inlineData` (Gemini), and `encrypted_content`. The same text inside a message is
text.

A window has two budgets: the model's window in tokens, and the bytes a provider accepts in one request. Screenshots fill the
second long before the first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import Literal

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


EFFECTIVE_PERCENT = 95
AUTO_PERCENT = 90
SOFT_PERCENT = 75
# Tokenizers differ from four bytes a token by less than this factor, except on text made for it.
TRUST_FACTOR = 4

Scope = Literal["total", "body_after_prefix"]
Budget = Literal["tokens", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a window.

    In tokens: from `soft` on a compaction is worth preparing, from `hard` on it must happen before the next request, from `full`
    on the provider refuses. `body_bytes` is the largest request the provider accepts; the same shares of it are soft and hard.
    """

    soft: int
    hard: int
    full: int
    body_bytes: int | None = None

    @classmethod
    def of_window(
        cls,
        window: int,
        *,
        auto_limit: int | None = None,
        soft_limit: int | None = None,
        scope: Scope = "total",
        body_bytes: int | None = None,
    ) -> Limits:
        """Return the limits of a model whose context window has `window` tokens.

        `auto_limit` sets the hard limit, at most 90 % of the window; if only the body after the prefix is charged, it counts as
        given and the full window remains the cap. `soft_limit` sets the soft limit, at most the hard one; its default is five
        sixths of the hard limit.
        """
        ceiling = window * AUTO_PERCENT // 100
        hard = ceiling if auto_limit is None else auto_limit if scope == "body_after_prefix" else min(auto_limit, ceiling)
        share = min(window * SOFT_PERCENT // 100, hard * SOFT_PERCENT // AUTO_PERCENT)
        soft = share if soft_limit is None else min(soft_limit, hard)
        return cls(soft=soft, hard=hard, full=window * EFFECTIVE_PERCENT // 100, body_bytes=body_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A provider's count beside our estimate of the same request."""

    estimated: int
    counted: int

    def apply(self, tokens: int) -> int:
        """Return an estimate corrected by the last real usage, within a factor of four.

        The bound keeps one odd report (a cached-only count, another model's tokens) from suppressing or flooding compactions.
        """
        if self.estimated <= 0 or self.counted <= 0:
            return tokens
        return round(tokens * min(float(TRUST_FACTOR), max(1 / TRUST_FACTOR, self.counted / self.estimated)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full the window is.

    Attributes:
        tokens: The size of the next request.
        uncharged: How many of them do not count towards soft and hard (`count_uncharged`).
        body_bytes: The size of the next request on the wire.
    """

    tokens: int
    limits: Limits
    uncharged: int = 0
    body_bytes: int = 0

    @property
    def worth_preparing(self) -> bool:
        return self.must_compact or self._charged >= self.limits.soft or self._fills_body(SOFT_PERCENT)

    @property
    def must_compact(self) -> bool:
        return self._charged >= self.limits.hard or self.tokens >= self.limits.full or self._fills_body(AUTO_PERCENT)

    @property
    def binds(self) -> Budget:
        """The budget that is fuller relative to its hard limit; tokens on a tie."""
        if self.limits.body_bytes is None:
            return "tokens"
        # Whole numbers, so that a tie is a tie: charged / hard against bytes / (90 % of the body).
        of_window = max(self._charged * self.limits.full, self.tokens * self.limits.hard)
        return (
            "bytes"
            if self.body_bytes * 100 * self.limits.hard * self.limits.full > of_window * self.limits.body_bytes * AUTO_PERCENT
            else "tokens"
        )

    @property
    def _charged(self) -> int:
        return self.tokens - self.uncharged

    def _fills_body(self, percent: int) -> bool:
        limit = self.limits.body_bytes
        return limit is not None and self.body_bytes * 100 >= limit * percent


def count_uncharged(*, scope: Scope, active: int, baseline: int | None) -> int:
    """Return how many of a window's `active` tokens do not count towards its automatic limit.

    With scope `total` none. With `body_after_prefix` the window's prefix: `baseline`, the provider's first count in this
    window. Until there is one the whole window is prefix and nothing is charged; the full window remains the cap.
    """
    if scope == "total":
        return 0
    return active if baseline is None else min(max(baseline, 0), active)


def measure_pressure(
    *,
    limits: Limits,
    estimated: int,
    calibration: Calibration | None = None,
    scope: Scope = "total",
    baseline: int | None = None,
    body_bytes: int = 0,
) -> Pressure:
    """Return the pressure of a window whose items are estimated at `estimated` tokens."""
    tokens = estimated if calibration is None else calibration.apply(estimated)
    uncharged = count_uncharged(scope=scope, active=tokens, baseline=baseline)
    return Pressure(tokens=tokens, limits=limits, uncharged=uncharged, body_bytes=body_bytes)
