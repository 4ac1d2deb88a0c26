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

Json = dict[str, Any]
T = TypeVar("T")

# Stands for the two bytes `\u` of a lone half while a strict reader looks; no text holds this noncharacter.
_MARK: Final = "\ufdd0".encode()
# Every escape is taken whole, so that a backslash which is itself escaped never begins one.
_escape = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
_mark_and_digits = re.compile(re.escape(_MARK) + rb"(.{4})")

# Decimals keep 1.0, 1.00 and numbers beyond a float apart: two spellings may share a canonical form, two values never.
_values = msgspec.json.Decoder(float_hook=Decimal)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_encoder = msgspec.json.Encoder(decimal_format="number")
_sorted_encoder = msgspec.json.Encoder(decimal_format="number", order="sorted")


def decoded(raw: bytes) -> object:
    """Return the value of `raw`, or None for null and for bytes that only a provider may understand."""
    value = _attempt(_values, raw)
    return _attempt(_values, mended(raw)) if value is None else value


def decoded_object(raw: bytes) -> Json | None:
    """Return the fields of an object, or None for anything else."""
    value = decoded(raw)
    return value if isinstance(value, dict) else None


def canonical_of(raw: bytes, shape: Callable[[Json], Json]) -> bytes:
    """Return what `shape` makes of an object, with the keys of every object in order; `raw` itself where that cannot be had.

    Two values never share a form: a lone half is written as the escape it was, which this serialisation uses for nothing else.
    """
    try:
        if isinstance(value := _attempt(_values, raw), dict):
            return _sorted_encoder.encode(shape(value))
        if rb"\ufdd0" not in raw.lower() and isinstance(value := _attempt(_values, _with_marks(raw)), dict):
            form = _sorted_encoder.encode(shape(value))
            return _mark_and_digits.sub(lambda match: rb"\u" + match[1].lower(), form)
    except RecursionError:
        return raw
    return raw


def mended(raw: bytes) -> bytes:
    r"""Return `raw` with `\ufffd` for each escaped half of a surrogate pair that stands alone."""
    return _escape.sub(lambda match: rb"\ufffd" if match[1] else match[0], raw) if _may_hold_halves(raw) else raw


def fields_of(raw: bytes) -> dict[str, bytes] | None:
    """Return the span of each field of an object, in the order they were sent; None for anything else."""
    found = _attempt(_fields, raw)
    if found is not None:
        return {name: bytes(span) for name, span in found.items()}
    found = _attempt(_fields, _with_marks(raw))
    if found is None or any("\ufdd0" in name for name in found):
        return None
    return {name: _without_marks(span) for name, span in found.items()}


def elements_of(raw: bytes) -> list[bytes] | None:
    """Return the span of each element of a list; None for anything else."""
    found = _attempt(_elements, raw)
    if found is not None:
        return [bytes(span) for span in found]
    found = _attempt(_elements, _with_marks(raw))
    return None if found is None else [_without_marks(span) for span in found]


def object_of(fields: Mapping[str, bytes]) -> bytes:
    """Return an object made of these spans."""
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()) + b"}"


def list_of(elements: Iterable[bytes]) -> bytes:
    """Return a list made of these spans."""
    return b"[" + b",".join(elements) + b"]"


def encoded(value: object) -> bytes:
    """Return a decoded value in holdfast's one fixed serialisation."""
    return _encoder.encode(value)


def _attempt(decoder: msgspec.json.Decoder[T], raw: bytes) -> T | None:
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ArithmeticError):
        return None


def _with_marks(raw: bytes) -> bytes:
    """Return `raw` with its lone halves out of a strict reader's sight, or nothing where that could not be taken back."""
    if _MARK in raw or not _may_hold_halves(raw):
        return b""
    return _escape.sub(lambda match: _MARK + match[1] if match[1] else match[0], raw)


def _without_marks(span: msgspec.Raw) -> bytes:
    return bytes(span).replace(_MARK, rb"\u")


def _may_hold_halves(raw: bytes) -> bool:
    return rb"\ud" in raw or rb"\uD" in raw
