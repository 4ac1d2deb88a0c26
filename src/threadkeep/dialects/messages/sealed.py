"""What only the account it was issued to may hand back: thinking, and the provider's own compaction of a history."""

from __future__ import annotations

from typing import Final

import msgspec

from threadkeep.dialects.base import UNREADABLE
from threadkeep.dialects.messages.thinking_blocks import remove_thinking
from threadkeep.dialects.raw_json import join_list, join_object, read_fields, split_list, split_object
from threadkeep.items import Item

SUMMARISED: Final = "(An earlier part of this conversation was compacted. What was told of it: {told})"


def remove_sealed(item: Item) -> Item:
    """Return the message without its thinking, and with the words of a compaction, if it has any, in place of the block."""
    bare = remove_thinking(item)
    fields = split_object(bare.raw) if b'"compaction"' in bare.raw else None
    blocks = split_list(fields["content"]) if fields is not None and "content" in fields else None
    if fields is None or blocks is None:
        return bare
    told = [_told(block) for block in blocks]
    return bare if told == blocks else Item(join_object({**fields, "content": join_list(told)}))


def _told(block: bytes) -> bytes:
    fields = read_fields(block)
    if fields is None or fields.text("type") != "compaction":
        return block
    told = fields.text("content")
    return msgspec.json.encode({"type": "text", "text": SUMMARISED.format(told=told) if told else UNREADABLE})
