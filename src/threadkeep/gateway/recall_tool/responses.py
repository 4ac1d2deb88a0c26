"""The Responses API: output items one after another, each known by its index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from threadkeep.dialects.raw_json import read_object
from threadkeep.gateway.recall_tool.events import EventBlocks, event_of, named_event
from threadkeep.gateway.recall_tool.form import ABOUT, NAME, Calls, Json, RecallCall, added, bare, query_in
from threadkeep.items import Item
from threadkeep.recall.tool import PARAMETERS

OPENING = ("response.created", "response.in_progress", "response.queued")
TERMINAL = ("response.completed", "response.incomplete", "response.failed", "error")
CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "mcp_approval_request", "computer_call"})


class ResponsesForm:
    """See `Form`."""

    def definition(self) -> Json:
        return {"type": "function", "name": NAME, "description": ABOUT, "parameters": dict(PARAMETERS), "strict": False}

    def is_named(self, tool: Json, name: str) -> bool:
        return tool.get("name") == name

    def calls_in(self, items: Sequence[Item]) -> Calls:
        values = [read_object(item.raw) or {} for item in items]
        ours = tuple(_call(value) for value in values if _is_ours(value))
        return Calls(ours=ours, others=any(value.get("type") in CALLS and not _is_ours(value) for value in values))

    def outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        values = ({"type": "function_call_output", "call_id": name, "output": text} for name, text in outputs.items())
        return [Item(json.dumps(value, ensure_ascii=False).encode()) for value in values]

    def with_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        return None

    def said(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            if value.get("type", "message") == "message":
                content = value.get("content")
                parts = content if isinstance(content, list) else [{"text": content}]
                words.extend(str(part.get("text") or "") for part in parts if isinstance(part, dict))
            elif value.get("type") in CALLS and not _is_ours(value):
                words.append(f"\0{value.get('call_id')}\0")
        return bare("".join(words))

    def veil(self) -> ResponsesVeil:
        return ResponsesVeil()

    def merged(self, answers: Sequence[Json]) -> Json:
        *_, last = answers
        outputs = [answer.get("output") for answer in answers]
        shown = [item for output in outputs if isinstance(output, list) for item in output if not _is_ours(item)]
        return {**last, "id": answers[0].get("id", last.get("id")), "output": shown, "usage": _usage(answers)}


class ResponsesVeil:
    """See `Veil`."""

    def __init__(self) -> None:
        self._blocks = EventBlocks()
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
        return b"".join(self._take(raw, data) for raw, data in self._blocks.feed(chunk))

    def go_on(self) -> None:
        self._usages.extend(response for _, event in self._held if isinstance(response := event.get("response"), dict))
        self._held = []
        self._places = {}
        self._round += 1

    def end(self) -> bytes:
        return b"".join(self._closing(raw, event) for raw, event in self._held)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = event_of(data)
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
            ours = _is_ours(event.get("item"))
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
        return named_event(event) if changed else raw

    def _closing(self, raw: bytes, event: Json) -> bytes:
        response = event.get("response")
        if not isinstance(response, dict) or (self._round == 1 and not self._hid):
            return self._numbered(raw, event, changed=False)
        whole = {**response, "id": self._id or response.get("id"), "usage": _usage([*self._usages, response])}
        if isinstance(response.get("output"), list):
            whole["output"] = self._shown
        return self._numbered(raw, {**event, "response": whole}, changed=True)


def _is_ours(value: object) -> bool:
    return isinstance(value, dict) and value.get("type") == "function_call" and value.get("name") == NAME


def _call(value: Json) -> RecallCall:
    arguments = value.get("arguments")
    return RecallCall(
        call_id=str(value.get("call_id")),
        query=query_in(read_object(arguments.encode()) if isinstance(arguments, str) else None),
    )


def _usage(answers: Sequence[Json]) -> object:
    """Return what the last answer was shown, and what all of them wrote: that is how full the window is, and how much came."""
    usages = [usage for answer in answers if isinstance(usage := answer.get("usage"), dict)]
    if not usages:
        return answers[-1].get("usage")
    last = dict(usages[-1])
    for usage in usages[:-1]:
        last["output_tokens"] = added(last.get("output_tokens"), usage.get("output_tokens"))
    if len(usages) > 1 and "total_tokens" in last:
        last["total_tokens"] = added(last.get("input_tokens"), last.get("output_tokens"))
    return last
