"""What is typed becomes a full-text query, and stays data."""

from __future__ import annotations

from typing import Final

from holdfast.store.words import phrases

# The dictionary knows the forms of English words; those of other languages are found by how a longer word begins.
BEGINNING_CHARS: Final = 6


def query_of(query: str) -> str:
    """Return an expression that matches any phrase of `query`, or nothing if it has none; each phrase is quoted."""
    found = phrases(query)
    begun = dict.fromkeys(
        f"{_quoted(word[:BEGINNING_CHARS])}:*" for word in found if len(word) > BEGINNING_CHARS and word.isalpha()
    )
    return " | ".join((*map(_quoted, found), *begun))


def _quoted(phrase: str) -> str:
    escaped = phrase.replace("\\", " ").replace("'", " ").replace("\0", " ")
    return f"'{escaped}'"
