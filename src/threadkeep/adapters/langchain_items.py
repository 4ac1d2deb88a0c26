"""LangChain messages as items of the `chat` dialect, and back.

What a message says and calls stands where every chat message has it; all else stands beside it under `langchain`, as the library
itself writes it down. An item without that was made by threadkeep: its session state, or the output of a call that was aborted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from langchain.messages import AnyMessage
from langchain_core.messages import BaseMessage, messages_from_dict

from threadkeep.dialects import CHAT

DIALECT: Final = CHAT.name
OWN: Final = "langchain"
# How the ids of messages begin that no host made; a message with such an id is threadkeep's own, handed back.
MADE_HERE: Final = "threadkeep-"
ROLES: Final = {
    "human": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessageChunk": "tool",
    "system": "system",
    "SystemMessageChunk": "system",
    "function": "function",
}
TYPES: Final = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
# Written down in the item itself.
SAID: Final = frozenset({"type", "content", "id", "tool_calls", "tool_call_id"})


def item_of(message: BaseMessage) -> dict[str, Any]:
    """Return a message as an item. What JSON cannot say, such as a tool's artifact, is there as its `repr`."""
    data = _plain(message.model_dump(exclude_defaults=True))
    item: dict[str, Any] = {"role": ROLES.get(message.type, message.type), "content": _plain(message.content)}
    if calls := getattr(message, "tool_calls", None):
        item["tool_calls"] = [_called(call) for call in calls]
    if (call_id := getattr(message, "tool_call_id", None)) is not None:
        item["tool_call_id"] = call_id
    if message.id is not None and message.id.startswith(MADE_HERE):
        return item
    rest = {name: value for name, value in data.items() if name not in SAID}
    return {**item, **({} if message.id is None else {"id": message.id}), OWN: {"type": message.type, **rest}}


def message_of(item: Mapping[str, Any]) -> AnyMessage:
    """Return an item as the message it was made from; one of threadkeep's own as a message with an id that says so."""
    rest = dict(item.get(OWN) or {})
    kind = rest.pop("type", TYPES.get(item["role"], "human"))
    data: dict[str, Any] = {**rest, "content": item["content"]}
    if "tool_calls" in item:
        data["tool_calls"] = [_calling(call) for call in item["tool_calls"]]
    if "tool_call_id" in item:
        data["tool_call_id"] = item["tool_call_id"]
    if "id" in item:
        data["id"] = item["id"]
    elif OWN not in item:
        data["id"] = MADE_HERE + blake2b(CHAT.canonical(CHAT.parse(dict(item))), digest_size=12).hexdigest()
    [message] = messages_from_dict([{"type": kind, "data": data}])
    made: AnyMessage = message  # type: ignore[assignment]  # the library types what it reads by its base class
    return made


def messages_of(window: Sequence[Mapping[str, Any]], shown: Sequence[AnyMessage]) -> list[AnyMessage]:
    """Return a window as messages: the very objects the host showed where they are in it."""
    known = {CHAT.parse(item_of(message)).raw: message for message in shown}
    return [known.get(CHAT.parse(dict(item)).raw) or message_of(item) for item in window]


def _called(call: Mapping[str, Any]) -> dict[str, Any]:
    arguments = json.dumps(call["args"], ensure_ascii=False, default=repr)
    return {"id": call["id"], "type": "function", "function": {"name": call["name"], "arguments": arguments}}


def _calling(call: Mapping[str, Any]) -> dict[str, Any]:
    called = call["function"]
    return {"name": called["name"], "args": json.loads(called["arguments"]), "id": call["id"], "type": "tool_call"}


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value, ensure_ascii=False, default=repr))
