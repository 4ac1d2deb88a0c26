"""Asking a model through the Responses API: this module is the dialect's `ModelCalls`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.content_parts import read_speech_parts
from threadkeep.dialects.raw_json import Fields, read_item, read_object
from threadkeep.dialects.request_parts import forbid_tool_choice
from threadkeep.dialects.values import Delta, Request, Speech
from threadkeep.items import Item

streams_items: Final = True

BOUND: Final = "max_output_tokens"
# What an event of each type says, and whether it is a thought.
WORDS: Final = {
    "response.output_text.delta": False,
    "response.refusal.delta": False,
    "response.reasoning_summary_text.delta": True,
    "response.reasoning_text.delta": True,
}

forbid_tools = forbid_tool_choice


def address_request(request: Request, *, model: str) -> Request:
    return replace(request, fields={**request.fields, "model": msgspec.json.encode(model), "stream": b"true"})


def limit_answer(request: Request, *, tokens: int) -> Request:
    return replace(request, fields={BOUND: str(tokens).encode(), **request.fields})


def mark_cache_end(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(items)


def read_delta(event: Fields) -> Delta | None:
    kind = event.text("type") or ""
    text = event.text("delta") if kind in WORDS else None
    return Delta(text=text, is_thought=WORDS[kind]) if text else None


def read_finished_item(event: Fields) -> Item | None:
    return read_item(event.span("item")) if event.text("type") == "response.output_item.done" else None


def read_stop_reason(event: Fields) -> str | None:
    return (event.object("response") or event).inner("incomplete_details").text("reason")


def read_speech(item: Item) -> Speech:
    fields = read_object(item.raw) or {}
    return read_speech_parts(fields) if fields.get("type", "message") == "message" else Speech(text="")
