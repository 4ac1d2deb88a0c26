"""Messages of a person that stand next to each other, made one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, split_list, split_object
from threadkeep.dialects.responses.item_views import read_kind
from threadkeep.items import Item

USER_SIGN: Final = b'"user"'

# OpenAI's own models take them as they are; servers that speak the Responses API through another model's template may not.
_takes_neighbours = re.compile(r"gpt-|chatgpt-|codex-|o\d")


def takes_neighbours(model: str) -> bool:
    """Whether the provider of this model is known to accept two user messages in a row."""
    return _takes_neighbours.match(model) is not None


def is_user_message(item: Item) -> bool:
    """Whether an item is a message in the user's role whose content can be put together with another's."""
    if USER_SIGN not in item.raw:
        return False
    fields = read_object(item.raw) or {}
    return read_kind(fields) == "message" and fields.get("role") == "user" and isinstance(fields.get("content"), str | list)


def merge_messages(items: Sequence[Item]) -> Item:
    """Return several such messages as one: all their parts in order, with their exact bytes; of other fields the newest count."""
    spans = [split_object(item.raw) or {} for item in items]
    parts = [part for each in spans for part in _parts(each.get("content", b"[]"))]
    fields = {name: raw for each in spans for name, raw in each.items() if name != "id"}
    return Item(join_object({**fields, "content": join_list(parts)}))


def _parts(content: bytes) -> list[bytes]:
    if content.startswith(b'"'):
        return [make_text_part(content, kind=b"input_text")]
    return split_list(content) or []
