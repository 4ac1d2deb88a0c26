"""Items and requests of the Chat Completions API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from holdfast.dialects.base import Request
from holdfast.dialects.chat import arranging, canonical
from holdfast.dialects.chat.spans import UNREADABLE, array_of, elements_of, fields_of, object_of
from holdfast.dialects.chat.views import INSTRUCTIONS, OUTPUTS, role_of, view_of
from holdfast.dialects.chat.wire import ChatWire
from holdfast.errors import InvalidItem
from holdfast.items import Item, View


class ChatDialect:
    """The Chat Completions wire language; see `holdfast.dialects.base.Dialect` for the contract."""

    name = "chat"
    wire = ChatWire()

    def parse(self, value: object) -> Item:
        if not isinstance(value, dict):
            raise InvalidItem(dialect=self.name, reason=f"a JSON object was expected, not {type(value).__name__}")
        try:
            _check(value)
            return Item(msgspec.json.encode(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidItem(dialect=self.name, reason=str(error)) from error

    def view(self, item: Item) -> View:
        return view_of(item)

    def canonical(self, item: Item) -> bytes:
        return canonical.canonical(item)

    def split(self, body: bytes) -> Request | None:
        try:
            fields = fields_of(body)
            messages = elements_of(fields["messages"])
        except (KeyError, *UNREADABLE):
            return None
        if not all(message.startswith(b"{") for message in messages):
            return None
        items = [Item(message) for message in messages]
        head = 0
        while head < len(items) and role_of(items[head]) in INSTRUCTIONS:
            head += 1
        return Request(fields=fields, head=tuple(items[:head]), items=tuple(items[head:]))

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        history = array_of([item.raw for item in (*request.head, *items)])
        return object_of({**request.fields, "messages": history})

    def state_item(self, text: str) -> Item:
        return self.parse({"role": "user", "content": text})

    def with_output(self, item: Item, text: str) -> Item | None:
        if role_of(item) not in OUTPUTS:
            return None
        try:
            fields = fields_of(item.raw)
        except UNREADABLE:
            return None
        return Item(object_of({**fields, "content": msgspec.json.encode(text)}))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return arranging.arrange(items)


CHAT: Final = ChatDialect()


def _check(value: object) -> None:
    """Refuse what would come back from JSON as something else: NaN, bytes, sets, decimals, objects, odd keys."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"{name!r} cannot name a field")
            _check(inner)
    elif isinstance(value, list):
        for inner in value:
            _check(inner)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise ValueError(f"{value} is no JSON number")
    elif value is not None and not isinstance(value, (str, int)):
        raise TypeError(f"{type(value).__name__} is no JSON value")
