"""Finds records on a live path and quotes them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from threadkeep.dialects import Dialect
from threadkeep.errors import RecordNotFound
from threadkeep.items import Item, View
from threadkeep.recall.relevance import Candidate, Ranking, quote
from threadkeep.store import Record, RecordKind, Search, Span, ThreadStore
from threadkeep.threads import LivePath, Pointer, SaidBody, read_remark
from threadkeep.threads.tombstones import ERASED

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
# How many of the best are ranked with the other half of their call, and how far apart halves may be.
PAIRED_PER_HIT = 3
PAIR_REACH = 8
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

    The index proposes records by their words; `relevance` ranks them by how close the words are and who said them. Earlier
    recall calls and outputs are left out. A tool's output is ranked together with its call, because a question's words are often
    in the call and the answer in the output.
    """
    looked = await _propose(store, index, path, query, dialect=dialect, wanted=limit * PROPOSED_PER_HIT)
    ranking = Ranking([each.candidate for each in looked], query)
    first = ranking.select_best(limit * PAIRED_PER_HIT)
    pairs = await _add_pairs(store, path, [looked[each.number] for each in first], dialect=dialect)
    everything = [*looked, *pairs]
    ranked = [*first, *(ranking.judge(each.candidate, number=len(looked) + at) for at, each in enumerate(pairs))]
    found: dict[Pointer, Recalled] = {}
    for each in sorted(ranked, key=lambda each: -each.score):
        record, text = everything[each.number].record, everything[each.number].text
        pointer = Pointer(record.thread_id, record.ordinal)
        if each.score > 0 and pointer not in found:
            found[pointer] = Recalled(pointer=pointer, text=quote(text, at=each.at), score=round(each.score, 3), kind=record.kind)
    return list(found.values())[:limit]


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


async def _add_pairs(store: ThreadStore, path: LivePath, looked: Sequence[_Proposed], *, dialect: Dialect) -> list[_Proposed]:
    """Return the outputs among and near these records, each with its call as context."""
    near: set[Pointer] = set()
    for each in looked:
        reach = range(1, PAIR_REACH) if each.view.opens else range(-PAIR_REACH + 1, 0) if each.view.closes else ()
        near.update(Pointer(each.record.thread_id, each.record.ordinal + step) for step in reach)
    on_path = (pointer for pointer in near if path.find_thread(pointer.ordinal) == pointer.thread_id)
    around = [*looked, *(_make_proposed(record, dialect) for record in await _read(store, on_path))]
    calls = {call: each for each in around for call in each.view.opens}
    chosen = {call for each in looked for call in (*each.view.opens, *each.view.closes)}
    return [
        replace(each, context="\n".join(calls[call].text for call in each.view.closes if call in calls))
        for each in around
        if chosen.intersection(each.view.closes)
    ]


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
