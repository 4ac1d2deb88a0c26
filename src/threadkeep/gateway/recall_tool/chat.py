"""Chat Completions: one message, its text in pieces, its calls by index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import read_object
from threadkeep.gateway.recall_tool.events import EventBlocks, data_event, event_of
from threadkeep.gateway.recall_tool.form import ABOUT, APART, NAME, Calls, Json, RecallCall, added, bare, query_in
from threadkeep.items import Item
from threadkeep.recall.tool import PARAMETERS

DONE = b"[DONE]"


class ChatForm:
    """See `Form`."""

    def definition(self) -> Json:
        return {"type": "function", "function": {"name": NAME, "description": ABOUT, "parameters": dict(PARAMETERS)}}

    def is_named(self, tool: Json, name: str) -> bool:
        function = tool.get("function")
        return isinstance(function, dict) and function.get("name") == name

    def calls_in(self, items: Sequence[Item]) -> Calls:
        calls = [call for item in items for call in _calls(read_object(item.raw) or {})]
        ours = tuple(_call(call) for call in calls if _is_ours(call))
        return Calls(ours=ours, others=any(not _is_ours(call) for call in calls))

    def outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        values = ({"role": "tool", "tool_call_id": name, "content": text} for name, text in outputs.items())
        return [Item(json.dumps(value, ensure_ascii=False).encode()) for value in values]

    def with_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        return None

    def said(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            content = value.get("content")
            parts = content if isinstance(content, list) else [{"text": content}]
            words.extend(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            words.extend(f"\0{call.get('id')}\0" for call in _calls(value) if not _is_ours(call))
        return bare("".join(words))

    def veil(self) -> ChatVeil:
        return ChatVeil()

    def merged(self, answers: Sequence[Json]) -> Json:
        messages = [_message(answer) for answer in answers]
        texts = [text for message in messages if isinstance(text := message.get("content"), str) and text]
        message = {**messages[-1], "content": APART.join(texts) if texts else messages[-1].get("content")}
        message.pop("tool_calls", None)
        calls = [call for call in _calls(messages[-1]) if not _is_ours(call)]
        if calls:
            message["tool_calls"] = calls
        last = answers[-1]
        choice = {**last["choices"][0], "message": message}
        if choice.get("finish_reason") == "tool_calls" and not calls:
            choice["finish_reason"] = "stop"
        usage = _usage([answer.get("usage") for answer in answers])
        return {**last, "id": answers[0].get("id", last.get("id")), "choices": [choice], "usage": usage}


class ChatVeil:
    """See `Veil`."""

    def __init__(self) -> None:
        self._blocks = EventBlocks()
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
        return b"".join(self._take(raw, data) for raw, data in self._blocks.feed(chunk))

    def go_on(self) -> None:
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
        ending = b"" if finish is None else data_event(self._signed(finish))
        return ending + b"".join(raw if event is None else self._counted(raw, event) for raw, event in self._rest)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = None if data.strip() == DONE else event_of(data)
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
        return data_event(self._signed({**event, "choices": [{**choice, "delta": shown, "finish_reason": None}]}))

    def _delta(self, delta: Json) -> Json:
        """Return what the client gets of a piece: no call of ours, one role, and a gap between what two answers say."""
        shown = dict(delta)
        if self._round > 1:
            shown.pop("role", None)
        text = shown.get("content")
        if isinstance(text, str) and text:
            shown["content"] = text if self._parted else f"{APART}{text}"
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
            ours = _is_ours(call)
            self._hid = self._hid or ours
            self._places[place] = None if ours else sum(1 for known in self._places.values() if known is not None)
        shown = self._places[place]
        return None if shown is None else {**call, "index": shown}

    def _signed(self, event: Json) -> Json:
        return event if self._round == 1 else {**event, "id": self._id}

    def _counted(self, raw: bytes, event: Json) -> bytes:
        if self._round == 1:
            return raw
        return data_event({**self._signed(event), "usage": _usage([*self._usages, event.get("usage")])})


def _calls(message: Json) -> list[Json]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _message(answer: Json) -> Json:
    choices = answer.get("choices")
    message: Any = choices[0].get("message") if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
    return message if isinstance(message, dict) else {}


def _is_ours(call: Json) -> bool:
    function = call.get("function")
    return isinstance(function, dict) and function.get("name") == NAME


def _call(call: Json) -> RecallCall:
    arguments = call["function"].get("arguments")
    return RecallCall(
        call_id=str(call.get("id")), query=query_in(read_object(arguments.encode()) if isinstance(arguments, str) else None)
    )


def _usage(usages: Sequence[object]) -> object:
    """Return what the last answer was shown, and what all of them wrote."""
    known = [usage for usage in usages if isinstance(usage, dict)]
    if not known:
        return None
    last = dict(known[-1])
    for usage in known[:-1]:
        last["completion_tokens"] = added(last.get("completion_tokens"), usage.get("completion_tokens"))
    if len(known) > 1 and "total_tokens" in last:
        last["total_tokens"] = added(last.get("prompt_tokens"), last.get("completion_tokens"))
    return last
