"""What models answer, well and badly."""

from __future__ import annotations

from typing import Final

HEADINGS: Final = ("Objective", "Active Memory", "Inactive Changes", "Current Handoff", "Evidence Pointers")


def block(
    *,
    objective: str = "none",
    active: str = "none",
    inactive: str = "none",
    handoff: str = "none",
    evidence: str = "none",
) -> str:
    """Return a state block with one bullet a section."""
    bullets = (objective, active, inactive, handoff, evidence)
    sections = [f"{heading}:\n- {bullet}" for heading, bullet in zip(HEADINGS, bullets, strict=True)]
    return "<session_compact_state>\n" + "\n\n".join(sections) + "\n</session_compact_state>"


SUMMARY: Final = "The parser was read part by part. Next: mend part 3."
