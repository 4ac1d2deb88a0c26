"""The recall tool in the Responses API: its calls are hidden from the client, and output items are numbered anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.hidden_tool import (
    EventSplitter,
    HiddenToolForm,
    Json,
    make_item,
    read_event,
    render_typed_event,
    squeeze,
    sum_usage,
)
from threadkeep.dialects.raw_json import read_object, split_object
from threadkeep.dialects.values import HiddenCalls
from threadkeep.items import Item

OPENING = ("response.created", "response.in_progress", "response.queued")
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "mcp_approval_request", "computer_call"})


class ResponsesHiddenTool(HiddenToolForm):
    """See `threadkeep.dialects.api.HiddenTool`."""

    def _define(self) -> Json:
        tool = self._tool
        parameters = dict(tool.parameters)
        return {"type": "function", "name": tool.name, "description": tool.description, "parameters": parameters, "strict": False}

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        values = [read_object(item.raw) or {} for item in items]
        calls = [value for value in values if value.get("type") in CALLS]
        ours = tuple((str(call.get("call_id")), _arguments(call)) for call in calls if _is_call_of(call, self._tool.name))
        return HiddenCalls(calls=ours, has_others=len(ours) < len(calls))

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        return [make_item({"type": "function_call_output", "call_id": name, "output": text}) for name, text in outputs.items()]

    def sealed_reasoning(self, item: Item) -> bytes | None:
        if b'"reasoning"' not in item.raw:
            return None
        return (split_object(item.raw) or {}).get("encrypted_content")

    def spoken_text(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            if value.get("type", "message") == "message":
                content = value.get("content")
                parts = content if isinstance(content, list) else [{"text": content}]
                words.extend(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            elif value.get("type") in CALLS and not _is_call_of(value, self._tool.name):
                words.append(f"\0{value.get('call_id')}\0")
        return squeeze("".join(words))

    def make_filter(self) -> ResponsesAnswerFilter:
        return ResponsesAnswerFilter(self._tool.name)

    def merge_answers(self, answers: Sequence[Json]) -> Json:
        *_, last = answers
        outputs = [answer.get("output") for answer in answers]
        items = [item for output in outputs if isinstance(output, list) for item in output]
        shown = [item for item in items if not _is_call_of(item, self._tool.name)]
        return {**last, "id": answers[0].get("id", last.get("id")), "output": shown, "usage": _sum_usage(answers)}


class ResponsesAnswerFilter:
    """See `threadkeep.dialects.api.AnswerFilter`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._events = EventSplitter()
        self._round = 1
        self._places: dict[int, int | None] = {}
        self._next_place = 0
        self._next_number: int | None = None
        self._shown: list[Any] = []
        self._id: object = None
        self._held: list[tuple[bytes, Json]] = []
        self._usages: list[Json] = []
        self._hid = False

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._take(raw, data) for raw, data in self._events.feed(chunk))

    def start_next(self) -> None:
        self._usages.extend(response for _, event in self._held if isinstance(response := event.get("response"), dict))
        self._held = []
        self._places = {}
        self._round += 1

    def end(self) -> bytes:
        return b"".join(self._closing(raw, event) for raw, event in self._held)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = read_event(data)
        if event is None:
            return raw if self._round == 1 else b""
        kind = event.get("type")
        if kind in TERMINAL:
            self._held.append((raw, event))
            return b""
        if kind in OPENING:
            if self._round > 1:
                return b""
            self._id = (event.get("response") or {}).get("id") if isinstance(event.get("response"), dict) else None
            return self._numbered(raw, event, changed=False)
        place = event.get("output_index")
        if not isinstance(place, int):
            return self._numbered(raw, event, changed=False)
        return self._placed(raw, event, place)

    def _placed(self, raw: bytes, event: Json, place: int) -> bytes:
        if place not in self._places:
            ours = _is_call_of(event.get("item"), self._name)
            self._hid = self._hid or ours
            self._places[place] = None if ours else self._next_place
            self._next_place += 0 if ours else 1
        shown = self._places[place]
        if shown is None:
            return b""
        if event.get("type") == "response.output_item.done":
            self._shown.append(event.get("item"))
        return self._numbered(raw, {**event, "output_index": shown}, changed=shown != place)

    def _numbered(self, raw: bytes, event: Json, *, changed: bool) -> bytes:
        """Return an event with the number it has among those the client gets; as it came, where nothing changed."""
        number = event.get("sequence_number")
        if isinstance(number, int):
            own = number if self._next_number is None else self._next_number
            self._next_number = own + 1
            changed = changed or own != number
            event = {**event, "sequence_number": own}
        return render_typed_event(event) if changed else raw

    def _closing(self, raw: bytes, event: Json) -> bytes:
        response = event.get("response")
        if not isinstance(response, dict) or (self._round == 1 and not self._hid):
            return self._numbered(raw, event, changed=False)
        whole = {**response, "id": self._id or response.get("id"), "usage": _sum_usage([*self._usages, response])}
        if isinstance(response.get("output"), list):
            whole["output"] = self._shown
        return self._numbered(raw, {**event, "response": whole}, changed=True)


def _is_call_of(value: object, name: str) -> bool:
    return isinstance(value, dict) and value.get("type") == "function_call" and value.get("name") == name


def _arguments(call: Json) -> object:
    arguments = call.get("arguments")
    return read_object(arguments.encode()) if isinstance(arguments, str) else None


def _sum_usage(answers: Sequence[Json]) -> object:
    return sum_usage([answer.get("usage") for answer in answers], written="output_tokens", read="input_tokens")
