"""Requests taken apart and put together, and values made items: the same in every dialect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from threadkeep.dialects.raw_json import split_list
from threadkeep.dialects.values import Request
from threadkeep.errors import InvalidItem
from threadkeep.items import Item, is_json


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
