"""Cache markers (`cache_control`): counted, set and removed. A request may hold four."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.messages.blocks import THINKING
from threadkeep.dialects.spans import elements_of, fields_of, list_of, object_of, text_part, value_of
from threadkeep.items import Item

FIELD: Final = "cache_control"
MARKER: Final = b'{"type":"ephemeral"}'


def markers(item: Item) -> int:
    """Return how many markers a message holds: its own, those of its blocks, those of blocks within a tool's result."""
    fields = fields_of(item.raw) or {}
    blocks = elements_of(fields.get("content", b"null")) or []
    return _has_marker(fields) + sum(_count(block) for block in blocks)


def with_marker(item: Item) -> Item:
    """Return the message with a marker on the last block that may carry one, all else with its exact bytes.

    Thinking and empty text may not. A string becomes a block of text. A message that has its marker there already, or nothing to
    put one on, is returned as it is.
    """
    fields = fields_of(item.raw)
    content = fields.get("content", b"null") if fields else b"null"
    blocks = [text_part(content)] if content.startswith(b'"') else elements_of(content) or []
    for index in range(len(blocks) - 1, -1, -1):
        block = fields_of(blocks[index])
        if fields is None or block is None or not _may_carry(block):
            continue
        if _has_marker(block):
            return item
        marked = object_of({**block, FIELD: MARKER})
        return Item(object_of({**fields, "content": list_of([*blocks[:index], marked, *blocks[index + 1 :]])}))
    return item


def without_markers(item: Item) -> Item:
    """Return the message without any marker, all else with its exact bytes."""
    fields = fields_of(item.raw)
    if fields is None or not markers(item):
        return item
    kept = _unmarked(fields)
    blocks = elements_of(kept.get("content", b"null"))
    if blocks is not None:
        kept["content"] = list_of(_without(block, nested=True) for block in blocks)
    return Item(object_of(kept))


def _count(block: bytes) -> int:
    fields = fields_of(block) or {}
    inner = elements_of(fields.get("content", b"null")) or []
    return _has_marker(fields) + sum(_has_marker(fields_of(each) or {}) for each in inner)


def _without(block: bytes, *, nested: bool) -> bytes:
    fields = fields_of(block)
    if fields is None or not _count(block):
        return block
    kept = _unmarked(fields)
    inner = elements_of(kept.get("content", b"null")) if nested else None
    if inner is not None:
        kept["content"] = list_of(_without(each, nested=False) for each in inner)
    return object_of(kept)


def _unmarked(fields: dict[str, bytes]) -> dict[str, bytes]:
    return {name: raw for name, raw in fields.items() if name != FIELD}


def _has_marker(fields: dict[str, bytes]) -> bool:
    return fields.get(FIELD, b"null") != b"null"


def _may_carry(block: dict[str, bytes]) -> bool:
    kind = value_of(block.get("type", b"null"))
    return isinstance(kind, str) and kind not in THINKING and (kind != "text" or block.get("text", b'""') != b'""')
