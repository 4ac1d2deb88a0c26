"""Requests of the Responses API that name the answer they go on from, and send only what is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Final
from urllib.parse import quote

from msgspec.json import encode

from threadkeep.dialects.raw_json import join_list, join_object, make_text_part, read_items, read_object, read_value, split_object
from threadkeep.dialects.responses.compaction import TYPES
from threadkeep.dialects.responses.item_views import read_view
from threadkeep.dialects.values import CHECKPOINT_PREFIX
from threadkeep.items import Item, Role

PREVIOUS: Final = "previous_response_id"
CONVERSATION: Final = "conversation"
# With one of these, the provider holds the history, or a part of it.
HELD_ELSEWHERE: Final = (PREVIOUS, CONVERSATION)
NOTHING: Final = b"null"
CONVERSATIONS: Final = "/conversations"
# The most that OpenAI lists at once.
PAGE: Final = 100
MARK: Final = f'"{CHECKPOINT_PREFIX}'.encode()


def read_previous(body: bytes) -> str | None:
    fields = split_object(body) or {}
    if fields.get(CONVERSATION, NOTHING) != NOTHING:
        return None
    named = read_value(fields.get(PREVIOUS, NOTHING))
    if isinstance(named, str) and named:
        return named
    seals = [name for item in _read_marked(fields) if (name := _read_checkpoint(item)) is not None]
    return seals[-1] if seals else None


def read_conversation(body: bytes) -> str | None:
    named = read_value((split_object(body) or {}).get(CONVERSATION, NOTHING))
    name = named.get("id") if isinstance(named, dict) else named
    return name if isinstance(name, str) and name else None


def make_items_path(conversation: str, *, after: str | None) -> str:
    behind = "" if after is None else f"&after={quote(after, safe='')}"
    return f"{CONVERSATIONS}/{quote(conversation, safe='')}/items?order=asc&limit={PAGE}{behind}"


def find_first_items(body: bytes, *, path: str) -> bytes | None:
    fields = split_object(body) if path == CONVERSATIONS else None
    return None if fields is None else join_object({"input": fields.get("items", NOTHING)})


def render_conversation(body: bytes, *, name: str, created_at: int) -> bytes:
    metadata = read_value((split_object(body) or {}).get("metadata", NOTHING)) or {}
    return encode({"id": name, "object": "conversation", "created_at": created_at, "metadata": metadata})


def read_items_page(page: bytes) -> tuple[list[Item], str | None] | None:
    fields = split_object(page) or {}
    items = read_items(fields.get("data", NOTHING))
    if items is None:
        return None
    last = read_value(fields.get("last_id", NOTHING)) if fields.get("has_more") == b"true" else None
    return items, last if isinstance(last, str) else None


def join_history(body: bytes, head: Sequence[Item], before: Sequence[Item]) -> bytes | None:
    fields = split_object(body) or {}
    new = read_input(fields.get("input", NOTHING))
    if new is None:
        return None
    sealed = [index for index, item in enumerate(new) if _read_checkpoint(item) is not None]
    if sealed:
        # What stands before it is in the history, but for what a client puts in front of every request.
        own = list(takewhile(lambda item: read_view(read_object(item.raw) or {}).role is Role.SYSTEM, new[: sealed[-1]]))
        head, new = own or head, new[sealed[-1] + 1 :]
    is_kept = is_stored(fields)
    history = [item.raw for item in (*head, *before) if is_kept or not _is_bare_reasoning(item)]
    rest = {name: raw for name, raw in fields.items() if name not in HELD_ELSEWHERE}
    return join_object({**rest, "input": join_list([*history, *(item.raw for item in new)])})


def is_abridged(body: bytes) -> bool:
    return MARK in body


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


def _read_marked(fields: Mapping[str, bytes]) -> list[Item]:
    history = fields.get("input", NOTHING)
    return (read_input(history) or []) if MARK in history else []


def _read_checkpoint(item: Item) -> str | None:
    """Return the name of the checkpoint that stands in for a history, if the item is one of the gateway's own."""
    if MARK not in item.raw:
        return None
    fields = read_object(item.raw) or {}
    name = fields.get("encrypted_content") if fields.get("type") in TYPES else None
    return name if isinstance(name, str) and name.startswith(CHECKPOINT_PREFIX) else None


def _is_bare_reasoning(item: Item) -> bool:
    """Whether an item is reasoning that only a provider which kept it could find again."""
    fields = read_object(item.raw) or {}
    return fields.get("type") == "reasoning" and not fields.get("encrypted_content")
