"""Chat Completions: one message, its text in pieces, its calls by index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.hidden_tool import (
    SEPARATOR,
    EventSplitter,
    HiddenToolForm,
    Json,
    make_item,
    read_event,
    render_event,
    squeeze,
    sum_usage,
)
from threadkeep.dialects.raw_json import read_object
from threadkeep.dialects.values import HiddenCalls
from threadkeep.items import Item

DONE = b"[DONE]"


class ChatHiddenTool(HiddenToolForm):
    """See `threadkeep.dialects.api.HiddenTool`."""

    def _define(self) -> Json:
        tool = self._tool
        function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
        return {"type": "function", "function": function}

    def _find_name(self, tool: Json) -> object:
        return _name_of(tool)

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        calls = [call for item in items for call in _calls(read_object(item.raw) or {})]
        ours = tuple((str(call.get("id")), _arguments(call)) for call in calls if _name_of(call) == self._tool.name)
        return HiddenCalls(calls=ours, has_others=len(ours) < len(calls))

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        return [make_item({"role": "tool", "tool_call_id": name, "content": text}) for name, text in outputs.items()]

    def spoken_text(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            content = value.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            words.extend(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            words.extend(f"\0{call.get('id')}\0" for call in self._other_calls(value))
        return squeeze("".join(words))

    def make_filter(self) -> ChatAnswerFilter:
        return ChatAnswerFilter(self._tool.name)

    def merge_answers(self, answers: Sequence[Json]) -> Json:
        messages = [_message(answer) for answer in answers]
        texts = [text for message in messages if isinstance(text := message.get("content"), str) and text]
        message = {**messages[-1], "content": SEPARATOR.join(texts) if texts else messages[-1].get("content")}
        message.pop("tool_calls", None)
        calls = self._other_calls(messages[-1])
        if calls:
            message["tool_calls"] = calls
        last = answers[-1]
        choice = {**last["choices"][0], "message": message}
        if choice.get("finish_reason") == "tool_calls" and not calls:
            choice["finish_reason"] = "stop"
        usage = _sum_usage([answer.get("usage") for answer in answers])
        return {**last, "id": answers[0].get("id", last.get("id")), "choices": [choice], "usage": usage}

    def _other_calls(self, message: Json) -> list[Json]:
        return [call for call in _calls(message) if _name_of(call) != self._tool.name]


class ChatAnswerFilter:
    """See `threadkeep.dialects.api.AnswerFilter`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._events = EventSplitter()
        self._round = 1
        self._id: object = None
        self._places: dict[int, int | None] = {}
        self._spoke = False
        self._parted = True
        self._hid = False
        self._finish: Json | None = None
        self._rest: list[tuple[bytes, Json | None]] = []
        self._usages: list[object] = []

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._take(raw, data) for raw, data in self._events.feed(chunk))

    def start_next(self) -> None:
        self._usages.extend(event.get("usage") for _, event in self._rest if event is not None)
        self._finish, self._rest, self._places = None, [], {}
        self._parted = not self._spoke
        self._round += 1

    def end(self) -> bytes:
        finish = self._finish
        if finish is not None and not any(place is not None for place in self._places.values()):
            choice = finish["choices"][0]
            if choice.get("finish_reason") == "tool_calls" and self._hid:
                finish = {**finish, "choices": [{**choice, "finish_reason": "stop"}]}
        ending = b"" if finish is None else render_event(self._signed(finish))
        return ending + b"".join(raw if event is None else self._counted(raw, event) for raw, event in self._rest)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = None if data.strip() == DONE else read_event(data)
        choices = event.get("choices") if event is not None else None
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if event is None or choice is None:
            # Usage, or the mark of the end: neither is for the client before it is known that nothing more comes.
            self._rest.append((raw, event))
            return b""
        if self._round == 1 and self._id is None:
            self._id = event.get("id")
        return self._piece(raw, event, choice)

    def _piece(self, raw: bytes, event: Json, choice: Json) -> bytes:
        delta = choice.get("delta")
        before = delta if isinstance(delta, dict) else {}
        shown = self._delta(before)
        finished = choice.get("finish_reason") is not None
        if finished:
            self._finish = {**event, "choices": [{**choice, "delta": {}}]}
        if shown == before and not finished and self._round == 1:
            return raw
        if not shown:
            return b""
        return render_event(self._signed({**event, "choices": [{**choice, "delta": shown, "finish_reason": None}]}))

    def _delta(self, delta: Json) -> Json:
        """Return what the client gets of a piece: no call of ours, one role, and a gap between what two answers say."""
        shown = dict(delta)
        if self._round > 1:
            shown.pop("role", None)
        text = shown.get("content")
        if isinstance(text, str) and text:
            shown["content"] = text if self._parted else f"{SEPARATOR}{text}"
            self._spoke = self._parted = True
        elif self._round > 1:
            shown.pop("content", None)
        calls = [self._place(call) for call in _calls(delta)]
        if "tool_calls" in shown:
            shown["tool_calls"] = [call for call in calls if call is not None]
            if not shown["tool_calls"]:
                del shown["tool_calls"]
                if set(shown) <= {"role", "content"} and not shown.get("content") and self._round > 1:
                    return {}
        return shown

    def _place(self, call: Json) -> Json | None:
        index = call.get("index")
        place = index if isinstance(index, int) else 0
        if place not in self._places:
            ours = _name_of(call) == self._name
            self._hid = self._hid or ours
            self._places[place] = None if ours else sum(1 for known in self._places.values() if known is not None)
        shown = self._places[place]
        return None if shown is None else {**call, "index": shown}

    def _signed(self, event: Json) -> Json:
        return event if self._round == 1 else {**event, "id": self._id}

    def _counted(self, raw: bytes, event: Json) -> bytes:
        if self._round == 1:
            return raw
        return render_event({**self._signed(event), "usage": _sum_usage([*self._usages, event.get("usage")])})


def _calls(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _message(answer: Json) -> Json:
    choices = answer.get("choices")
    message: Any = choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return message if isinstance(message, dict) else {}


def _name_of(call: Json) -> object:
    function = call.get("function")
    return function.get("name") if isinstance(function, dict) else None


def _arguments(call: Json) -> object:
    arguments = call["function"].get("arguments")
    return read_object(arguments.encode()) if isinstance(arguments, str) else None


def _sum_usage(usages: Sequence[object]) -> object:
    return sum_usage(usages, written="completion_tokens", read="prompt_tokens")
