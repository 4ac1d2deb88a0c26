"""Messages and requests of the Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.dialects.base import Request
from holdfast.dialects.messages.alternation import alternating
from holdfast.dialects.messages.spans import (
    Json,
    canonical_of,
    decoded,
    decoded_object,
    elements_of,
    fields_of,
    list_of,
    object_of,
)
from holdfast.dialects.messages.views import view_of
from holdfast.dialects.messages.wire import MessagesWire
from holdfast.errors import InvalidItem
from holdfast.items import Item, ItemKind, Role, View

# What a client may leave around a message without changing what the model sees.
ADDITIONS: Final = frozenset({"id", "status", "cache_control"})
# What an answer carries beside its content; clients that keep the whole answer send it back.
ANSWER_ADDITIONS: Final = frozenset(
    {"model", "stop_reason", "stop_sequence", "stop_details", "usage", "container", "context_management", "diagnostics"}
)


class MessagesDialect:
    """The Messages wire language; see `holdfast.dialects.base.Dialect` for the contract.

    An item is one message. Top-level `system` and `tools` are fields of the request and never touched; the head is a leading run
    of messages in the system's role, and one that stands later is history, where its client froze it.
    """

    name = "messages"
    wire = MessagesWire()

    def parse(self, value: object) -> Item:
        if not isinstance(value, dict):
            raise InvalidItem(dialect=self.name, reason=f"a JSON object was expected, not {type(value).__name__}")
        try:
            raw = msgspec.json.encode(value)
            faithful = msgspec.json.decode(raw) == value
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidItem(dialect=self.name, reason=str(error)) from error
        if not faithful:
            raise InvalidItem(dialect=self.name, reason="it holds values that JSON cannot say")
        return Item(raw)

    def view(self, item: Item) -> View:
        fields = decoded_object(item.raw)
        return View(kind=ItemKind.OPAQUE, role=Role.ASSISTANT) if fields is None else view_of(fields)

    def canonical(self, item: Item) -> bytes:
        return canonical_of(item.raw, _canonical)

    def split(self, body: bytes) -> Request | None:
        fields = fields_of(body)
        messages = elements_of(fields["messages"]) if fields and "messages" in fields else None
        if fields is None or messages is None or not all(message.startswith(b"{") for message in messages):
            return None
        items = [Item(message) for message in messages]
        head = 0
        while head < len(items) and self.view(items[head]).role is Role.SYSTEM:
            head += 1
        return Request(fields=fields, head=tuple(items[:head]), items=tuple(items[head:]))

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        history = list_of(item.raw for item in (*request.head, *items))
        return object_of({**request.fields, "messages": history})

    def state_item(self, text: str) -> Item:
        return self.parse({"role": "user", "content": [{"type": "text", "text": text}]})

    def with_output(self, item: Item, text: str) -> Item | None:
        if self.view(item).kind is not ItemKind.OUTPUT:
            return None
        message = fields_of(item.raw)
        blocks = elements_of(message["content"]) if message else None
        if message is None or blocks is None:
            return None
        content = msgspec.json.encode(text)
        return Item(object_of({**message, "content": list_of(_with_content(block, content) for block in blocks)}))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return alternating(items)


MESSAGES: Final = MessagesDialect()


def _with_content(block: bytes, content: bytes) -> bytes:
    fields = fields_of(block)
    if fields is None or decoded(fields.get("type", b"null")) != "tool_result":
        return block
    return object_of({**fields, "content": content})


def _canonical(fields: Json) -> Json:
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
