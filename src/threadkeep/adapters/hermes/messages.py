"""Converts between the host's messages and chat items. Pure.

The host's messages have more keys: markers that begin with an underscore, timestamps, the content that was sent instead
(`api_content`), replayed thoughts. An item holds what the model sees: role, content, calls. A message read back from the host's
database has lost outer white space and gained a timestamp, and must give the same item.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadkeep.dialects.values import STATE_OPENING
from threadkeep.items import is_json

Message = dict[str, Any]

# The host marks stored messages; messages of a compacted list must be stored again.
STORED: Final = "_db_persisted"
# The host recognises a compaction's message by this key, and never sends it.
SUMMARY: Final = "_compressed_summary"
# The separators with which the host and our windows join two user messages.
JOINT: Final = "\n\n"
SEPARATOR: Final = "\n\n---\n\n"
# The host's own estimate.
CHARACTERS_PER_TOKEN: Final = 4
INSTRUCTIONS: Final = ("system", "developer")


def filter_messages(given: object) -> list[Message]:
    """Return the messages in a host's argument; anything else is left out."""
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list | tuple) else []


def parse_count(given: object) -> int:
    """Return a count from the host; 0 if it is not a number."""
    try:
        return max(0, int(given)) if isinstance(given, int | float | str) else 0
    except (ValueError, OverflowError):
        return 0


def split_head(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Split a list into its leading instructions, if any, and the history."""
    at = 0
    while at < len(messages) and messages[at].get("role") in INSTRUCTIONS:
        at += 1
    return list(messages[:at]), list(messages[at:])


def make_item(message: Message) -> Message:
    """Return the part of a host's message that the model sees."""
    item: Message = {"role": message.get("role")}
    content = message.get("content")
    # For messages with calls, the host's database stores an empty text as none.
    item["content"] = (content.strip() or None) if isinstance(content, str) else _to_json(content)
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        item["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
    if isinstance(message.get("tool_call_id"), str):
        item["tool_call_id"] = message["tool_call_id"]
    # The host calls it the one while it runs, and the other once it was read back.
    name = message.get("name") or message.get("tool_name")
    if isinstance(name, str):
        item["name"] = name
    return {key: _sayable(value) for key, value in item.items()}


def _sayable(value: Any) -> Any:
    """Return JSON that can be written as UTF-8: a half of a surrogate pair alone, as broken output of a tool has it, cannot."""
    match value:
        case str():
            return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        case list():
            return [_sayable(each) for each in value]
        case dict():
            return {_sayable(key): _sayable(each) for key, each in value.items()}
        case _:
            return value


def _call(call: Mapping[str, object]) -> Message:
    """Return a call by the id its result names: where the provider gave it two, the result has the second."""
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else {}
    arguments = inner.get("arguments", "")
    return {
        "id": str(call.get("call_id") or call.get("id") or ""),
        "type": "function",
        "function": {
            "name": str(inner.get("name") or ""),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(_to_json(arguments)),
        },
    }


def _to_json(value: object) -> object:
    return value if is_json(value) else json.loads(json.dumps(value, default=str))


def restore_joined_text(items: Sequence[Message], window: Sequence[Message]) -> list[Message]:
    """Return `items` with joined user messages spelt as in the window."""
    known = {_join_text(message): message["content"] for message in window if _is_user_text(message)}
    return [{**item, "content": known.get(_join_text(item), item["content"])} if _is_user_text(item) else item for item in items]


def _is_user_text(message: Message) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), str)


def _join_text(message: Message) -> str:
    return str(message["content"]).strip().replace(SEPARATOR, JOINT)


def split_joined_message(items: Sequence[Message], last: Message | None) -> list[Message]:
    """Return `items` with the last message of a window split from the text that the host joined to it.

    A compacted list may end with the user's request; the host then joins its task list to that message.
    """
    known = last.get("content") if last is not None and last.get("role") == "user" else None
    if not isinstance(known, str):
        return list(items)
    result: list[Message] = []
    for item in items:
        content = item.get("content")
        if item.get("role") == "user" and isinstance(content, str) and content.startswith(known.strip() + JOINT):
            rest = content.removeprefix(known.strip() + JOINT)
            result += [{"role": "user", "content": known.strip()}, {"role": "user", "content": rest}]
        else:
            result.append(item)
    return result


def make_host_messages(window: Sequence[Message], shown: Sequence[Message]) -> list[Message]:
    """Return a window as host messages: the host's own where they are in it, with all their keys."""
    own: defaultdict[str, list[Message]] = defaultdict(list)
    for message in shown:
        own[_key(make_item(message))].append(message)
    result: list[Message] = []
    # A window keeps the newest, so of two equal messages the later one is meant.
    for item in reversed(window):
        found = own[_key(item)]
        result.append(drop_stored_mark(found.pop()) if found else _mark_summary(item))
    return result[::-1]


def drop_stored_mark(message: Message) -> Message:
    """Return a message without the mark, so that the host stores it again."""
    return {name: value for name, value in message.items() if name != STORED}


def _mark_summary(item: Message) -> Message:
    content = item.get("content")
    is_state = item.get("role") == "user" and isinstance(content, str) and STATE_OPENING in content
    return {**item, SUMMARY: True} if is_state else dict(item)


def _key(item: Message) -> str:
    return json.dumps(make_item(item), sort_keys=True, default=str)


def measure_messages(messages: Sequence[Message]) -> int:
    """Return the size of messages in characters of JSON."""
    return sum(len(_key(message)) for message in messages)


def rough_tokens(messages: Sequence[Message]) -> int:
    """Return the host's own estimate."""
    return measure_messages(messages) // CHARACTERS_PER_TOKEN
