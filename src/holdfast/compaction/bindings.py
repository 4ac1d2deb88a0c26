"""Values that came out of a tool and were used again: what a later step rests on, though no person ever said it.

Tool output is data and never becomes a rule. But a host name read from a log and then typed into a command is part of the work,
and comes back as the line it stood in, with pointers to where it was seen and where it was used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.compaction.working import Line, Observed, one_line
from holdfast.items import ItemKind
from holdfast.thread import Pointer

SHORTEST_VALUE = 5
LONGEST_VALUE = 80
BINDINGS_KEPT = 24

_token = re.compile(r"[\w./:@~+-]{5,}")
# Something that names one thing: it holds a digit, or joins words by signs.
_specific = re.compile(r"\d|[a-z][A-Z]|\w[._:@/-]\w")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    source: Pointer
    output: str


def reused(items: Sequence[Observed]) -> tuple[Line, ...]:
    """Return the lines of tool output whose values a later call or a person used, oldest use first."""
    seen: dict[str, _Sighting] = {}
    known: set[str] = set()
    found: dict[str, Line] = {}
    for item in items:
        if item.view.kind is ItemKind.OUTPUT:
            sighting = _Sighting(source=item.source, output=item.view.text)
            for value in set(_token.findall(item.view.text)):
                seen.setdefault(value.strip(".:"), sighting)
            continue
        if item.view.kind is not ItemKind.CALL and not item.view.by_person:
            continue
        for value in dict.fromkeys(_values(item.view.text)):
            if value in seen and value not in known:
                found.pop(value, None)
                found[value] = _binding(value, seen[value])
            known.add(value)
    return tuple(found.values())[-BINDINGS_KEPT:]


def _values(text: str) -> list[str]:
    values = (value.strip(".:") for value in _token.findall(text))
    return [value for value in values if SHORTEST_VALUE <= len(value) <= LONGEST_VALUE and _specific.search(value)]


def _binding(value: str, sighting: _Sighting) -> Line:
    """Return the line a value stood in, cut around it."""
    place = sighting.output.find(value)
    start = sighting.output.rfind("\n", 0, place) + 1
    end = sighting.output.find("\n", place)
    line = sighting.output[start : end if end >= 0 else len(sighting.output)]
    around = line if len(line) <= LONGEST_VALUE * 2 else line[max(0, place - start - LONGEST_VALUE) :][: LONGEST_VALUE * 2]
    return Line(text=f"{value} — {one_line(around)}", source=sighting.source)
