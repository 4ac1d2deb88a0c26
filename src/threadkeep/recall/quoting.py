"""Quoting a long text where it answers."""

from __future__ import annotations

from threadkeep.recall.ranking import Candidate, Ranking

EXCERPT_CHARS = 700
# How much is shown before the statement that answers.
EXCERPT_MARGIN = 120


def excerpt(text: str, query: str) -> str:
    """Return the stretch of `text` around the statement that answers `query` best; its beginning where none does."""
    found = Ranking([Candidate(text=text, by_person=False)], query).best(1)
    return quoted(text, at=found[0].at if found else 0)


def quoted(text: str, *, at: int) -> str:
    """Return the stretch of `text` around the statement that begins at `at`, the whole text where it is short."""
    if len(text) <= EXCERPT_CHARS:
        return text
    start = max(0, min(at - EXCERPT_MARGIN, len(text) - EXCERPT_CHARS))
    stretch = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + stretch + ("…" if start + EXCERPT_CHARS < len(text) else "")
