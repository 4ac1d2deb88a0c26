"""JSON as clients and providers really write it, half a surrogate pair included."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

# An escaped backslash, a whole surrogate pair, or half of one; the first two are consumed so that only halves are seen.
_surrogate = re.compile(rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}")


def mended(raw: bytes) -> bytes:
    """Return JSON in which half a surrogate pair, as a text cut inside an emoji leaves it, reads as a replacement mark.

    For looking at, never for sending or hashing.
    """
    return _surrogate.sub(lambda match: match[1] or rb"\ufffd", raw) if b"\\u" in raw else raw


def decoded(raw: bytes) -> Any:
    """Return the value an item holds, as its provider would be sent it again.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw)


def is_json(value: object) -> bool:
    """Whether a value is what JSON can say and nothing that would come back as something else."""
    match value:
        case None | bool() | str():
            return True
        case int():
            return type(value) is int
        case float():
            return type(value) is float and value == value and value not in (float("inf"), float("-inf"))
        case list():
            return all(map(is_json, value))
        case Mapping():
            return all(isinstance(key, str) and is_json(inner) for key, inner in value.items())
        case _:
            return False
