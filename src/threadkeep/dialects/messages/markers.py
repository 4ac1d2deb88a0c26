"""Cache markers (`cache_control`): counted, set and removed. A request may hold four."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.messages.blocks import THINKING
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_value, split_list, split_object
from threadkeep.items import Item

FIELD: Final = "cache_control"
MARKER: Final = b'{"type":"ephemeral"}'


def markers(item: Item) -> int:
    """Return how many markers a message holds: its own, those of its blocks, those of blocks within a tool's result."""
    fields = split_object(item.raw) or {}
    blocks = split_list(fields.get("content", b"null")) or []
    return _has_marker(fields) + sum(_count(block) for block in blocks)


def with_marker(item: Item) -> Item:
    """Return the message with a marker on the last block that may carry one, all else with its exact bytes.

    Thinking and empty text may not. A string becomes a block of text. A message that has its marker there already, or nothing to
    put one on, is returned as it is.
    """
    fields = split_object(item.raw)
    content = fields.get("content", b"null") if fields else b"null"
    blocks = [make_text_part(content)] if content.startswith(b'"') else split_list(content) or []
    for index in range(len(blocks) - 1, -1, -1):
        block = split_object(blocks[index])
        if fields is None or block is None or not _may_carry(block):
            continue
        if _has_marker(block):
            return item
        marked = join_object({**block, FIELD: MARKER})
        return Item(join_object({**fields, "content": join_list([*blocks[:index], marked, *blocks[index + 1 :]])}))
    return item


def without_markers(item: Item) -> Item:
    """Return the message without any marker, all else with its exact bytes."""
    fields = split_object(item.raw)
    if fields is None or not markers(item):
        return item
    kept = _unmarked(fields)
    blocks = split_list(kept.get("content", b"null"))
    if blocks is not None:
        kept["content"] = join_list(_without(block, nested=True) for block in blocks)
    return Item(join_object(kept))


def _count(block: bytes) -> int:
    fields = split_object(block) or {}
    inner = split_list(fields.get("content", b"null")) or []
    return _has_marker(fields) + sum(_has_marker(split_object(each) or {}) for each in inner)


def _without(block: bytes, *, nested: bool) -> bytes:
    fields = split_object(block)
    if fields is None or not _count(block):
        return block
    kept = _unmarked(fields)
    inner = split_list(kept.get("content", b"null")) if nested else None
    if inner is not None:
        kept["content"] = join_list(_without(each, nested=False) for each in inner)
    return join_object(kept)


def _unmarked(fields: dict[str, bytes]) -> dict[str, bytes]:
    return {name: raw for name, raw in fields.items() if name != FIELD}


def _has_marker(fields: dict[str, bytes]) -> bool:
    return fields.get(FIELD, b"null") != b"null"


def _may_carry(block: dict[str, bytes]) -> bool:
    kind = read_value(block.get("type", b"null"))
    return isinstance(kind, str) and kind not in THINKING and (kind != "text" or block.get("text", b'""') != b'""')
