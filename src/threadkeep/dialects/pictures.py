"""Finds the pictures in an item of any dialect, and names them by type, size and digest, or by their address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from threadkeep.items import decode_json, digest_body

DIGEST_SHOWN = 12
_data_url = re.compile(r"data:([\w.+-]+/[\w.+-]+)?[^,]*,", re.IGNORECASE)
# A longer address, or one with characters of the line's own syntax, is not shown.
_address = re.compile(r"https?://[^\s\[\]<>\"]{1,200}", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """One picture: its media type, its size, and the digest that two copies of it share; an address where it is elsewhere."""

    media: str
    size_bytes: int | None = None
    digest: str | None = None
    address: str | None = None

    def __str__(self) -> str:
        if self.address is not None:
            return f"{self.media} at {self.address}"
        size = None if self.size_bytes is None else f"{max(1, self.size_bytes // 1000):,} kB"
        return ", ".join(part for part in (self.media, size, self.digest) if part)


def find_pictures(raw: bytes) -> list[Picture]:
    """Return the pictures in an item, in the order they stand there; none where the item cannot be read."""
    try:
        item = decode_json(raw)
    except (ValueError, RecursionError):
        return []
    return list(_walk_pictures(item))


def _walk_pictures(item: object) -> Iterator[Picture]:
    """Walk the item without recursion: its depth is the client's choice."""
    waiting = [item]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(reversed(node))
        elif isinstance(node, dict):
            found = _read_part(node)
            if found is not None:
                yield found
            else:
                waiting.extend(reversed(list(node.values())))


def _read_part(part: dict[str, object]) -> Picture | None:
    url = part.get("image_url")
    if isinstance(url, dict):
        url = url.get("url")
    if isinstance(url, str):
        return _read_address(url)
    for name in ("inlineData", "inline_data", "fileData", "file_data"):
        if isinstance(file := part.get(name), dict):
            return _read_file(file)
    source = part.get("source") if part.get("type") == "image" else None
    if not isinstance(source, dict):
        return None
    media, payload, address = source.get("media_type"), source.get("data"), source.get("url")
    if isinstance(payload, str):
        return _read_inline(media if isinstance(media, str) else "image", payload)
    return _read_address(address) if isinstance(address, str) else None


def _read_file(file: dict[str, object]) -> Picture | None:
    """Return the picture in a file as Gemini writes it, with either spelling of its fields; None for a file of another kind."""
    media, payload = str(file.get("mimeType", file.get("mime_type"))), file.get("data")
    if not media.startswith("image/"):
        return None
    return (
        _read_inline(media, payload)
        if isinstance(payload, str)
        else _read_address(str(file.get("fileUri", file.get("file_uri"))))
    )


def _read_address(url: str) -> Picture:
    head = _data_url.match(url)
    if head:
        return _read_inline(head[1] or "image", url[head.end() :])
    return Picture(media="image", address=url) if _address.fullmatch(url) else Picture(media="image elsewhere")


def _read_inline(media: str, payload: str) -> Picture:
    digest = digest_body(payload.encode("utf-8", "replace")).hex()[:DIGEST_SHOWN]
    return Picture(media=media[:40], size_bytes=len(payload) * 3 // 4, digest=f"b1:{digest}")
