"""What a provider received, without what a client makes up anew in every run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from tests.doubles.script import Received

# Each hop writes these for itself; the gateway asks for an answer it can read.
HOP_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "transfer-encoding"})

# What a client makes up anew in every run: ids, moments, the time a command took.
MADE_UP = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|(?:ses|msg|prt)_[0-9A-Za-z]{20,}"
    r"|\b[0-9a-f]{64}\b"
    r"|(?<=Chunk ID: )\w+"
    r"|(?<=Wall time: )[\d.]+"
    r"|\b1[0-9]{12}\b"
)


def told(requests: Sequence[Received]) -> list[Any]:
    """Return requests with everything made up replaced by when it was first met: which ids are equal stays visible."""
    met: dict[str, str] = {}
    return [_steady(each, met) for request in requests for each in _parts(request)]


def _parts(request: Received) -> Iterator[Any]:
    yield {"method": request.method, "path": request.path, "authorised": request.authorised}
    yield {name: _read(value) for name, value in sorted(request.headers.items()) if name not in HOP_HEADERS}
    yield request.body


def _steady(value: Any, met: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {_steady(key, met): _steady(value[key], met) for key in sorted(value)}
    if isinstance(value, list):
        return [_steady(each, met) for each in value]
    if isinstance(value, str):
        read = _read(value)
        if read == value:
            return MADE_UP.sub(lambda found: met.setdefault(found[0], f"made-up {len(met)}"), value)
        return _steady(read, met)
    return "a moment" if isinstance(value, int) and value > 1_600_000_000_000 else value


def _read(value: str) -> Any:
    """Return the object a string holds; its keys may come in any order."""
    if not value.startswith("{"):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
