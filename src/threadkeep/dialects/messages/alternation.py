"""Messages in the order of roles the API insists on.

Neighbours of one role become one message. Its blocks are all their blocks, each with its exact bytes, in order, but for one
rule: results of tools come first, since they must follow their calls at once. A message in the system's role, or one that cannot
be read, stays where it is and keeps its neighbours apart.

The API also wants a user's message first. Nothing is invented for that here: a compacted window begins with one, its state at the
latest, and a history that does not is its client's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec

from threadkeep.dialects.raw_json import decode, join_list, join_object, make_text_part, read_value, split_list, split_object
from threadkeep.items import Item

PLAIN_ROLES = ("user", "assistant")


def alternate_roles(items: Sequence[Item]) -> list[Item]:
    """Return `items` such that no two user messages, and no two of the assistant, stand in a row; others are untouched."""
    arranged: list[Item] = []
    for role, run in groupby(items, key=_role):
        messages = list(run)
        arranged.extend([_merged(messages)] if role is not None and len(messages) > 1 else messages)
    return arranged


class _Message(msgspec.Struct):
    """A message as far as its place among others goes; whole content is not read for that."""

    role: str
    content: msgspec.Raw


_MESSAGE = msgspec.json.Decoder(_Message)


def _role(item: Item) -> str | None:
    """Return the role of a message that can be merged with its neighbours, None for any other item."""
    if (message := decode(_MESSAGE, item.raw)) is not None:
        is_plain = message.role in PLAIN_ROLES and bytes(memoryview(message.content)[:1]) in (b'"', b"[")
        return message.role if is_plain else None
    fields = split_object(item.raw)
    if fields is None or not fields.get("content", b"").startswith((b'"', b"[")):
        return None
    role = read_value(fields.get("role", b"null"))
    return role if isinstance(role, str) and role in PLAIN_ROLES else None


def _merged(messages: Sequence[Item]) -> Item:
    """Return one message for a run of one role; of a field that several have, the first one's stays."""
    fields: dict[str, bytes] = {}
    blocks: list[bytes] = []
    for message in messages:
        own = split_object(message.raw) or {}
        blocks.extend(_blocks(own["content"]))
        fields.update({name: raw for name, raw in own.items() if name not in fields})
    results = [block for block in blocks if _is_result(block)]
    others = [block for block in blocks if not _is_result(block)]
    return Item(join_object({**fields, "content": join_list((*results, *others))}))


def _blocks(content: bytes) -> list[bytes]:
    if content.startswith(b'"'):
        return [make_text_part(content)]
    return split_list(content) or []


def _is_result(block: bytes) -> bool:
    fields = split_object(block)
    return fields is not None and read_value(fields.get("type", b"null")) == "tool_result"
