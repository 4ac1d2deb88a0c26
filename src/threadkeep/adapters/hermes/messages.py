"""Between the host's messages and chat items. Pure.

The host's messages carry keys of its own: markers that begin with an underscore, timestamps, what was sent instead of the content
(`api_content`), replayed thoughts. An item is what the model is told: role, content, calls. The same message read back from the
host's database has lost its outer white space and gained a timestamp, and must be the same item.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from threadkeep.dialects.base import STATE_OPENING
from threadkeep.items import is_json

Message = dict[str, Any]

# Set by the host on what it has stored; a message of a compacted list must be stored anew.
STORED: Final = "_db_persisted"
# How the host's own code recognises what a compaction wrote. It never reaches the wire.
SUMMARY: Final = "_compressed_summary"
# How the host joins two messages of the user, and how a window of ours does.
JOINT: Final = "\n\n"
SEPARATOR: Final = "\n\n---\n\n"
# The host's own estimate.
CHARACTERS_PER_TOKEN: Final = 4
INSTRUCTIONS: Final = ("system", "developer")


def messages_in(given: object) -> list[Message]:
    """Return the messages of whatever the host gave for a list of them; what is no message is left out."""
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list | tuple) else []


def count_in(given: object) -> int:
    """Return a figure of the host's, 0 where it is none."""
    try:
        return max(0, int(given)) if isinstance(given, int | float | str) else 0
    except (ValueError, OverflowError):
        return 0


def split_head(messages: Sequence[Message]) -> tuple[list[Message], list[Message]]:
    """Return the leading instructions, where the host shows them at all, and the history."""
    at = 0
    while at < len(messages) and messages[at].get("role") in INSTRUCTIONS:
        at += 1
    return list(messages[:at]), list(messages[at:])


def item_of(message: Message) -> Message:
    """Return what of a host's message is said to the model."""
    item: Message = {"role": message.get("role")}
    content = message.get("content")
    # Beside calls, the host's database does not tell an empty text from none.
    item["content"] = (content.strip() or None) if isinstance(content, str) else _json(content)
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


def _call(call: Mapping[str, Any]) -> Message:
    """Return a call by the id its result names: where the provider gave it two, the result has the second."""
    function = call.get("function")
    inner = function if isinstance(function, Mapping) else {}
    arguments = inner.get("arguments", "")
    return {
        "id": str(call.get("call_id") or call.get("id") or ""),
        "type": "function",
        "function": {
            "name": str(inner.get("name") or ""),
            "arguments": arguments if isinstance(arguments, str) else json.dumps(_json(arguments)),
        },
    }


def _json(value: object) -> object:
    return value if is_json(value) else json.loads(json.dumps(value, default=str))


def respelled(items: Sequence[Message], window: Sequence[Message]) -> list[Message]:
    """Return `items` with messages that the host joined in its own way spelt as the window has them."""
    known = {_joined(message): message["content"] for message in window if _is_text_of_user(message)}
    return [{**item, "content": known.get(_joined(item), item["content"])} if _is_text_of_user(item) else item for item in items]


def _is_text_of_user(message: Message) -> bool:
    return message.get("role") == "user" and isinstance(message.get("content"), str)


def _joined(message: Message) -> str:
    return str(message["content"]).strip().replace(SEPARATOR, JOINT)


def unjoined(items: Sequence[Message], last: Message | None) -> list[Message]:
    """Return `items` with the end of a window taken apart from what the host joined to it.

    A compacted list may end with the user's request; the host then appends its list of tasks, and makes both one message.
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


def host_messages(window: Sequence[Message], shown: Sequence[Message]) -> list[Message]:
    """Return a window as the host's messages: its own where they stand in it, with everything else they carry."""
    own: defaultdict[str, list[Message]] = defaultdict(list)
    for message in shown:
        own[_key(item_of(message))].append(message)
    result: list[Message] = []
    # What stays is the newest; of two messages that say the same the later one is meant.
    for item in reversed(window):
        found = own[_key(item)]
        result.append(unstored(found.pop()) if found else _written(item))
    return result[::-1]


def unstored(message: Message) -> Message:
    """Return a host's message such that the host stores it anew."""
    return {name: value for name, value in message.items() if name != STORED}


def _written(item: Message) -> Message:
    content = item.get("content")
    is_state = item.get("role") == "user" and isinstance(content, str) and STATE_OPENING in content
    return {**item, SUMMARY: True} if is_state else dict(item)


def _key(item: Message) -> str:
    return json.dumps(item_of(item), sort_keys=True, default=str)


def size_of(messages: Sequence[Message]) -> int:
    """Return how many characters messages take on the wire, as far as they can be compared."""
    return sum(len(_key(message)) for message in messages)


def rough_tokens(messages: Sequence[Message]) -> int:
    """Return what the host would estimate."""
    return size_of(messages) // CHARACTERS_PER_TOKEN


def faults_in(messages: Sequence[Message]) -> list[str]:
    """Return what strict servers would refuse in a history without its head; nothing, if it can be sent."""
    faults: list[str] = []
    if not messages or messages[0].get("role") != "user":
        faults.append("it does not begin with a message of the user")
    opened: set[str] = set()
    before = ""
    for message in messages:
        role = str(message.get("role"))
        if role == before == "user":
            faults.append("two messages of the user stand in a row")
        if role == "tool" and message.get("tool_call_id") not in opened:
            faults.append(f"the result of call {message.get('tool_call_id')} has no call")
        if role == "assistant":
            calls = message.get("tool_calls")
            opened = {each["id"] for each in item_of(message).get("tool_calls", ())} if isinstance(calls, list) else set()
        before = role
    return faults
