"""Memories by what they say, and citations of them in what a model said."""

from __future__ import annotations

import re
from collections.abc import Sequence

from threadkeep.memory.records import Kept
from threadkeep.memory.state import rank
from threadkeep.store.words import phrases, spaced

_citation = re.compile(r"\[memory:\s*(m[0-9a-f]{10}(?:\s*,\s*m[0-9a-f]{10})*)\s*\]")
_name = re.compile(r"m[0-9a-f]{10}")
# Words of four letters and more match by how they begin: "deploys" finds "deploy".
STEM_CHARS = 4


def found(memories: Sequence[Kept], query: str, *, limit: int) -> list[Kept]:
    """Return the memories that share most words with `query`, of equals the most useful first; none that shares no word."""
    asked = [_stem(word) for word in phrases(query.casefold())]
    scored = [(sum(word in _words(memory) for word in asked), rank(memory), memory) for memory in memories]
    best = sorted((each for each in scored if each[0]), key=lambda each: each[:2], reverse=True)
    return [memory for _, _, memory in best[:limit]]


def cited_in(text: str) -> list[str]:
    """Return the names of memories that a text cites as `[memory:NAME]`, each once, in order."""
    return list(dict.fromkeys(name for match in _citation.finditer(text) for name in _name.findall(match[1])))


def _words(memory: Kept) -> str:
    return f" {spaced(memory.text.casefold())} ".replace("  ", " ")


def _stem(word: str) -> str:
    return f" {word[: max(STEM_CHARS, len(word) - 2)]}" if word.isalpha() and word.isascii() else word
