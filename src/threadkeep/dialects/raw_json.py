"""JSON as the bytes it was sent in, as values, and field by field.

Clients written in JavaScript cut strings inside an emoji and escape the half that is left; a strict reader refuses the whole
request for it. Here such a half is read as U+FFFD, and every span around it keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Annotated, Any, Final, TypeVar

import msgspec

from threadkeep.items import Item, repair_surrogates

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


def decode(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T | None:
    """Return what `decoder` makes of `raw`, or None where it can make nothing of it."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ArithmeticError):
        return None


def read_value(raw: bytes) -> object:
    """Return the value of `raw`, or None for null and for bytes that only a provider may understand."""
    value = decode(_values, raw)
    return decode(_values, repair_surrogates(raw)) if value is None else value


def read_object(raw: bytes) -> Json | None:
    """Return the fields of an object as values, or None for anything else."""
    value = read_value(raw)
    return value if isinstance(value, dict) else None


def encode_value(value: object) -> bytes:
    """Return a value from `read_value` in threadkeep's one fixed serialisation; raises RecursionError if it is too deep."""
    return _encoder.encode(value)


def render_json(value: object) -> str:
    """Return a value as JSON to be looked at; empty for None, and for what is nested deeper than anyone would read."""
    try:
        return "" if value is None else _encoder.encode(value).decode()
    except RecursionError:
        return ""


def encode_canonical(raw: bytes, shape: Callable[[Json], Json]) -> bytes:
    """Apply `shape` to a JSON object and return the result with all keys sorted; return `raw` if it cannot be parsed.

    Different values never give the same bytes. Half of a surrogate pair cannot be encoded, so its escape is kept.
    """
    try:
        if isinstance(value := decode(_values, raw), dict):
            return _sorted_encoder.encode(shape(value))
        if rb"\ufdd0" not in raw.lower() and isinstance(value := decode(_values, _with_marks(raw)), dict):
            form = _sorted_encoder.encode(shape(value))
            return _mark_and_digits.sub(lambda match: rb"\u" + match[1].lower(), form)
    except RecursionError:
        return raw
    return raw


def split_object(raw: bytes) -> dict[str, bytes] | None:
    """Return the span of each field of an object, in the order they were sent; None for anything else."""
    found = decode(FIELDS, raw)
    if found is not None:
        return {name: bytes(span) for name, span in found.items()}
    found = decode(FIELDS, _with_marks(raw))
    if found is None or any(_MARK in name for name in found):
        return None
    return {name: _without_marks(span) for name, span in found.items()}


def split_list(raw: bytes) -> list[bytes] | None:
    """Return the span of each element of a list; None for anything else."""
    found = decode(_elements, raw)
    if found is not None:
        return [bytes(span) for span in found]
    found = decode(_elements, _with_marks(raw))
    return None if found is None else [_without_marks(span) for span in found]


def join_object(fields: Mapping[str, bytes]) -> bytes:
    """Return an object made of these spans."""
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()) + b"}"


def join_list(elements: Iterable[bytes]) -> bytes:
    """Return a list made of these spans."""
    return b"[" + b",".join(elements) + b"]"


def make_text_part(text: bytes, *, kind: bytes = b"text") -> bytes:
    """Return the part that says what the span of a string says."""
    return b'{"type":"' + kind + b'","text":' + text + b"}"


def read_item(span: bytes) -> Item | None:
    """Return the item a span of hostile JSON is; None where it is no object in UTF-8.

    A span that a reader skipped is checked for structure but not for UTF-8, which everything that reads an item relies on.
    """
    try:
        span.decode()
    except UnicodeDecodeError:
        return None
    return Item(span) if span.startswith(b"{") else None


def read_items(history: bytes) -> list[Item] | None:
    """Return the items of a history: a list of nothing but objects."""
    spans = split_list(history)
    if spans is None or not all(span.startswith(b"{") for span in spans):
        return None
    return [Item(span) for span in spans]


def _with_marks(raw: bytes) -> bytes:
    """Return `raw` with its lone halves out of a strict reader's sight; nothing where it has none, or no way back."""
    marked = b"" if _MARK_BYTES in raw else repair_surrogates(raw, mark=_MARK_BYTES)
    return b"" if marked is raw else marked


def _without_marks(span: msgspec.Raw) -> bytes:
    return bytes(span).replace(_MARK_BYTES, rb"\u")


ABSENT: Final = b"null"

_TEXT: Final = msgspec.json.Decoder(str)
_INTEGER: Final = msgspec.json.Decoder(int)
# Token counts end up in 64-bit columns; a number beyond any real count is no count.
_COUNT: Final[msgspec.json.Decoder[int]] = msgspec.json.Decoder(Annotated[int, msgspec.Meta(ge=0, le=2**53)])


class Fields:
    """The fields of one object. Hostile input: nothing here raises, and what is not of the kind asked for is absent.

    What a field begins with tells its kind, so that the many that are absent or null cost next to nothing.
    """

    __slots__ = ("_spans",)

    def __init__(self, spans: Mapping[str, bytes | msgspec.Raw]) -> None:
        self._spans = spans

    def span(self, name: str) -> bytes:
        """Return the exact bytes of a field; `null` where it is absent. They may be no UTF-8."""
        return bytes(self._spans.get(name, ABSENT))

    def text(self, name: str) -> str | None:
        """Return a text, half an emoji in it read as a replacement mark."""
        if name not in self._spans or not (span := self.span(name)).startswith(b'"'):
            return None
        text = decode(_TEXT, span)
        return decode(_TEXT, repair_surrogates(span)) if text is None else text

    def integer(self, name: str) -> int | None:
        return None if (span := self.span(name)) == ABSENT else decode(_INTEGER, span)

    def count(self, name: str) -> int | None:
        """Return a number of things: not negative, and not beyond any real count."""
        return None if (span := self.span(name)) == ABSENT else decode(_COUNT, span)

    def elements(self, name: str) -> list[bytes] | None:
        """Return the exact bytes of each element of a list."""
        return split_list(span) if (span := self.span(name)).startswith(b"[") else None

    def object(self, name: str) -> Fields | None:
        return read_fields(span) if (span := self.span(name)).startswith(b"{") else None

    def inner(self, name: str) -> Fields:
        """Return the object in a field; one without any field where there is none."""
        return self.object(name) or Fields({})


def read_fields(data: bytes) -> Fields | None:
    """Return the fields of an object; None for anything else."""
    # The plain way copies only the fields that are asked for.
    spans = decode(FIELDS, data) or split_object(data)
    return None if spans is None else Fields(spans)
