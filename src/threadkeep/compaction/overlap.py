"""How much two statements speak about the same thing, where a word that everyone uses counts little and a rare one much."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, TypeVar

from threadkeep.compaction.ties import Terms, terms

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """What two statements share.

    Attributes:
        weight: Of the shared terms, all together.
        share: The same as a share of all terms of the one that has less to say.
        words: How many words are shared, values apart.
    """

    weight: float
    share: float
    words: int


@dataclass(slots=True)
class Statements(Generic[Key]):
    """Statements by their terms, each under a key."""

    _by_term: defaultdict[str, set[Key]] = field(default_factory=lambda: defaultdict(set))
    _texts: dict[Key, str] = field(default_factory=dict)

    def add(self, key: Key, text: str) -> None:
        """Take in a statement; the same key again replaces nothing and adds its terms."""
        self._texts[key] = text
        for term in terms_of(text):
            self._by_term[term].add(key)

    def __len__(self) -> int:
        return len(self._texts)

    def sharing(self, about: Iterable[str]) -> set[Key]:
        """Return every statement that shares one of these terms."""
        found: set[Key] = set()
        for term in about:
            found |= self._by_term.get(term, set())
        return found

    def weight(self, term: str) -> float:
        """Return what a term tells: much where few statements have it, little where many do."""
        return math.log2(1 + (len(self._texts) + 1) / max(1, len(self._by_term.get(term, ()))))

    def likeness(self, one: Terms, other: Terms) -> Likeness:
        """Return how much two statements share."""
        shared = shared_terms(one, other)
        weight = sum(map(self.weight, shared))
        least = min(sum(map(self.weight, all_terms(side))) for side in (one, other))
        return Likeness(weight=weight, share=weight / least if least else 0.0, words=len(one.words & other.words))


@lru_cache(maxsize=65_536)
def terms_of(text: str) -> frozenset[str]:
    """Return everything that may tell what a text is about; every statement of a ledger is asked, each time it is merged."""
    return all_terms(terms(text))


def all_terms(about: Terms) -> frozenset[str]:
    """Return everything that may tell what a statement is about."""
    return about.values | about.words | about.label


def shared_terms(one: Terms, other: Terms) -> frozenset[str]:
    """Return what two statements share; that both begin with the same label only makes them two of a kind."""
    return (all_terms(one) & all_terms(other)) - (one.label & other.label)
