"""Thinking blocks. A provider binds them to the exact history they were produced in; a rewritten history must go without."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from threadkeep.dialects.messages.blocks import THINKING
from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.dialects.values import Request
from threadkeep.items import Item

BETA_HEADER: Final = "anthropic-beta"
# The provider drops thinking that no longer fits its history, where a request asks for that.
BINDING_BETA: Final = "thinking-binding-controls-2026-08-01"
DROP_MISMATCHED: Final = b'{"prefix_mismatch_behavior":"drop_block"}'

# A message of nothing but thinking cannot be left empty, which the API refuses, nor left out, which would move its neighbours.
PLACEHOLDER: Final = b'{"type":"text","text":"(thinking removed)"}'

# Models whose thinking is signed but bound to nothing: in another window it is as good as before.
_unbound = re.compile(r"claude-(?:[23]|instant|(?:opus|sonnet|haiku)-4)")


def is_bound(model: str) -> bool:
    """Whether a model's thinking is bound; unknown models are taken to bind theirs."""
    return _unbound.search(model) is None


def is_requested(request: Request) -> bool:
    """Whether a request asks for thinking."""
    thinking = split_object(request.fields.get("thinking", b"null")) or {}
    return thinking.get("type", b"null") not in (b"null", b'"disabled"')


def drop_mismatched(request: Request) -> tuple[Request, Mapping[str, str]]:
    """Return a request that asks the provider to drop thinking that no longer fits, and the headers that needs.

    Without a field `thinking` there is no place to ask for it.
    """
    thinking = split_object(request.fields.get("thinking", b"null"))
    if thinking is None:
        return request, {}
    fields = {**request.fields, "thinking": join_object({**thinking, "block_binding": DROP_MISMATCHED})}
    return replace(request, fields=fields), {BETA_HEADER: BINDING_BETA}


def remove_thinking(item: Item) -> Item:
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
