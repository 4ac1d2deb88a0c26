"""JSON as clients and providers really write it, half a surrogate pair included."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

# An escaped backslash, a whole surrogate pair, or half of one; the first two are consumed so that only halves are seen.
_surrogate = re.compile(rb"(\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u([dD][89a-fA-F][0-9a-fA-F]{2})")


def mended(raw: bytes, *, mark: bytes | None = None) -> bytes:
    r"""Return JSON in which half a surrogate pair, as a text cut inside an emoji leaves it, reads as a replacement mark.

    With a `mark` of the caller's, its digits follow it, so that `mark` can be made `\u` again. For looking at, never for
    sending or hashing.
    """
    if rb"\ud" not in raw and rb"\uD" not in raw:
        return raw
    return _surrogate.sub(lambda match: match[1] or (rb"\ufffd" if mark is None else mark + match[2]), raw)


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
        case dict():
            return all(isinstance(key, str) and is_json(inner) for key, inner in value.items())
        case _:
            return False
