"""Recall: finds records on a live path, by pointer or by words, and ranks them by how well they answer."""

from __future__ import annotations

import heapq
import math
import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.dialects import Dialect
from threadkeep.errors import RecordNotFound
from threadkeep.items import Item, View
from threadkeep.store import Record, RecordKind, Search, Span, ThreadStore
from threadkeep.store.search_words import CJK, FUNCTION_WORDS, find_exact
from threadkeep.threads import LivePath, Pointer, SaidBody, read_remark
from threadkeep.threads.erasure_notes import ERASED

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
    """A search term: a pair of characters anywhere, or the beginning of a word (`whole` if it is the whole word).

    What a question names exactly, a path or an identifier, is a term of its own beside its words.
    """

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
        best = max(best, (score / (1 + LENGTH_COST * math.log1p(over)), number))
    if not statements:
        best = (BESIDE * sum(weights[term] * worth for term, worth in context.items()), 0)
    score, number = best
    at = _find_answer(folded.text, breaks[number], statements.get(number, {}), weights)
    return score * _weigh_speaker(folded.candidate), at


def _find_answer(text: str, start: int, held: Mapping[_Term, float], weights: Mapping[_Term, float]) -> int:
    """Return where a statement begins; in a long one, where its heaviest word is."""
    heaviest = max(held, key=lambda term: held[term] * weights[term], default=None)
    at = start if heaviest is None else text.find(heaviest.text, start)
    return at if at - start > EXCERPT_CHARS // 2 else start


def _weigh_speaker(candidate: Candidate) -> float:
    return PERSON if candidate.by_person else 1.0


def _parse_terms(query: str) -> list[_Term]:
    """Return the search terms of a question, each once."""
    found = {_Term(_fold_text(name), whole=True): None for name in find_exact(query)}
    words = _WORD.findall(_fold_text(query))
    for word in [word for word in words if word not in _PLAIN_FUNCTION_WORDS] or words:
        if _CJK.match(word):
            pairs = [word[at : at + 2] for at in range(len(word) - 1)] or [word]
            found.update(dict.fromkeys(_Term(pair, anywhere=True) for pair in pairs))
        else:
            found[_Term(word[:STEM_CHARS], whole=len(word) < LEAST_PREFIX)] = None
            if len(word) > STEM_CHARS and not word.isalpha():
                found[_Term(word, whole=True)] = None
    return list(found)[:MOST_TERMS]


def _fold_text(text: str) -> str:
    """Return `text` in lower case without marks, character for character."""
    small = text.lower()
    if len(small) != len(text):
        small = "".join(letter if len(lower := letter.lower()) != 1 else lower for letter in text)
    return small if small.isascii() else small.translate(_PLAIN)


_PLAIN_FUNCTION_WORDS = frozenset(map(_fold_text, FUNCTION_WORDS))


# The recall tool's name, alone or after its server's name.
_TOOL: Final = re.compile(r"(?:.*threadkeep.*[^a-z0-9])?recall", re.IGNORECASE | re.DOTALL)
# The beginning of its answers: as text, as JSON, from the MCP server.
_ANSWER: Final = re.compile(
    r"What was said, word for word:|Nothing that was said matches\.|\{\"recalled\""
    r"|\d+ from thread \S+, best first\. They are quotations|Nothing in thread \S+ matches .*Any one word would have been enough",
    re.DOTALL,
)
# Clients put a few words before a tool's output.
BEGINNING_CHARS: Final = 400


def is_echo(view: View) -> bool:
    """Whether an item is a call of the recall tool or its output."""
    if view.tool is not None:
        return _TOOL.fullmatch(view.tool) is not None
    return bool(view.closes) and _ANSWER.search(view.text, 0, BEGINNING_CHARS) is not None


