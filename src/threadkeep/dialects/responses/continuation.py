"""Requests of the Responses API that name the answer they go on from, and send only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_object, read_value, split_object
from threadkeep.dialects.request_parts import read_items
from threadkeep.items import Item

PREVIOUS: Final = "previous_response_id"
# With one of these, the provider holds the history, or a part of it.
HELD_ELSEWHERE: Final = (PREVIOUS, "conversation")
NOTHING: Final = b"null"


def read_previous(body: bytes) -> str | None:
    fields = split_object(body) or {}
    if fields.get("conversation", NOTHING) != NOTHING:
        return None
    named = read_value(fields.get(PREVIOUS, NOTHING))
    return named if isinstance(named, str) and named else None


def join_history(body: bytes, before: Sequence[Item]) -> bytes | None:
    fields = split_object(body) or {}
    new = read_input(fields.get("input", NOTHING))
    if new is None:
        return None
    is_kept = is_stored(fields)
    history = [item.raw for item in before if is_kept or not _is_bare_reasoning(item)]
    rest = {name: raw for name, raw in fields.items() if name != PREVIOUS}
    return join_object({**rest, "input": join_list([*history, *(item.raw for item in new)])})


def is_stored(fields: Mapping[str, bytes]) -> bool:
    return fields.get("store", NOTHING) != b"false"


def read_input(history: bytes) -> list[Item] | None:
    """Return the items of an `input` field: a list of objects, a string that stands for one user message, or nothing."""
    if history == NOTHING:
        return []
    if not history.startswith(b'"'):
        return read_items(history)
    content = join_list([make_text_part(history, kind=b"input_text")])
    return [Item(join_object({"type": b'"message"', "role": b'"user"', "content": content}))]


def _is_bare_reasoning(item: Item) -> bool:
    """Whether an item is reasoning that only a provider which kept it could find again."""
    fields = read_object(item.raw) or {}
    return fields.get("type") == "reasoning" and not fields.get("encrypted_content")
