"""JSON as the spans it was sent in, and as values.

Clients written in JavaScript cut strings inside an emoji and escape the half that is left; a strict reader refuses the whole
request for it. Here such a half is read as U+FFFD, and every span around it keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

from threadkeep.items import Item, mended

Json = dict[str, Any]
T = TypeVar("T")

# Stands for the two bytes `\u` of a lone half while a strict reader looks; no text holds this noncharacter.
_MARK: Final = "\ufdd0"
_MARK_BYTES: Final = _MARK.encode()
_mark_and_digits = re.compile(re.escape(_MARK_BYTES) + rb"(.{4})")

# Decimals keep 1.0, 1.00 and numbers beyond a float apart: two spellings may share a canonical form, two values never.
_values = msgspec.json.Decoder(float_hook=Decimal)
FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder(decimal_format="number")
_sorted_encoder = msgspec.json.Encoder(decimal_format="number", order="sorted")


def read(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T | None:
    """Return what `decoder` makes of `raw`, or None where it can make nothing of it."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ArithmeticError):
        return None


def value_of(raw: bytes) -> object:
    """Return the value of `raw`, or None for null and for bytes that only a provider may understand."""
    value = read(_values, raw)
    return read(_values, mended(raw)) if value is None else value


def object_in(raw: bytes) -> Json | None:
    """Return the fields of an object as values, or None for anything else."""
    value = value_of(raw)
    return value if isinstance(value, dict) else None


def encoded(value: object) -> bytes:
    """Return a value as `value_of` reads it in threadkeep's one fixed serialisation; raises RecursionError if it is too deep."""
    return _encoder.encode(value)


def json_text(value: object) -> str:
    """Return a value as JSON to be looked at; empty for None, and for what is nested deeper than anyone would read."""
    try:
        return "" if value is None else _encoder.encode(value).decode()
    except RecursionError:
        return ""


def canonical_of(raw: bytes, shape: Callable[[Json], Json]) -> bytes:
    """Return what `shape` makes of an object, with the keys of every object in order; `raw` itself where that cannot be had.

    Two values never share a form: a lone half is written as the escape it was, which this serialisation uses for nothing else.
    """
    try:
        if isinstance(value := read(_values, raw), dict):
            return _sorted_encoder.encode(shape(value))
        if rb"\ufdd0" not in raw.lower() and isinstance(value := read(_values, _with_marks(raw)), dict):
            form = _sorted_encoder.encode(shape(value))
            return _mark_and_digits.sub(lambda match: rb"\u" + match[1].lower(), form)
    except RecursionError:
        return raw
    return raw


def fields_of(raw: bytes) -> dict[str, bytes] | None:
    """Return the span of each field of an object, in the order they were sent; None for anything else."""
    found = read(FIELDS, raw)
    if found is not None:
        return {name: bytes(span) for name, span in found.items()}
    found = read(FIELDS, _with_marks(raw))
    if found is None or any(_MARK in name for name in found):
        return None
    return {name: _without_marks(span) for name, span in found.items()}


def elements_of(raw: bytes) -> list[bytes] | None:
    """Return the span of each element of a list; None for anything else."""
    found = read(_elements, raw)
    if found is not None:
        return [bytes(span) for span in found]
    found = read(_elements, _with_marks(raw))
    return None if found is None else [_without_marks(span) for span in found]


def object_of(fields: Mapping[str, bytes]) -> bytes:
    """Return an object made of these spans."""
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()) + b"}"


def list_of(elements: Iterable[bytes]) -> bytes:
    """Return a list made of these spans."""
    return b"[" + b",".join(elements) + b"]"


def text_part(text: bytes, *, kind: bytes = b"text") -> bytes:
    """Return the part that says what the span of a string says."""
    return b'{"type":"' + kind + b'","text":' + text + b"}"


def item_in(span: bytes) -> Item | None:
    """Return the item a span of hostile JSON is; None where it is no object in UTF-8.

    A span that a reader skipped is checked for structure but not for UTF-8, which everything that reads an item relies on.
    """
    try:
        span.decode()
    except UnicodeDecodeError:
        return None
    return Item(span) if span.startswith(b"{") else None


def _with_marks(raw: bytes) -> bytes:
    """Return `raw` with its lone halves out of a strict reader's sight; nothing where it has none, or no way back."""
    marked = b"" if _MARK_BYTES in raw else mended(raw, mark=_MARK_BYTES)
    return b"" if marked is raw else marked


def _without_marks(span: msgspec.Raw) -> bytes:
    return bytes(span).replace(_MARK_BYTES, rb"\u")
