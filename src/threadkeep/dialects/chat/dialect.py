"""Items and requests of the Chat Completions API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import msgspec

from threadkeep.dialects.base import ABORTED, ERASED_NAME, Api, ModelCalls, Request, ToolCall, Tools, Wire
from threadkeep.dialects.chat import api, calls, tools, wire
from threadkeep.dialects.chat.alternation import merge_user_messages
from threadkeep.dialects.chat.blank_items import blank_fields
from threadkeep.dialects.chat.canonical import normalise_message
from threadkeep.dialects.chat.sealed import remove_sealed
from threadkeep.dialects.chat.views import INSTRUCTIONS, OUTPUTS, read_role, read_view
from threadkeep.dialects.content_parts import find_part_types
from threadkeep.dialects.raw_json import encode_canonical, join_object, read_object, split_object
from threadkeep.dialects.requests import compose_request, drop_personal_parts, join_request, make_item, read_items, split_request
from threadkeep.items import Item, View

# What no other dialect has.
OWN_FIELDS: Final = frozenset({"tool_calls", "tool_call_id"})
OWN_ROLES: Final = ("tool", "function", "system")


class ChatDialect:
    """The Chat Completions wire language; see `threadkeep.dialects.base.Dialect` for the contract."""

    name = "chat"
    history_field = "messages"
    wire: Wire = wire
    api: Api = api
    calls: ModelCalls = calls
    tools: Tools = tools
    opens_with_user = False
    takes_instructions_anywhere = False
    sealed_marks = (b"thinking", b"reasoning")

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        told = ({"role": "system", "content": system},) if system else ()
        return compose_request({"tools": list(tools), "prompt_cache_key": cache_key}, head=[self.parse(item) for item in told])

    def parse(self, value: object) -> Item:
        return make_item(value, dialect=self.name)

    def view(self, item: Item) -> View:
        return read_view(read_object(item.raw) or {})

    def canonical(self, item: Item) -> bytes:
        return encode_canonical(item.raw, normalise_message)

    def split(self, body: bytes) -> Request | None:
        fields = split_object(body)
        items = read_items(fields.get("messages", b"null")) if fields else None
        if fields is None or items is None:
            return None
        return split_request(fields, items, is_head=lambda item: read_role(item) in INSTRUCTIONS)

    def join(self, request: Request, items: Sequence[Item]) -> bytes:
        return join_request(request, items, field=self.history_field)

    def recognises(self, item: Item) -> bool:
        fields = read_object(item.raw) or {}
        if OWN_FIELDS & fields.keys() or fields.get("role") in OWN_ROLES:
            return True
        return "image_url" in find_part_types(fields.get("content"))

    def make_user_message(self, text: str) -> Item:
        return self.parse({"role": "user", "content": text})

    def replace_output(self, item: Item, text: str) -> Item | None:
        fields = split_object(item.raw) if read_role(item) in OUTPUTS else None
        return None if fields is None else Item(join_object({**fields, "content": msgspec.json.encode(text)}))

    def abort_calls(self, item: Item, calls: Collection[str]) -> list[Item]:
        unanswered = [call_id for call_id in self.view(item).opens if call_id in calls]
        return [self.parse({"role": "tool", "tool_call_id": call_id, "content": ABORTED}) for call_id in unanswered]

    def make_erased_call(self, outputs: Sequence[tuple[str, Item]]) -> Item | None:
        return tools.make_calls([ToolCall(id=call_id, name=ERASED_NAME, arguments="{}") for call_id, _ in outputs])[0]

    def remove_sealed(self, item: Item) -> Item | None:
        return remove_sealed(item)

    def blanked(self, item: Item, text: str) -> Item | None:
        return self.parse(blank_fields(read_object(item.raw) or {}, text))

    def host_parts(self, item: Item) -> Item | None:
        return drop_personal_parts(item, view=self.view)

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return merge_user_messages(items)


CHAT: Final = ChatDialect()
