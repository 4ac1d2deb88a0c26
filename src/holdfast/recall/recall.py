"""Finding records on a live path and quoting them."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass

from holdfast.dialects import Dialect
from holdfast.errors import RecordNotFound
from holdfast.items import Item
from holdfast.store import Record, RecordKind, Search, Span, ThreadStore
from holdfast.thread import LivePath, Pointer

EXCERPT_CHARS = 700
# How much is shown before the first word that matches.
EXCERPT_MARGIN = 120
PROPOSED_PER_HIT = 6
INDEX_WEIGHT = 4.0
STEM_CHARS = 5
# Recorded for the record, not shown to a model: a search for what was said should not return what was said about it.
UNSEARCHED = frozenset(RecordKind) - {RecordKind.ITEM, RecordKind.NOTE}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalled:
    """A record that answers, its text, and how well it matches (1.0 for a pointer)."""

    pointer: Pointer
    text: str
    score: float
    kind: RecordKind


async def recall_by_pointer(store: ThreadStore, path: LivePath, pointer: Pointer, *, dialect: Dialect) -> Recalled:
    """Return the record a pointer names, whole.

    The record may lie in the thread itself, on or off its live path, or in the part of an ancestor it continues.

    Raises:
        RecordNotFound: There is none.
    """
    for thread_id in dict.fromkeys((pointer.thread_id, path.holds(pointer.ordinal) or pointer.thread_id)):
        span = Span(thread_id=thread_id, start=pointer.ordinal, stop=pointer.ordinal + 1)
        for record in await store.read(span):
            return Recalled(
                pointer=Pointer(record.thread_id, record.ordinal), text=_text(record, dialect), score=1.0, kind=record.kind
            )
    raise RecordNotFound(pointer.thread_id, pointer.ordinal)


async def recall_by_words(
    store: ThreadStore, index: Search, path: LivePath, query: str, *, dialect: Dialect, limit: int
) -> list[Recalled]:
    """Return the best matches on the live path, each with the part of it that matches.

    The index proposes by the words of whole records; which of them answers is decided by what stands close together in one
    place, so that a long message with the answer in it is not outranked by a short one about something else.
    """
    proposed: list[Recalled] = []
    for hit in await index.search(path.spans, query, limit=limit * PROPOSED_PER_HIT):
        span = Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)
        for record in await store.read(span):
            text = excerpt(_text(record, dialect), query)
            pointer = Pointer(hit.thread_id, hit.ordinal)
            proposed.append(Recalled(pointer=pointer, text=text, score=round(hit.score, 3), kind=record.kind))
    return _closest(proposed, query)[:limit]


def _closest(proposed: list[Recalled], query: str) -> list[Recalled]:
    """Return the proposals by how much of the question their excerpts hold, a word's weight being how few of them hold it."""
    stems = {_stem(word) for word in _words(query)}
    held = [stems & {_stem(word) for word in _words(each.text)} for each in proposed]
    common = Counter(stem for each in held for stem in each)
    weights = [sum(math.log(1 + len(proposed) / common[stem]) for stem in each) for each in held]
    best = max((each.score for each in proposed), default=0.0) or 1.0
    # The index's own opinion counts as much as a few shared words do.
    order = sorted(range(len(proposed)), key=lambda place: -(weights[place] + INDEX_WEIGHT * proposed[place].score / best))
    return [proposed[place] for place in order]


def _words(text: str) -> list[str]:
    return [word.casefold() for word in re.findall(r"\w+", text)]


def _stem(word: str) -> str:
    """Return the part of a word that its forms share, roughly, in languages that inflect at the end."""
    return word if len(word) <= STEM_CHARS else word[:STEM_CHARS]


def excerpt(text: str, query: str) -> str:
    """Return the stretch of `text` that holds most of `query`: each word counts once, and the rarer the more."""
    if len(text) <= EXCERPT_CHARS:
        return text
    words = {word.casefold() for word in re.findall(r"\w+", query)}
    places = sorted((match.start(), match[0].casefold()) for match in _any_of(words).finditer(text)) if words else []
    if not places:
        return text[: EXCERPT_CHARS - 1] + "…"
    start = max(0, min(_densest(places) - EXCERPT_MARGIN, len(text) - EXCERPT_CHARS))
    stretch = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + stretch + ("…" if start + EXCERPT_CHARS < len(text) else "")


def _any_of(words: set[str]) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(re.escape(word) for word in sorted(words)) + r")\b", re.IGNORECASE)


def _densest(places: list[tuple[int, str]]) -> int:
    """Return where the stretch begins whose distinct words weigh most, a word's weight being how rare it is in the text."""
    weight = {word: 1 / count for word, count in Counter(word for _, word in places).items()}
    held: Counter[str] = Counter()
    best, best_start, total, last = -1.0, 0, 0.0, 0
    for first, (start, word) in enumerate(places):
        while last < len(places) and places[last][0] < start + EXCERPT_CHARS - EXCERPT_MARGIN:
            held[places[last][1]] += 1
            total += weight[places[last][1]] if held[places[last][1]] == 1 else 0
            last += 1
        # Of equals the last: it begins with the words that count, not with the filler that leads up to them.
        if round(total, 9) >= best:
            best, best_start = round(total, 9), start
        held[places[first][1]] -= 1
        total -= weight[word] if held[word] == 0 else 0
    return best_start


def _text(record: Record, dialect: Dialect) -> str:
    """Return a record as a reader wants it: what an item says, or any other body as it is stored."""
    if record.kind in UNSEARCHED:
        return record.body.decode("utf-8", "replace")
    return dialect.view(Item(record.body)).text or record.body.decode("utf-8", "replace")
