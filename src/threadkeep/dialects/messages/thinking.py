"""Thinking blocks. A provider binds them to the exact history they were produced in; a rewritten history must go without."""

from __future__ import annotations

from typing import Final

from threadkeep.dialects.messages.blocks import THINKING
from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.items import Item

# A message of nothing but thinking cannot be left empty, which the API refuses, nor left out, which would move its neighbours.
PLACEHOLDER: Final = b'{"type":"text","text":"(thinking removed)"}'


def has_thinking(item: Item) -> bool:
    """Whether the message holds a thinking block, redacted or not."""
    return any(_is_thinking(block) for block in _blocks(item))


def without_thinking(item: Item) -> Item:
    """Return the message without its thinking blocks, every other block and field with its exact bytes.

    A message without any is returned as it is; one that has nothing else says so in one short text block.
    """
    blocks = _blocks(item)
    kept = [block for block in blocks if not _is_thinking(block)]
    fields = split_object(item.raw)
    if fields is None or len(kept) == len(blocks):
        return item
    return Item(join_object({**fields, "content": join_list(kept or [PLACEHOLDER])}))


def _blocks(item: Item) -> list[bytes]:
    fields = split_object(item.raw) or {}
    return split_list(fields.get("content", b"null")) or []


def _is_thinking(block: bytes) -> bool:
    fields = split_object(block)
    kind = read_value(fields.get("type", b"null")) if fields else None
    return isinstance(kind, str) and kind in THINKING
