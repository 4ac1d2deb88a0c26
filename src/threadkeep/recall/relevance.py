"""Ranks texts by how well they answer a question, and finds the place that does."""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from threadkeep.store.search_words import CJK, FUNCTION_WORDS

EXCERPT_CHARS = 700
# How much text is shown before the best statement.
EXCERPT_MARGIN = 120


def make_excerpt(text: str, query: str) -> str:
    """Return the part of `text` around the statement that answers `query` best; its beginning if none does."""
    found = Ranking([Candidate(text=text, by_person=False)], query).select_best(1)
    return quote(text, at=found[0].at if found else 0)


def quote(text: str, *, at: int) -> str:
    """Return the part of `text` around the statement at `at`; the whole text if it is short."""
    if len(text) <= EXCERPT_CHARS:
        return text
    start = max(0, min(at - EXCERPT_MARGIN, len(text) - EXCERPT_CHARS))
    stretch = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + stretch + ("…" if start + EXCERPT_CHARS < len(text) else "")


# Longer words match by their first letters; words of fewer than four letters must match whole.
STEM_CHARS = 5
LEAST_PREFIX = 4
# The weight of a word in a neighbouring statement, or anywhere else in the text.
BESIDE, ELSEWHERE = 0.5, 0.2
INSIDE = 0.5
# Longer statements hold more words by chance, and score less.
STATEMENT_CHARS = 240
LENGTH_COST = 0.35
PERSON = 1.3
# The most words of a question that are searched for.
MOST_TERMS = 160

_BREAK = re.compile(r"\n+|(?<=[.!?;:])\s+|(?<=[。！？；])")
_WORD = re.compile(rf"[{CJK}]+|(?:(?![{CJK}])[^\W_])+")
_CJK = re.compile(f"[{CJK}]")
# Latin letters without their marks, one for one, so that positions stay the same.
_PLAIN = {
    code: plain
    for code in range(0xC0, 0x250)
    if (plain := unicodedata.normalize("NFD", chr(code))[0]) != chr(code) and plain.isascii()
}


# Words that weigh less than this share of the heaviest word are left out.
LEAST_SHARE = 0.06


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A text that may answer. `context` is the call that an output belongs to."""

    text: str
    by_person: bool
    context: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """A candidate's number, its score, and the position of the answer in its text."""

    number: int
    score: float
    at: int


@dataclass(frozen=True, slots=True)
class _Folded:
    candidate: Candidate
    text: str
    context: str


@dataclass(frozen=True, slots=True)
class _Term:
    """A search term: a pair of characters anywhere, or the beginning of a word (`whole` if it is the whole word)."""

    text: str
    anywhere: bool = False
    whole: bool = False

    def find_places(self, text: str) -> Iterator[tuple[int, float]]:
        """Yield the positions of the term with their weights."""
        at = text.find(self.text)
        while at >= 0:
            end = at + len(self.text)
            begins = self.anywhere or at == 0 or not text[at - 1].isalnum()
            ends = not self.whole or end == len(text) or not text[end].isalnum()
            if begins and ends:
                yield at, 1.0
            elif not self.whole and not begins:
                yield at, INSIDE
            at = text.find(self.text, end)


class Ranking:
    """Ranks candidates for a question; rare words weigh more."""

    def __init__(self, candidates: Sequence[Candidate], query: str) -> None:
        terms = _parse_terms(query)
        self._folded = [_fold(each) for each in candidates]
        self._held = [_find_terms(each, terms) for each in self._folded]
        counts = Counter(term for each in self._held for term in each)
        size = len(candidates)
        rarity = {term: math.log(1 + (size - counts[term] + 0.5) / (counts[term] + 0.5)) for term in terms}
        least = LEAST_SHARE * max(rarity.values(), default=0.0)
        self._weights = {term: weight for term, weight in rarity.items() if weight >= least}

    def select_best(self, limit: int) -> list[Ranked]:
        """Return the best candidates that share a word with the question, best first; of equals the last given first."""
        bounds = [self._bound(folded, held) for folded, held in zip(self._folded, self._held, strict=True)]
        best: list[tuple[float, int, int]] = []
        for number in sorted(range(len(bounds)), key=lambda at: (-bounds[at], -at)):
            # No text scores more than all its words in one statement, so the rest cannot be better.
            if bounds[number] == 0 or (len(best) == limit and bounds[number] < best[0][0]):
                break
            score, at = _score(self._folded[number], self._weigh_terms(self._held[number]))
            heapq.heappush(best, (score, number, at))
            if len(best) > limit:
                heapq.heappop(best)
        return [Ranked(number=number, score=score, at=at) for score, number, at in sorted(best, reverse=True)]

    def judge(self, candidate: Candidate, *, number: int) -> Ranked:
        """Score one more candidate with the same weights."""
        folded = _fold(candidate)
        score, at = _score(folded, self._weigh_terms(_find_terms(folded, self._weights)))
        return Ranked(number=number, score=score, at=at)

    def _bound(self, folded: _Folded, held: Sequence[_Term]) -> float:
        return _weigh_speaker(folded.candidate) * sum(self._weigh_terms(held).values())

    def _weigh_terms(self, held: Sequence[_Term]) -> dict[_Term, float]:
        return {term: self._weights[term] for term in held if term in self._weights}


