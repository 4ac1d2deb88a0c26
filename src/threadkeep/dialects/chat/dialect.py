"""Items and requests of the Chat Completions API."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, Final

import msgspec

from threadkeep.dialects.base import Dialect, Wire, compose_request
from threadkeep.dialects.chat import replies
from threadkeep.dialects.chat.api import ChatApi
from threadkeep.dialects.chat.item_views import OUTPUTS, read_role, read_view
from threadkeep.dialects.openai_parts import find_part_types, is_thought
from threadkeep.dialects.raw_json import (
    Json,
    join_list,
    join_object,
    make_text_part,
    read_object,
    read_value,
    split_list,
    split_object,
)
from threadkeep.dialects.values import ABORTED, SEPARATOR, Request
from threadkeep.items import Item, View

# What no other dialect has.
OWN_FIELDS: Final = frozenset({"tool_calls", "tool_call_id"})
OWN_ROLES: Final = ("tool", "function", "system")


class ChatDialect(Dialect):
    """The Chat Completions wire language; see `threadkeep.dialects.base.Dialect` for the contract."""

    name = "chat"
    history_field = "messages"
    wire: ClassVar[Wire] = replies
    api = ChatApi()
    sealed_marks = (b"thinking", b"reasoning")

    def read_view(self, fields: Json) -> View:
        return read_view(fields)

    def normalise(self, fields: Json) -> Json:
        return normalise_message(fields)

    def compose(self, *, system: str | None, tools: Sequence[Mapping[str, Any]], cache_key: str | None) -> Request:
        told = ({"role": "system", "content": system},) if system else ()
        return compose_request({"tools": list(tools), "prompt_cache_key": cache_key}, head=[self.parse(item) for item in told])

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

    def remove_sealed(self, item: Item) -> Item | None:
        return remove_sealed(item)

    def blank_item(self, item: Item, text: str) -> Item | None:
        return self.parse(blank_fields(read_object(item.raw) or {}, text))

    def arrange(self, items: Sequence[Item]) -> list[Item]:
        return merge_user_messages(items)


CHAT: Final = ChatDialect()


ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
# What servers and clients add to a message that is not part of it. Ids of calls stand deeper and are never dropped.
BESIDE: Final = frozenset({"id", "status", "cache_control"})
# SDKs write out what a message does not have; other clients leave it out.
NULL_IS_ABSENT: Final = frozenset(
    {
        "annotations",
        "audio",
        "content",
        "function_call",
        "name",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "refusal",
        "tool_calls",
    }
)
EMPTY_IS_ABSENT: Final = frozenset({"annotations", "tool_calls"})


def normalise_message(fields: Json) -> Json:
    """Return a message without what is spelled at will; one of a role nobody knows as it is."""
    role = fields.get("role")
    if not isinstance(role, str) or role not in ROLES:
        return fields
    kept = {name: value for name, value in fields.items() if name not in BESIDE and not _absent(name, value)}
    content = kept.get("content")
    if isinstance(content, str):
        kept["content"] = [{"type": "text", "text": content}]
    elif isinstance(content, list):
        kept["content"] = [_part(part) for part in content]
    return kept


def _absent(name: str, value: object) -> bool:
    return (value is None and name in NULL_IS_ABSENT) or (value == [] and name in EMPTY_IS_ABSENT)


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name != "cache_control"}


EMPTY_ARGUMENTS = "{}"


def blank_fields(fields: Json, text: str) -> Json:
    """Return a message of the same role that makes the same calls, or answers the same one, and says nothing but `text`."""
    role = fields.get("role")
    if role in OUTPUTS:
        kept = {name: fields[name] for name in ("tool_call_id", "name") if isinstance(fields.get(name), str)}
        return {"role": role, **kept, "content": text}
    calls = fields.get("tool_calls") if role == "assistant" else None
    made = [_blank_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    if made:
        return {"role": role, "content": None, "tool_calls": made}
    called = fields.get("function_call") if role == "assistant" else None
    if isinstance(called, dict):
        return {"role": role, "content": None, "function_call": {"name": called.get("name"), "arguments": EMPTY_ARGUMENTS}}
    return {"role": role, "content": text}


def _blank_call(call: Json) -> Json:
    kind = "custom" if call.get("type") == "custom" else "function"
    called = call.get(kind)
    name = called.get("name") if isinstance(called, dict) else None
    payload = {"input": ""} if kind == "custom" else {"arguments": EMPTY_ARGUMENTS}
    return {"id": call.get("id"), "type": kind, kind: {"name": name, **payload}}


# Signed or encrypted by whoever served the model. Thoughts in plain text (`reasoning_content`) are bound to nobody.
FIELDS: Final = frozenset({"reasoning_details", "thinking_blocks"})
SPEECH: Final = ("content", "tool_calls", "function_call", "refusal", "audio")
NOTHING: Final = frozenset({b"null", b"[]", b'""'})


def remove_sealed(item: Item) -> Item | None:
    """Return an assistant's message without them; the same item where it has none, None where it says nothing else."""
    fields = split_object(item.raw) if read_role(item) == "assistant" else None
    if fields is None:
        return item
    kept = {name: raw for name, raw in fields.items() if name not in FIELDS}
    parts = split_list(kept.get("content", b"null"))
    spoken = [part for part in parts or () if not is_thought(read_value(part))]
    if parts is not None and len(spoken) < len(parts):
        kept["content"] = join_list(spoken)
    elif len(kept) == len(fields):
        return item
    says_something = any(kept.get(name, b"null") not in NOTHING for name in SPEECH)
    return Item(join_object(kept)) if says_something else None


_BETWEEN: Final = json.dumps(SEPARATOR)[1:-1].encode()


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
