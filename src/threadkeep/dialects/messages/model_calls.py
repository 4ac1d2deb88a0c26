"""Asking a model through the Messages API: this module is the dialect's `ModelCalls`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.content_parts import read_speech_parts
from threadkeep.dialects.messages.markers import set_marker
from threadkeep.dialects.raw_json import Fields, read_object
from threadkeep.dialects.values import Delta, Request, Speech
from threadkeep.items import Item

streams_items: Final = False

# The API answers no request without a bound. Every current model can write this much, and no state needs more.
DEFAULT_MAX_TOKENS: Final = 8192
WORDS: Final = {"text_delta": ("text", False), "thinking_delta": ("thinking", True)}


def address_request(request: Request, *, model: str) -> Request:
    fields = {"max_tokens": str(DEFAULT_MAX_TOKENS).encode(), **request.fields}
    return replace(request, fields={**fields, "model": msgspec.json.encode(model), "stream": b"true"})


def limit_answer(request: Request, *, tokens: int) -> Request:
    return replace(request, fields={"max_tokens": str(tokens).encode(), **request.fields})


def forbid_tools(request: Request) -> Request:
    # Another `tool_choice` would cost the prompt cache; the instruction alone forbids tools.
    return request


def mark_cache_end(items: Sequence[Item]) -> tuple[Item, ...]:
    return (*items[:-1], set_marker(items[-1])) if items else ()


def read_delta(event: Fields) -> Delta | None:
    delta = event.inner("delta")
    name, is_thought = WORDS.get(delta.text("type") or "", ("", False))
    return Delta(text=text, is_thought=is_thought) if name and (text := delta.text(name)) else None


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    return event.inner("delta").text("stop_reason") or event.text("stop_reason")


def read_speech(item: Item) -> Speech:
    return read_speech_parts(read_object(item.raw) or {})
