"""No two user messages in a row: many servers' templates refuse them, and some models answer only the last."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Final

from threadkeep.dialects.base import SEPARATOR
from threadkeep.dialects.chat.views import read_role
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, split_list, split_object
from threadkeep.items import Item

_BETWEEN: Final = json.dumps(SEPARATOR)[1:-1].encode()
NOTHING: Final = frozenset({b"null", b'""', b"[]"})


def merge_user_messages(items: Sequence[Item]) -> list[Item]:
    """Return `items` with every run of user messages as one; all else is untouched."""
    result: list[Item] = []
    seen = [(item, _user_fields(item)) for item in items]
    for by_user, run in groupby(seen, key=lambda pair: pair[1] is not None):
        pairs = list(run)
        if by_user and len(pairs) > 1:
            result.append(_merged([fields for _, fields in pairs if fields is not None]))
        else:
            result.extend(item for item, _ in pairs)
    return result


def _user_fields(item: Item) -> dict[str, bytes] | None:
    """Return the fields of a user message; None for anything else, and for what cannot be taken apart."""
    return split_object(item.raw) if read_role(item) == "user" else None


def _merged(messages: list[dict[str, bytes]]) -> Item:
    """Return several user messages as one: texts with a line between them, or, where any has parts, all parts in order.

    Of the other fields the newest value counts. Strings are joined as they are spelled, so no byte of them changes.
    """
    fields = {name: raw for message in messages for name, raw in message.items()}
    contents = [content for message in messages if (content := message.get("content", b"null")) not in NOTHING]
    return Item(join_object({**fields, "content": _content(contents)}))


def _content(contents: list[bytes]) -> bytes:
    if all(content.startswith(b'"') for content in contents):
        return b'"' + _BETWEEN.join(content[1:-1] for content in contents) + b'"'
    return join_list(part for content in contents for part in _parts(content))


def _parts(content: bytes) -> list[bytes]:
    if content.startswith(b'"'):
        return [make_text_part(content)]
    parts = split_list(content)
    # No content any server knows goes where it can be refused, and nowhere is it lost.
    return [content] if parts is None else parts