def _fold(candidate: Candidate) -> _Folded:
    return _Folded(candidate, _fold_text(candidate.text), _fold_text(candidate.context))


def _find_terms(folded: _Folded, terms: Iterable[_Term]) -> list[_Term]:
    return [term for term in terms if term.text in folded.text or term.text in folded.context]


def _score(folded: _Folded, weights: Mapping[_Term, float]) -> tuple[float, int]:
    """Return the score of the best statement, with its surroundings, and its position."""
    context = {term: max((worth for _, worth in term.find_places(folded.context)), default=0.0) for term in weights}
    breaks = [0, *(found.end() for found in _BREAK.finditer(folded.text))]
    statements: dict[int, dict[_Term, float]] = {}
    anywhere = {term: ELSEWHERE * worth for term, worth in context.items() if worth}
    for term in weights:
        for at, worth in term.find_places(folded.text):
            held = statements.setdefault(bisect_right(breaks, at) - 1, {})
            held[term] = max(worth, held.get(term, 0.0))
            anywhere[term] = max(ELSEWHERE * worth, anywhere.get(term, 0.0))
    best = (0.0, 0)
    most = sum(weights[term] for term in anywhere)
    for number, held in statements.items():
        own = sum(weights[term] * worth for term, worth in held.items())
        if own + BESIDE * (most - own) <= best[0]:
            continue
        sides = (statements.get(number - 1, {}), statements.get(number + 1, {}), context)
        end = breaks[number + 1] if number + 1 < len(breaks) else len(folded.text)
        over = max(0.0, (end - breaks[number]) / STATEMENT_CHARS - 1)
        score = sum(
            weights[term] * max(held.get(term, 0.0), *(BESIDE * side.get(term, 0.0) for side in sides), far)
            for term, far in anywhere.items()
        )
        best = max(best, (score / (1 + LENGTH_COST * math.log1p(over)), breaks[number]))
    if not statements:
        best = (BESIDE * sum(weights[term] * worth for term, worth in context.items()), 0)
    return best[0] * _weigh_speaker(folded.candidate), best[1]


def _weigh_speaker(candidate: Candidate) -> float:
    return PERSON if candidate.by_person else 1.0


def _parse_terms(query: str) -> list[_Term]:
    """Return the search terms of a question, each once."""
    found: dict[_Term, None] = {}
    words = _WORD.findall(_fold_text(query))
    for word in [word for word in words if word not in _PLAIN_FUNCTION_WORDS] or words:
        if _CJK.match(word):
            pairs = [word[at : at + 2] for at in range(len(word) - 1)] or [word]
            found.update(dict.fromkeys(_Term(pair, anywhere=True) for pair in pairs))
        else:
            found[_Term(word[:STEM_CHARS], whole=len(word) < LEAST_PREFIX)] = None
    return list(found)[:MOST_TERMS]


def _fold_text(text: str) -> str:
    """Return `text` in lower case without marks, character for character."""
    small = text.lower()
    if len(small) != len(text):
        small = "".join(letter if len(lower := letter.lower()) != 1 else lower for letter in text)
    return small if small.isascii() else small.translate(_PLAIN)


_PLAIN_FUNCTION_WORDS = frozenset(map(_fold_text, FUNCTION_WORDS))
