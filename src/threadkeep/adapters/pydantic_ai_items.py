"""Pydantic AI messages as items of the `chat` dialect, and back.

Messages are written down by the library's own serialiser. A part of a request is one item, a response is one; what they say and
call stands where every chat message has it, and all else beside it under `pydantic_ai`. What the library still changes about a
message after it was sent, when it was, in which run, is beside the item (`status`) and no part of what it is known by.
Instructions go out with each request and are no part of the history.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelRequest, ModelRequestPart, ModelResponse

from threadkeep.dialects import CHAT

DIALECT: Final = CHAT.name
OWN: Final = "pydantic_ai"
BESIDE: Final = "status"
# When parts were made that no host made: one with this time is threadkeep's own, handed back.
MADE_HERE: Final = "1970-01-01T00:00:00Z"
PROMPTS: Final = {"user-prompt": "user", "system-prompt": "system"}

Json = dict[str, Any]


def items_of(messages: Sequence[ModelMessage]) -> list[Json]:
    """Return a history as items. What JSON cannot say, such as a tool's metadata, is there as its `repr`."""
    return [item for items in _items_by_message(messages) for item in items]


def messages_of(window: Sequence[Json], shown: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Return a window as messages: the very objects the host showed where they are in it."""
    places: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for number, items in enumerate(_items_by_message(shown)):
        for at, item in enumerate(items):
            places[CHAT.canonical(CHAT.parse(item))].append((number, at))
    building = _Building()
    # Of several that say the same, the window holds the newest.
    found = [(item, known.pop() if (known := places[CHAT.canonical(CHAT.parse(item))]) else None) for item in reversed(window)]
    for item, place in reversed(found):
        message = shown[place[0]] if place is not None else None
        if place is None or message is None:
            building.add_made(item)
        elif isinstance(message, ModelRequest):
            building.add_part(message.parts[place[1]], of=message)
        else:
            building.add_response(message)
    return building.finished()


class _Building:
    """Messages on their way back: parts of one request stay together, and what threadkeep made joins its neighbours."""

    def __init__(self) -> None:
        self._messages: list[ModelMessage] = []
        self._parts: list[ModelRequestPart] = []
        self._of: ModelRequest | None = None

    def add_part(self, part: ModelRequestPart, *, of: ModelRequest | None) -> None:
        if of is not None and self._of is not None and of is not self._of:
            self._close()
        self._parts.append(part)
        self._of = of or self._of

    def add_response(self, message: ModelResponse) -> None:
        self._close()
        self._messages.append(message)

    def add_made(self, item: Json) -> None:
        [message] = ModelMessagesTypeAdapter.validate_python([_message(item)])
        if isinstance(message, ModelRequest):
            self.add_part(message.parts[0], of=None)
        else:
            self.add_response(message)

    def finished(self) -> list[ModelMessage]:
        self._close()
        return self._messages

    def _close(self) -> None:
        if self._of is not None and [id(part) for part in self._of.parts] == [id(part) for part in self._parts]:
            self._messages.append(self._of)
        elif self._parts:
            made = ModelRequest(parts=self._parts) if self._of is None else replace(self._of, parts=self._parts)
            self._messages.append(made)
        self._parts, self._of = [], None


def _items_by_message(messages: Sequence[ModelMessage]) -> Iterator[list[Json]]:
    for message in ModelMessagesTypeAdapter.dump_python(list(messages), mode="json", fallback=repr):
        beside = {name: value for name, value in message.items() if name not in ("parts", "instructions") and value is not None}
        items = (
            [_request_item(part) for part in message["parts"]]
            if message["kind"] == "request"
            else [_response_item(message["parts"])]
        )
        yield [{**item, BESIDE: beside} if OWN in item else item for item in items]


def _request_item(part: Json) -> Json:
    kind = part["part_kind"]
    rest = {name: value for name, value in part.items() if name not in ("content", "tool_call_id")}
    content: Any = part.get("content")
    if kind in PROMPTS:
        item: Json = {"role": PROMPTS[kind], "content": _parts(content) if isinstance(content, list) else content}
    elif part.get("tool_name") and part.get("tool_call_id"):
        said = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        item = {"role": "tool", "tool_call_id": part["tool_call_id"], "content": said}
        rest |= {} if isinstance(content, str) else {"is_json": True}
    else:
        item, rest = {"role": "system", "content": ""}, part
    return item if part.get("timestamp") == MADE_HERE else {**item, OWN: rest}


def _response_item(parts: Sequence[Json]) -> Json:
    content: list[Json] = []
    calls: list[Json] = []
    rests: list[Json] = []
    for part in parts:
        rest = dict(part)
        match part["part_kind"]:
            case "text":
                content.append({"type": "text", "text": rest.pop("content")})
            case "thinking":
                content.append({"type": "thinking", "thinking": rest.pop("content")})
            case "tool-call":
                args = rest.pop("args")
                rest |= {} if isinstance(args, str) else {"is_json": True}
                called = {"name": rest.pop("tool_name"), "arguments": args if isinstance(args, str) else json.dumps(args)}
                calls.append({"id": rest.pop("tool_call_id"), "type": "function", "function": called})
            case _:
                content.append({"type": part["part_kind"]})
        rests.append(rest)
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {}), OWN: rests}


def _message(item: Json) -> Json:
    """Return the library's own form of an item: a response, or a request with one part."""
    beside = item.get(BESIDE) or {}
    if item["role"] != "assistant":
        return {**beside, "kind": "request", "parts": [_part(item)]}
    content, calls = iter(item["content"]), iter(item.get("tool_calls", ()))
    return {**beside, "kind": "response", "parts": [_response_part(dict(rest), content, calls) for rest in item[OWN]]}


def _part(item: Json) -> Json:
    rest = dict(item.get(OWN) or {"timestamp": MADE_HERE})
    if item["role"] == "system" and rest.get("part_kind") not in (None, "system-prompt"):
        return rest
    content: Any = item["content"]
    if item["role"] == "tool":
        content = json.loads(content) if rest.pop("is_json", False) and not _is_stub(content) else content
        return {
            "part_kind": "tool-return",
            "tool_name": "unknown",
            **rest,
            "tool_call_id": item["tool_call_id"],
            "content": content,
        }
    kind = "system-prompt" if item["role"] == "system" else "user-prompt"
    return {"part_kind": kind, **rest, "content": _said(content) if isinstance(content, list) else content}


def _is_stub(content: str) -> bool:
    """Whether what was JSON gave way to a line of text."""
    try:
        json.loads(content)
    except ValueError:
        return True
    return False


def _response_part(rest: Json, content: Iterator[Json], calls: Iterator[Json]) -> Json:
    match rest["part_kind"]:
        case "text":
            return {**rest, "content": next(content)["text"]}
        case "thinking":
            return {**rest, "content": next(content)["thinking"]}
        case "tool-call":
            call = next(calls)
            arguments = call["function"]["arguments"]
            args = json.loads(arguments) if rest.pop("is_json", False) else arguments
            return {**rest, "tool_name": call["function"]["name"], "args": args, "tool_call_id": call["id"]}
        case _:
            next(content)
            return rest


def _parts(content: Sequence[str | Json]) -> list[Json]:
    return [{"type": "text", "text": each} if isinstance(each, str) else {"type": each["kind"], OWN: each} for each in content]


def _said(content: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [each[OWN] if OWN in each else each["text"] for each in content]
