"""Anthropic's Messages: one message of blocks, each known by its index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, split_list, split_object
from threadkeep.dialects.values import HiddenCalls
from threadkeep.items import Item

ENDING = ("message_delta", "message_stop", "error")


class MessagesHiddenTool(HiddenToolForm):
    """See `threadkeep.dialects.api.HiddenTool`."""

    def _define(self) -> Json:
        tool = self._tool
        return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}

    def find_calls(self, items: Sequence[Item]) -> HiddenCalls:
        blocks = [block for item in items for block in _blocks(read_object(item.raw) or {})]
        calls = [block for block in blocks if block.get("type") == "tool_use"]
        ours = tuple((str(call.get("id")), call.get("input")) for call in calls if call.get("name") == self._tool.name)
        return HiddenCalls(calls=ours, has_others=len(ours) < len(calls))

    def make_outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        blocks = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in outputs.items()]
        return [make_item({"role": "user", "content": blocks})] if blocks else []

    def join_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """All results of one message stand in the one message behind it."""
        fields = split_object(item.raw) or {}
        content = fields.get("content", b"[]")
        own = split_list(content)
        blocks = own if own is not None else [make_text_part(content)]
        ours = [block for output in outputs for block in split_list((split_object(output.raw) or {})["content"]) or ()]
        return Item(join_object({**fields, "content": join_list([*ours, *blocks])}))

    def spoken_text(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            content = value.get("content")
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else _blocks(value):
                if block.get("type") == "text":
                    words.append(str(block.get("text") or ""))
                elif block.get("type") == "tool_use" and block.get("name") != self._tool.name:
                    words.append(f"\0{block.get('id')}\0")
        return squeeze("".join(words))

    def make_filter(self) -> MessagesAnswerFilter:
        return MessagesAnswerFilter(self._tool.name)

    def merge_answers(self, answers: Sequence[Json]) -> Json:
        shown = [block for answer in answers for block in _blocks(answer) if not _is_call_of(block, self._tool.name)]
        last = answers[-1]
        usage = sum_usage([answer.get("usage") for answer in answers], written="output_tokens")
        whole = {**last, "id": answers[0].get("id", last.get("id")), "content": shown, "usage": usage}
        if last.get("stop_reason") == "tool_use" and not any(block.get("type") == "tool_use" for block in shown):
            whole["stop_reason"] = "end_turn"
        return whole


class MessagesAnswerFilter:
    """See `threadkeep.dialects.api.AnswerFilter`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._events = EventSplitter()
        self._round = 1
        self._places: dict[int, int | None] = {}
        self._next_place = 0
        self._calls = False
        self._hid = False
        self._held: list[tuple[bytes, Json]] = []
        self._usages: list[object] = []

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._take(raw, data) for raw, data in self._events.feed(chunk))

    def start_next(self) -> None:
        self._usages.extend(event.get("usage") for _, event in self._held)
        self._held, self._places = [], {}
        self._round += 1

    def end(self) -> bytes:
        return b"".join(self._closing(raw, event) for raw, event in self._held)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = read_event(data)
        kind = event.get("type") if event is not None else None
        if event is None or (kind == "message_start" and self._round > 1):
            return raw if self._round == 1 else b""
        if kind in ENDING:
            self._held.append((raw, event))
            return b""
        place = event.get("index")
        return raw if not isinstance(place, int) else self._placed(raw, event, place)

    def _placed(self, raw: bytes, event: Json, place: int) -> bytes:
        block = event.get("content_block")
        if place not in self._places:
            ours = _is_call_of(block, self._name)
            self._hid = self._hid or ours
            self._calls = self._calls or (not ours and isinstance(block, dict) and block.get("type") == "tool_use")
            self._places[place] = None if ours else self._next_place
            self._next_place += 0 if ours else 1
        shown = self._places[place]
        if shown is None:
            return b""
        return raw if shown == place else render_typed_event({**event, "index": shown})

    def _closing(self, raw: bytes, event: Json) -> bytes:
        delta = event.get("delta")
        if event.get("type") != "message_delta" or not isinstance(delta, dict) or not self._hid:
            return raw
        if delta.get("stop_reason") == "tool_use" and not self._calls:
            delta = {**delta, "stop_reason": "end_turn"}
        return render_typed_event(
            {**event, "delta": delta, "usage": sum_usage([*self._usages, event.get("usage")], written="output_tokens")}
        )


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _is_call_of(block: object, name: str) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") == name
