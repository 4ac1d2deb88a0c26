"""The design notes that Session Compact's readme names have their counterparts."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "design.md"


def test_the_design_notes_of_the_session_route_are_there() -> None:
    """Active contract, design harness, benchmark notes, staged orchestration: a section each, in this order."""
    headings = [line.removeprefix("## ") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("## ")]
    assert headings == ["The active contract", "The design harness", "The benchmark notes", "Staged orchestration"]
