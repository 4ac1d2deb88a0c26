"""Asking a model through Chat Completions: this module is the dialect's `ModelCalls`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from threadkeep.dialects.content_parts import read_speech_parts
from threadkeep.dialects.raw_json import Fields, read_fields, read_object
from threadkeep.dialects.request_parts import forbid_tool_choice
from threadkeep.dialects.values import Delta, Request, Speech
from threadkeep.items import Item

streams_items: Final = False

# Servers have several names for the bound of an answer; all know the first.
BOUNDS: Final = ("max_tokens", "max_completion_tokens", "max_output_tokens")
# Where servers put what the model says and thinks; the first that is there counts.
WORDS: Final = (("content", False), ("refusal", False), ("reasoning_content", True), ("reasoning", True))

forbid_tools = forbid_tool_choice


def address_request(request: Request, *, model: str) -> Request:
    # Without the option a streamed answer carries no counts.
    fields = {"stream_options": b'{"include_usage":true}', **request.fields}
    return replace(request, fields={**fields, "model": msgspec.json.encode(model), "stream": b"true"})


def limit_answer(request: Request, *, tokens: int) -> Request:
    if any(name in request.fields for name in BOUNDS):
        return request
    return replace(request, fields={**request.fields, BOUNDS[0]: str(tokens).encode()})


def mark_cache_end(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(items)


def read_delta(event: Fields) -> Delta | None:
    choice = find_first_choice(event)
    delta = choice.inner("delta") if choice is not None else Fields({})
    return next((Delta(text=text, is_thought=thought) for name, thought in WORDS if (text := delta.text(name))), None)


def read_finished_item(event: Fields) -> Item | None:
    return None


def read_stop_reason(event: Fields) -> str | None:
    choice = find_first_choice(event)
    return choice.text("finish_reason") if choice is not None else None


def read_speech(item: Item) -> Speech:
    return read_speech_parts(read_object(item.raw) or {})


def find_first_choice(answer: Fields) -> Fields | None:
    """Return the choice that counts: the one at index 0, or without an index."""
    choices = (read_fields(choice) for choice in answer.elements("choices") or [])
    return next((choice for choice in choices if choice is not None and not choice.count("index")), None)
