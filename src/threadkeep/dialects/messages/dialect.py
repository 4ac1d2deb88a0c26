"""Messages and requests of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.base import Dialect, Wire, compose_request
from threadkeep.dialects.messages import replies
from threadkeep.dialects.messages.api import MessagesApi
from threadkeep.dialects.messages.blocks import list_blocks, read_text_field
from threadkeep.dialects.messages.item_views import read_view
from threadkeep.dialects.messages.markers import remove_markers
from threadkeep.dialects.messages.thinking_blocks import remove_thinking
from threadkeep.dialects.raw_json import (
    Json,
    decode,
    join_list,
    join_object,
    make_text_part,
    read_fields,
    read_object,
    read_value,
    split_list,
    split_object,
)
from threadkeep.dialects.values import ABORTED, UNREADABLE, Request
from threadkeep.items import Item, ItemKind, View

# What a client may leave around a message without changing what the model sees.
ADDITIONS: Final = frozenset({"id", "status", "cache_control"})
# What an answer carries beside its content; clients that keep the whole answer send it back.
ANSWER_ADDITIONS: Final = frozenset(
    {"model", "stop_reason", "stop_sequence", "stop_details", "usage", "container", "context_management", "diagnostics"}
)


# What no other dialect has.
OWN_BLOCKS: Final = frozenset({"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "server_tool_use"})


class MessagesDialect(Dialect):
    """The Messages wire language; see `threadkeep.dialects.base.Dialect` for the contract.

    An item is one message. Top-level `system` and `tools` are fields of the request and never touched; the head is a leading run
    of messages in the system's role, and one that stands later is history, where its client froze it.
    """

    name = "messages"
    history_field = "messages"
    wire: ClassVar[Wire] = replies
    api = MessagesApi()
    opens_with_user = True
    sealed_marks = (b"thinking", b"compaction")

    def read_view(self, fields: Json) -> View:
        return read_view(fields)

    def normalise(self, fields: Json) -> Json:
        return _normalise(fields)

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        return compose_request({"system": system, "tools": list(tools)})

    def recognises(self, item: Item) -> bool:
        fields = read_object(item.raw) or {}
        blocks = list_blocks(fields.get("content")) or []
        if any(read_text_field(block, "type") in OWN_BLOCKS for block in blocks):
            return True
        return any(read_text_field(block, "type") == "image" and "source" in block for block in blocks)

    def make_user_message(self, text: str) -> Item:
        return self.parse({"role": "user", "content": [{"type": "text", "text": text}]})

    def replace_output(self, item: Item, text: str) -> Item | None:
        if self.view(item).kind is not ItemKind.OUTPUT:
            return None
        message = split_object(item.raw)
        blocks = split_list(message["content"]) if message else None
        if message is None or blocks is None:
            return None
        content = msgspec.json.encode(text)
        stub = Item(join_object({**message, "content": join_list(_with_content(block, content) for block in blocks)}))
        # A client moves its cache markers along; one in a stub would stay, and a request may hold four.
        return remove_markers(stub)

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        blocks = list_blocks((read_object(item.raw) or {}).get("content")) or []
        own = {read_text_field(block, "id") for block in blocks if read_text_field(block, "type") == "tool_use"}
        results = [
            {"type": "tool_result", "tool_use_id": call_id, "content": ABORTED, "is_error": True}
            for call_id in self.view(item).opens
            if call_id in calls and call_id in own
        ]
        return [self.parse({"role": "user", "content": results})] if results else []

    def remove_sealed(self, item: Item) -> Item | None:
        return remove_sealed(item)

    def blank_item(self, item: Item, text: str) -> Item | None:
        return self.parse(blank_fields(read_object(item.raw) or {}, text))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return alternate_roles(items)


MESSAGES: Final = MessagesDialect()


def _with_content(block: bytes, content: bytes) -> bytes:
    fields = split_object(block)
    if fields is None or read_value(fields.get("type", b"null")) != "tool_result":
        return block
    return join_object({**fields, "content": content})


def _normalise(fields: Json) -> Json:
    """Return a message without what clients and providers add or leave out at will; anything else as it is."""
    if "role" not in fields:
        return fields
    additions = ADDITIONS | ANSWER_ADDITIONS if fields["role"] == "assistant" else ADDITIONS
    kept = {name: value for name, value in fields.items() if name not in additions}
    if kept.get("type") == "message":
        del kept["type"]
    if "content" in kept:
        kept["content"] = _canonical_content(kept["content"])
    return kept


def _canonical_content(content: object) -> object:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [_canonical_block(block) for block in content] if isinstance(content, list) else content


def _canonical_block(block: object) -> object:
    """Return a block without its cache marker and those of the blocks a tool returned in it."""
    if not isinstance(block, dict):
        return block
    kept = {name: value for name, value in block.items() if name != "cache_control" and not _is_filler(name, value)}
    if block.get("type") == "tool_result" and "content" in kept:
        kept["content"] = _canonical_content(kept["content"])
    elif isinstance(kept.get("content"), list):
        kept["content"] = [_unmarked(each) for each in kept["content"]]
    return kept


def _unmarked(block: object) -> object:
    return {name: value for name, value in block.items() if name != "cache_control"} if isinstance(block, dict) else block


def _is_filler(name: str, value: object) -> bool:
    return name == "citations" and not value


def blank_fields(fields: Json, text: str) -> Json:
    """Return a message of the same role that makes and answers the same calls, and says nothing but `text`.

    Thinking goes: it is words too, and signed for what it was.
    """
    blocks = list_blocks(fields.get("content")) or []
    kept = [made for block in blocks if (made := _paired(block, text)) is not None]
    return {"role": fields.get("role"), "content": kept or [{"type": "text", "text": text}]}


def _paired(block: Json, text: str) -> Json | None:
    """Return what is left of half of a call; None for any other block, and for calls of the provider's own tools."""
    match read_text_field(block, "type"):
        case "tool_use":
            return {"type": "tool_use", "id": block.get("id"), "name": block.get("name"), "input": {}}
        case "tool_result":
            return {"type": "tool_result", "tool_use_id": block.get("tool_use_id"), "content": text}
        case _:
            return None


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
