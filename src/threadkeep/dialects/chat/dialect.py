"""Items and requests of the Chat Completions API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from threadkeep.dialects.base import ABORTED, Request, Wire
from threadkeep.dialects.chat import wire
from threadkeep.dialects.chat.arranging import arranged
from threadkeep.dialects.chat.blanking import blanked_fields
from threadkeep.dialects.chat.canonical import canonical_fields
from threadkeep.dialects.chat.sealed import without_sealed
from threadkeep.dialects.chat.views import INSTRUCTIONS, OUTPUTS, role_of, view_of
from threadkeep.dialects.requests import composed, item_from, items_in, put_together, taken_apart
from threadkeep.dialects.spans import canonical_of, fields_of, object_in, object_of
from threadkeep.items import Item, View


class ChatDialect:
    """The Chat Completions wire language; see `threadkeep.dialects.base.Dialect` for the contract."""

    name = "chat"
    history_field = "messages"
    wire: Wire = wire

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        told = ({"role": "system", "content": system},) if system else ()
        return composed({"tools": list(tools), "prompt_cache_key": cache_key}, head=[self.parse(item) for item in told])

    def parse(self, value: object) -> Item:
        return item_from(value, dialect=self.name)

    def view(self, item: Item) -> View:
        return view_of(object_in(item.raw) or {})

    def canonical(self, item: Item) -> bytes:
        return canonical_of(item.raw, canonical_fields)

    def split(self, body: bytes) -> Request | None:
        fields = fields_of(body)
        items = items_in(fields.get("messages", b"null")) if fields else None
        if fields is None or items is None:
            return None
        return taken_apart(fields, items, is_head=lambda item: role_of(item) in INSTRUCTIONS)

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        return put_together(request, items, field=self.history_field)

    def state_item(self, text: str) -> Item:
        return self.parse({"role": "user", "content": text})

    def with_output(self, item: Item, text: str) -> Item | None:
        fields = fields_of(item.raw) if role_of(item) in OUTPUTS else None
        return None if fields is None else Item(object_of({**fields, "content": msgspec.json.encode(text)}))

    def aborted_outputs(self, item: Item, calls: Collection[str]) -> list[Item]:
        unanswered = [call_id for call_id in self.view(item).opens if call_id in calls]
        return [self.parse({"role": "tool", "tool_call_id": call_id, "content": ABORTED}) for call_id in unanswered]

    def without_sealed(self, item: Item) -> Item | None:
        return without_sealed(item)

    def blanked(self, item: Item, text: str) -> Item | None:
        return self.parse(blanked_fields(object_in(item.raw) or {}, text))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return arranged(items)


CHAT: Final = ChatDialect()
