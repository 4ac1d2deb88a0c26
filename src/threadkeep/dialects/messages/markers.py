"""Cache markers (`cache_control`): counted, set and removed. A request may hold four."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from threadkeep.dialects.messages.blocks import THINKING
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_value, split_list, split_object
from threadkeep.dialects.values import Request
from threadkeep.items import Item

FIELD: Final = "cache_control"
MARKER: Final = b'{"type":"ephemeral"}'

SIGN: Final = FIELD.encode()
MAX_MARKERS: Final = 4
LONG_LIVED: Final = b'"1h"'


def mark_item(items: Sequence[Item], request: Request, *, at: int) -> Item:
    """Return item `at` of a window with a marker at its end, where one is free.

    A marker that lives for an hour may not follow one that lives for minutes, so none is set in front of such markers.
    """
    used = _count_beside(request) + sum(_count_quickly(item) for item in items)
    if used >= MAX_MARKERS or any(LONG_LIVED in item.raw and _count_quickly(item) for item in items[at + 1 :]):
        return items[at]
    return set_marker(items[at])


def limit_markers(items: Sequence[Item], request: Request) -> list[Item]:
    """Return items with their newest markers alone, as many as the request has room for.

    A client moves its markers along with every request; its items as they were recorded hold all of them.
    """
    free, limited = MAX_MARKERS - _count_beside(request), list(items)
    for index in range(len(limited) - 1, -1, -1):
        count = _count_quickly(limited[index])
        if count > free:
            limited[index] = remove_markers(limited[index])
        else:
            free -= count
    return limited


def count_markers(item: Item) -> int:
    """Return how many markers a message holds: its own, those of its blocks, those of blocks within a tool's result."""
    fields = split_object(item.raw) or {}
    blocks = split_list(fields.get("content", b"null")) or []
    return _has_marker(fields) + sum(_count(block) for block in blocks)


def set_marker(item: Item) -> Item:
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


def remove_markers(item: Item) -> Item:
    """Return the message without any marker, all else with its exact bytes."""
    fields = split_object(item.raw)
    if fields is None or not count_markers(item):
        return item
    kept = _unmarked(fields)
    blocks = split_list(kept.get("content", b"null"))
    if blocks is not None:
        kept["content"] = join_list(_without(block, nested=True) for block in blocks)
    return Item(join_object(kept))


def _count_beside(request: Request) -> int:
    """Return how many markers stand outside the history: on blocks of the system's text, on tools, on the head."""
    spans = [span for name in ("system", "tools") if SIGN in (span := request.fields.get(name, b"null"))]
    blocks = [split_object(block) or {} for span in spans for block in split_list(span) or ()]
    return sum(_has_marker(block) for block in (*blocks, request.fields)) + sum(_count_quickly(item) for item in request.head)


def _count_quickly(item: Item) -> int:
    return count_markers(item) if SIGN in item.raw else 0


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


def _has_marker(fields: Mapping[str, bytes]) -> bool:
    return fields.get(FIELD, b"null") != b"null"


def _may_carry(block: dict[str, bytes]) -> bool:
    kind = read_value(block.get("type", b"null"))
    return isinstance(kind, str) and kind not in THINKING and (kind != "text" or block.get("text", b'""') != b'""')
