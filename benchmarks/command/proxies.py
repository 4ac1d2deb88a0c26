"""Proxies of other environments, as a person names them."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.gateway.contenders import OTHERS
from threadkeep.errors import BadInput


def named_proxies(texts: Sequence[str]) -> dict[str, str]:
    """Return the interpreter of each proxy that is written `NAME=PYTHON`.

    Raises:
        BadInput: There is no such proxy, or no interpreter behind its name.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, python = text.partition("=")
        if name not in OTHERS or not python:
            raise BadInput(f"{text!r} names no proxy; write NAME=PYTHON, where NAME is {' or '.join(OTHERS)}")
        found[name] = python
    return found
