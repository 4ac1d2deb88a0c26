"""Text and questions as the server's full-text parser must see them: words with spaces between, and nothing to interpret."""

from __future__ import annotations

import re
from typing import Final

from threadkeep.store.words import phrases, spaced

# The dictionary knows the forms of English words; those of other languages are found by how a longer word begins.
BEGINNING_CHARS: Final = 6
# What a tsvector can hold; longer text is found by its beginning.
INDEXED_CHARS: Final = 200_000
_BETWEEN_WORDS: Final = re.compile(r"[\W_]+")


def words_of(text: str) -> str:
    """Return the words of a text to be indexed.

    The parser would take `src/part_1.py`, a host or a version for one word, and then neither `part_1` nor `py` for words of it.
    """
    return _BETWEEN_WORDS.sub(" ", spaced(text[:INDEXED_CHARS]))[:INDEXED_CHARS]


def query_of(query: str) -> str:
    """Return an expression that matches any phrase of `query`, or nothing if it has none; each phrase is quoted."""
    found = phrases(query)
    begun = dict.fromkeys(
        f"{_quoted(word[:BEGINNING_CHARS])}:*" for word in found if len(word) > BEGINNING_CHARS and word.isalpha()
    )
    return " | ".join((*map(_quoted, found), *begun))


def _quoted(phrase: str) -> str:
    return f"'{_BETWEEN_WORDS.sub(' ', phrase).strip()}'"
