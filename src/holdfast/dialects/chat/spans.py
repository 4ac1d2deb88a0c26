"""JSON taken apart into the exact bytes of its parts, and put together again.

msgspec refuses a text that ends in half an emoji, which clients that cut strings do send. One such message must not cost a
whole conversation, so what msgspec refuses is walked a second time with the standard library, which takes it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, TypeVar

import msgspec

Json = dict[str, Any]
T = TypeVar("T")

# All that reading hostile JSON can raise, in either library; bad UTF-8 and numbers beyond reason are a ValueError.
UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError, ArithmeticError)

# Decimals keep 1.0, 1.00 and numbers beyond a float apart.
_values = msgspec.json.Decoder(float_hook=Decimal)
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_scan = json.JSONDecoder().raw_decode
_between = re.compile(r"[ \t\r\n,:]*")


def read(decoder: msgspec.json.Decoder[T], raw: bytes | msgspec.Raw) -> T | None:
    """Return what `decoder` makes of `raw`, or None: one odd field must not cost its neighbours."""
    try:
        return decoder.decode(raw)
    except UNREADABLE:
        return None


def fields_of(raw: bytes) -> dict[str, bytes]:
    """Return every field of a JSON object with its exact bytes, in order; raises one of `UNREADABLE`."""
    try:
        return {name: bytes(value) for name, value in _fields.decode(raw).items()}
    except msgspec.MsgspecError:
        tokens = _tokens(raw, opening="{")
    names = [json.loads(token) for token in tokens[::2]]
    if any(name.encode("utf-8", "replace").decode() != name for name in names):
        raise ValueError("a field's name ends in half a character")
    return dict(zip(names, tokens[1::2], strict=True))


def elements_of(raw: bytes) -> list[bytes]:
    """Return the exact bytes of every element of a JSON array; raises one of `UNREADABLE`."""
    try:
        return [bytes(value) for value in _elements.decode(raw)]
    except msgspec.MsgspecError:
        return _tokens(raw, opening="[")


def object_of(fields: Mapping[str, bytes]) -> bytes:
    """Return the JSON object that has these fields."""
    return b"{" + b",".join(msgspec.json.encode(name) + b":" + raw for name, raw in fields.items()) + b"}"


def array_of(elements: list[bytes]) -> bytes:
    """Return the JSON array that has these elements."""
    return b"[" + b",".join(elements) + b"]"


def exact_object(raw: bytes) -> Json | None:
    """Return the object that `raw` says, floats as decimals; None where it is none, or says what UTF-8 cannot."""
    value = read(_values, raw)
    return value if isinstance(value, dict) else None


def readable_object(raw: bytes) -> Json | None:
    """Return the object that `raw` says, with a question mark for half a character; None where it is none."""
    if (fields := exact_object(raw)) is not None:
        return fields
    try:
        return exact_object(mended(raw))
    except UNREADABLE:
        return None


def mended(raw: bytes) -> bytes:
    """Return JSON that says the same with a question mark for half a character; raises one of `UNREADABLE`."""
    return json.dumps(json.loads(raw), ensure_ascii=False).encode("utf-8", "replace")


def _tokens(raw: bytes, *, opening: str) -> list[bytes]:
    """Return the exact bytes of what stands in an object or array; in an object, names and values take turns."""
    text = raw.decode()
    json.loads(text)
    start = _between.match(text)
    position = start.end() if start else 0
    if not text.startswith(opening, position):
        raise ValueError(f"no {opening} where one was expected")
    found: list[bytes] = []
    position = _after_gap(text, position + 1)
    while text[position] not in "]}":
        _, end = _scan(text, position)
        found.append(text[position:end].encode())
        position = _after_gap(text, end)
    return found


def _after_gap(text: str, position: int) -> int:
    gap = _between.match(text, position)
    return gap.end() if gap else position
