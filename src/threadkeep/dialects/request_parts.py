"""Requests taken apart and put together, and values made items: the same in every dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import msgspec

from threadkeep.dialects.raw_json import join_list, join_object, read_value, split_list, split_object
from threadkeep.dialects.values import Request, Target
from threadkeep.errors import InvalidItem
from threadkeep.items import Item, View, is_json


def make_item(value: object, *, dialect: str) -> Item:
    """Return the item for a decoded JSON value, in threadkeep's one fixed serialisation.

    Raises:
        InvalidItem: It is not a JSON object, or holds what JSON cannot say.
    """
    if not isinstance(value, dict):
        raise InvalidItem(dialect=dialect, reason=f"a JSON object was expected, not {type(value).__name__}")
    try:
        if is_json(value):
            return Item(msgspec.json.encode(value))
    except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
        raise InvalidItem(dialect=dialect, reason=str(error)) from error
    raise InvalidItem(dialect=dialect, reason="it holds something JSON cannot say")


def read_items(history: bytes) -> list[Item] | None:
    """Return the items of a history: a list of nothing but objects."""
    spans = split_list(history)
    if spans is None or not all(span.startswith(b"{") for span in spans):
        return None
    return [Item(span) for span in spans]


def compose_request(fields: Mapping[str, object], *, head: Sequence[Item] = ()) -> Request:
    """Return a request without a history; a field that says nothing is left out."""
    said = {name: msgspec.json.encode(value) for name, value in fields.items() if value}
    return Request(fields=said, head=tuple(head), items=())


def split_request(fields: Mapping[str, bytes], items: Sequence[Item], *, is_head: Callable[[Item], bool]) -> Request:
    """Return the request whose head is the leading run of items that are the client's to write anew."""
    head = 0
    while head < len(items) and is_head(items[head]):
        head += 1
    return Request(fields=fields, head=tuple(items[:head]), items=tuple(items[head:]))


def join_request(request: Request, items: Sequence[Item], *, field: str) -> bytes:
    """Return the body whose `field` holds the request's head followed by `items`."""
    return join_object({**request.fields, field: join_list(item.raw for item in (*request.head, *items))})


def copy_fields(request: Request, client: Request, *, names: Sequence[str]) -> Request:
    """Return a request with the named fields of the client's request; fields of its own stay."""
    return replace(request, fields={**{name: client.fields[name] for name in names if name in client.fields}, **request.fields})


def drop_personal_parts(item: Item, *, view: Callable[[Item], View], field: str = "content") -> Item | None:
    """Return a message without the content parts that hold a person's words; None where nothing is left."""
    fields = split_object(item.raw) or {}
    parts = split_list(fields.get(field, b"null")) or []
    kept = [part for part in parts if not view(Item(join_object({**fields, field: join_list([part])}))).by_person]
    return Item(join_object({**fields, field: join_list(kept)})) if kept else None


def forbid_tool_choice(request: Request) -> Request:
    """Return a request whose tools may not be called; the same request where it offers none."""
    if request.fields.get("tools", b"[]").strip() in (b"[]", b"null"):
        return request
    return replace(request, fields={**request.fields, "tool_choice": b'"none"'})


def read_body_target(fields: Mapping[str, bytes], *, path: str, query: str) -> Target:
    """Return the target of a request whose body says it all."""
    model = read_value(fields.get("model", b"null"))
    streams = fields.get("stream", b"false") == b"true"
    return Target(model=model if isinstance(model, str) else "", form="events" if streams else "whole")
