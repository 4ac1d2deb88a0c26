"""The lines of the state block in a window. The tag and the five headings are a contract of the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.readers.text import render_items

TAG = "session_compact_state"
EMPTY = "- none"
HEADINGS = ("Objective", "Active Memory", "Inactive Changes", "Current Handoff", "Evidence Pointers")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine:
    """A line of the state and the section it stands in."""

    section: str
    text: str


def read_state(window: Sequence[dict[str, Any]]) -> list[StateLine]:
    """Return the lines of the window's state block, without headings and the `- none` that fills an empty section."""
    block = render_items(window).partition(f"<{TAG}>\n")[2].partition(f"\n</{TAG}>")[0]
    found: list[StateLine] = []
    section = ""
    for line in block.splitlines():
        if line.rstrip(":") in HEADINGS:
            section = line.rstrip(":")
        elif line.strip() not in ("", EMPTY):
            found.append(StateLine(section=section, text=line.strip()))
    return found
