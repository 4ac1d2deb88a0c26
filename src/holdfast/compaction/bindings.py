"""Values that came out of a tool and were used again: what a later step rests on, though no person ever said it.

Tool output is data and never becomes a rule. But a host name read from a log and then typed into a command is part of the work,
and comes back as the line it stood in, with pointers to where it was seen and where it was used.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.compaction.todos import PLAN_TOOLS
from holdfast.compaction.working import Line, Observed, call_text, one_line
from holdfast.items import ItemKind
from holdfast.thread import Pointer

LONGEST_LINE = 160
BINDINGS_KEPT = 40

_token = re.compile(r"[\w/@~+-][\w./:@~+-]{4,}[\w/@~+-]")
# What names one thing and nobody would make up: letters and digits in one word, or an address. Names in source code, which
# every patch repeats, hold no digit; files stand in the working state.
_identifier = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w:.@-]{6,60}|\d+(?:\.\d+){3}(?::\d+)?")
_GAPS = {code: " " for code in range(128) if not re.fullmatch(r"[\w./:@~+-]", chr(code))}
_file = re.compile(r"\.[a-z]{1,5}$")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    source: Pointer
    output: str


def reused(items: Sequence[Observed]) -> tuple[Line, ...]:
    """Return the values a later call or a person used again, each with the line it stood in, oldest use first.

    An id in a call that nothing in view explains was learned from output that is out of view by now: it comes with the call.
    Files are not repeated here; the working state lists them.
    """
    used = {place: values for place, item in enumerate(items) if (values := _used(item))}
    wanted = {value for values in used.values() for value in values}
    seen: dict[str, _Sighting] = {}
    found: dict[str, Line] = {}
    for place, item in enumerate(items):
        if item.view.kind is ItemKind.OUTPUT:
            sighting = _Sighting(source=item.source, output=item.view.text)
            for value in wanted.intersection(_words(item.view.text)):
                seen.setdefault(value, sighting)
            continue
        for value in used.get(place, ()):
            if value not in wanted:
                continue
            # Its first use decides: what stands in an output after that is the echo of it.
            wanted.discard(value)
            if value in seen:
                found[value] = _binding(value, seen[value])
            elif item.view.kind is ItemKind.CALL and item.view.tool not in PLAN_TOOLS:
                found[value] = Line(text=f"{value} — {item.view.tool}: {one_line(call_text(item.view))}", source=item.source)
    return tuple(found.values())[-BINDINGS_KEPT:]


def _used(item: Observed) -> tuple[str, ...]:
    """Return the values a call or a person's message names, each once; an output names nothing to anyone."""
    if item.view.kind is ItemKind.OUTPUT or not (item.view.kind is ItemKind.CALL or item.view.by_person):
        return ()
    return tuple(dict.fromkeys(_values(item.view.text)))


def _words(text: str) -> list[str]:
    """Return what `_token` finds in an output, and shorter words beside it: the same cut at twice its speed."""
    return f"{text.translate(_GAPS)} ".replace(". ", " ").replace(": ", " ").split()


def _values(text: str) -> list[str]:
    return [value for value in _token.findall(text) if _identifier.fullmatch(value) and not _file.search(value)]


def _binding(value: str, sighting: _Sighting) -> Line:
    """Return the line a value stood in, cut around it."""
    place = sighting.output.find(value)
    start = sighting.output.rfind("\n", 0, place) + 1
    end = sighting.output.find("\n", place)
    line = sighting.output[start : end if end >= 0 else len(sighting.output)]
    around = line if len(line) <= LONGEST_LINE else line[max(0, place - start - LONGEST_LINE // 2) :][:LONGEST_LINE]
    return Line(text=f"{value} — {one_line(around)}", source=sighting.source)
