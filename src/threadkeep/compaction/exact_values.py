"""Names and figures that have to be exact: numbers, ids, paths, names as code writes them."""

from __future__ import annotations

import re

_token = re.compile(r"[\w./:@#$%+~^=-]*[\w%]", re.UNICODE)
_name = re.compile(r"[a-z]+[A-Z]\w*|\w+_\w+|[A-Z]{2,}\w*|\w+(?:[./:@-]\w+)+")
SHORTEST = 2


def values_in(text: str) -> frozenset[str]:
    """Return the exact values a text names: whatever holds a figure, or is written as code writes names."""
    found: set[str] = set()
    for token in _token.findall(text):
        bare = token.strip(".:-/#=~^+")
        if len(bare) >= SHORTEST and (any(char.isdigit() for char in bare) or _name.fullmatch(bare)):
            found.add(bare)
    return frozenset(found)