# The index matches whole records; ranking needs many of them to find the best statement.
PROPOSED_PER_HIT = 24
# By how much the search grows while most hits are echoes, and its limit.
ASKED_AGAIN = 4
MOST_ASKED = 64
# How many of the best are ranked together with the records near them, and how many ordinals away those may be.
ANCHORS_PER_HIT = 4
REACH, PAIR_REACH = 4, 8
# The share of a better neighbour's lead that a message gets, by its distance in messages.
NEIGHBOURS = {-2: 0.17, -1: 0.35, 1: 0.35, 2: 0.17}
# Kinds that are no content and are not searched.
UNSEARCHED = frozenset(RecordKind) - {RecordKind.ITEM, RecordKind.NOTE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A recalled record, its text, and its score (1.0 for a pointer)."""

    pointer: Pointer
    text: str
    score: float
    kind: RecordKind


@dataclass(frozen=True, slots=True, kw_only=True)
class _Proposed:
    """A record proposed by the index; `context` is the other half of its call."""

    record: Record
    view: View
    text: str
    context: str = ""

    @property
    def pointer(self) -> Pointer:
        return Pointer(self.record.thread_id, self.record.ordinal)

    @property
    def candidate(self) -> Candidate:
        return Candidate(text=self.text, by_person=self.view.by_person, context=self.context)


async def recall_by_pointer(store: ThreadStore, path: LivePath, pointer: Pointer, *, dialect: Dialect) -> Recalled:
    """Return the whole record that a pointer names.

    It may be in the thread, on its live path or not, or in the part of an ancestor that the thread continues.

    Raises:
        RecordNotFound: There is no such record.
    """
    for thread_id in dict.fromkeys((pointer.thread_id, path.find_thread(pointer.ordinal) or pointer.thread_id)):
        span = Span(thread_id=thread_id, start=pointer.ordinal, stop=pointer.ordinal + 1)
        for record in await store.read(span):
            return Recalled(
                pointer=Pointer(record.thread_id, record.ordinal),
                text=_render_record(record, dialect),
                score=1.0,
                kind=record.kind,
            )
    raise RecordNotFound(pointer.thread_id, pointer.ordinal)


async def recall_by_words(
    store: ThreadStore, index: Search, path: LivePath, query: str, *, dialect: Dialect, limit: int
) -> list[Recalled]:
    """Return the best matches on the live path, each with the part that matches.

    The index proposes records by their words; `Ranking` orders them by how close the words are and who said them. Earlier
    recall calls and outputs are left out. The best bring the records near them, for a question's words are often in a call and
    the answer in its output, or in one message and the answer in the next.
    """
    looked = await _propose(store, index, path, query, dialect=dialect, wanted=limit * PROPOSED_PER_HIT)
    ranking = Ranking([each.candidate for each in looked], query)
    best = [looked[each.number] for each in ranking.select_best(limit * ANCHORS_PER_HIT)]
    around = await _read_around(store, path, best, looked, dialect=dialect)
    own = [ranking.judge(each.candidate, number=at) for at, each in enumerate(around)]
    scores = _add_neighbours(around, own)
    ranked = [each for each in sorted(own, key=lambda each: (-scores[each.number], -each.number)) if scores[each.number] > 0]
    return [
        Recalled(
            pointer=around[each.number].pointer,
            text=quote(around[each.number].text, at=each.at),
            score=round(scores[each.number], 3),
            kind=around[each.number].record.kind,
        )
        for each in ranked[:limit]
    ]


async def _propose(
    store: ThreadStore, index: Search, path: LivePath, query: str, *, dialect: Dialect, wanted: int
) -> list[_Proposed]:
    """Return records that the index proposes, without echoes of recall, oldest first.

    Echoes match their question best, so the search grows as long as most hits are echoes.
    """
    asked = wanted
    while True:
        hits = await index.search(path.spans, query, limit=asked)
        pointers = [Pointer(hit.thread_id, hit.ordinal) for hit in hits]
        looked = [_make_proposed(record, dialect) for record in await _read(store, pointers)]
        fresh = {Pointer(each.record.thread_id, each.record.ordinal): each for each in looked if not is_echo(each.view)}
        enough = len(fresh) >= wanted or len(fresh) == len(looked)
        if enough or len(hits) < asked or asked >= wanted * MOST_ASKED:
            best = [fresh[pointer] for pointer in pointers if pointer in fresh][:wanted]
            return sorted(best, key=lambda each: each.record.ordinal)
        asked *= ASKED_AGAIN


async def _read_around(
    store: ThreadStore, path: LivePath, best: Sequence[_Proposed], looked: Sequence[_Proposed], *, dialect: Dialect
) -> list[_Proposed]:
    """Return the best records and those near them, oldest first, each output with its call as context."""
    near: dict[Pointer, None] = {}
    for each in best:
        reach = PAIR_REACH if each.view.opens or each.view.closes else REACH
        for ordinal in range(each.record.ordinal - reach, each.record.ordinal + reach + 1):
            if path.find_thread(ordinal) == each.record.thread_id:
                near[Pointer(each.record.thread_id, ordinal)] = None
    known = {each.pointer: each for each in looked}
    read = [_make_proposed(record, dialect) for record in await _read(store, [at for at in near if at not in known])]
    known.update((each.pointer, each) for each in read if not is_echo(each.view))
    around = sorted((known[at] for at in near if at in known), key=lambda each: each.record.ordinal)
    calls = {call: each for each in around for call in each.view.opens}
    return [replace(each, context="\n".join(calls[call].text for call in each.view.closes if call in calls)) for each in around]


def _add_neighbours(around: Sequence[_Proposed], own: Sequence[Ranked]) -> list[float]:
    """Return the scores of records; a message beside a better one gains on it, for an answer often follows its question."""
    scores = [found.score for found in own]
    spoken = [at for at, each in enumerate(around) if not (each.view.opens or each.view.closes)]
    for place, at in enumerate(spoken):
        for step, share in NEIGHBOURS.items():
            other = spoken[place + step] if 0 <= place + step < len(spoken) else at
            if abs(around[other].record.ordinal - around[at].record.ordinal) <= PAIR_REACH:
                scores[at] += share * max(0.0, own[other].score - own[at].score)
    return scores


async def _read(store: ThreadStore, pointers: Iterable[Pointer]) -> list[Record]:
    wanted: defaultdict[str, set[int]] = defaultdict(set)
    for pointer in pointers:
        wanted[pointer.thread_id].add(pointer.ordinal)
    found: list[Record] = []
    for thread_id, ordinals in wanted.items():
        span = Span(thread_id=thread_id, start=min(ordinals), stop=max(ordinals) + 1)
        found += await store.read(span, ordinals=ordinals, kinds={RecordKind.ITEM})
    return [record for record in found if not record.erased]


def _make_proposed(record: Record, dialect: Dialect) -> _Proposed:
    view = dialect.view(Item(record.body))
    return _Proposed(record=record, view=view, text=view.text or record.body.decode("utf-8", "replace"))


def _render_record(record: Record, dialect: Dialect) -> str:
    """Return the text of an item or note, or the stored body of any other record."""
    if record.erased:
        return ERASED
    remark = read_remark(record)
    if remark is not None and isinstance(remark.body, SaidBody):
        return remark.body.text
    if record.kind in UNSEARCHED:
        return record.body.decode("utf-8", "replace")
    return dialect.view(Item(record.body)).text or record.body.decode("utf-8", "replace")
