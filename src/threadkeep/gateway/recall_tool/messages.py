"""Anthropic's Messages: one message of blocks, each known by its index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, split_list, split_object
from threadkeep.gateway.recall_tool.events import EventBlocks, event_of, named_event
from threadkeep.gateway.recall_tool.form import ABOUT, NAME, Calls, Json, RecallCall, added, bare, query_in
from threadkeep.items import Item
from threadkeep.recall.tool import PARAMETERS

ENDING = ("message_delta", "message_stop", "error")


class MessagesForm:
    """See `Form`."""

    def definition(self) -> Json:
        return {"name": NAME, "description": ABOUT, "input_schema": dict(PARAMETERS)}

    def is_named(self, tool: Json, name: str) -> bool:
        return tool.get("name") == name

    def calls_in(self, items: Sequence[Item]) -> Calls:
        blocks = [block for item in items for block in _blocks(read_object(item.raw) or {})]
        uses = [block for block in blocks if block.get("type") == "tool_use"]
        ours = tuple(
            RecallCall(call_id=str(use.get("id")), query=query_in(use.get("input"))) for use in uses if use.get("name") == NAME
        )
        return Calls(ours=ours, others=any(use.get("name") != NAME for use in uses))

    def outputs(self, outputs: Mapping[str, str]) -> list[Item]:
        blocks = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in outputs.items()]
        return [Item(json.dumps({"role": "user", "content": blocks}, ensure_ascii=False).encode())] if blocks else []

    def with_outputs(self, item: Item, outputs: Sequence[Item]) -> Item | None:
        """Every result of one message stands in the one message behind it."""
        fields = split_object(item.raw) or {}
        content = fields.get("content", b"[]")
        own = split_list(content)
        blocks = own if own is not None else [make_text_part(content)]
        ours = [block for output in outputs for block in split_list((split_object(output.raw) or {})["content"]) or ()]
        return Item(join_object({**fields, "content": join_list([*ours, *blocks])}))

    def said(self, items: Sequence[Item]) -> str:
        words: list[str] = []
        for value in (read_object(item.raw) or {} for item in items):
            content = value.get("content")
            for block in [{"type": "text", "text": content}] if isinstance(content, str) else _blocks(value):
                if block.get("type") == "text":
                    words.append(str(block.get("text") or ""))
                elif block.get("type") == "tool_use" and block.get("name") != NAME:
                    words.append(f"\0{block.get('id')}\0")
        return bare("".join(words))

    def veil(self) -> MessagesVeil:
        return MessagesVeil()

    def merged(self, answers: Sequence[Json]) -> Json:
        shown = [block for answer in answers for block in _blocks(answer) if not _is_ours(block)]
        last = answers[-1]
        usage = _usage([answer.get("usage") for answer in answers])
        whole = {**last, "id": answers[0].get("id", last.get("id")), "content": shown, "usage": usage}
        if last.get("stop_reason") == "tool_use" and not any(block.get("type") == "tool_use" for block in shown):
            whole["stop_reason"] = "end_turn"
        return whole


class MessagesVeil:
    """See `Veil`."""

    def __init__(self) -> None:
        self._blocks = EventBlocks()
        self._round = 1
        self._places: dict[int, int | None] = {}
        self._next_place = 0
        self._calls = False
        self._hid = False
        self._held: list[tuple[bytes, Json]] = []
        self._usages: list[object] = []

    def feed(self, chunk: bytes) -> bytes:
        return b"".join(self._take(raw, data) for raw, data in self._blocks.feed(chunk))

    def go_on(self) -> None:
        self._usages.extend(event.get("usage") for _, event in self._held)
        self._held, self._places = [], {}
        self._round += 1

    def end(self) -> bytes:
        return b"".join(self._closing(raw, event) for raw, event in self._held)

    def _take(self, raw: bytes, data: bytes) -> bytes:
        event = event_of(data)
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
            ours = _is_ours(block)
            self._hid = self._hid or ours
            self._calls = self._calls or (not ours and isinstance(block, dict) and block.get("type") == "tool_use")
            self._places[place] = None if ours else self._next_place
            self._next_place += 0 if ours else 1
        shown = self._places[place]
        if shown is None:
            return b""
        return raw if shown == place else named_event({**event, "index": shown})

    def _closing(self, raw: bytes, event: Json) -> bytes:
        delta = event.get("delta")
        if event.get("type") != "message_delta" or not isinstance(delta, dict) or not self._hid:
            return raw
        if delta.get("stop_reason") == "tool_use" and not self._calls:
            delta = {**delta, "stop_reason": "end_turn"}
        return named_event({**event, "delta": delta, "usage": _usage([*self._usages, event.get("usage")])})


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _is_ours(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_use" and block.get("name") == NAME


def _usage(usages: Sequence[object]) -> object:
    """Return what the last answer was shown, and what all of them wrote."""
    known = [usage for usage in usages if isinstance(usage, dict)]
    if not known:
        return None
    last = dict(known[-1])
    for usage in known[:-1]:
        last["output_tokens"] = added(last.get("output_tokens"), usage.get("output_tokens"))
    return last
