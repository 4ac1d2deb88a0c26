"""Finding records on a live path and quoting them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from holdfast.dialects import Dialect
from holdfast.errors import RecordNotFound
from holdfast.items import Item
from holdfast.store import Record, RecordKind, Search, Span, ThreadStore
from holdfast.thread import LivePath, Pointer

EXCERPT_CHARS = 700
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
    """Return the best matches on the live path, each with the part of it that matches."""
    hits = await index.search(path.spans, query, limit=limit)
    found: list[Recalled] = []
    for hit in hits:
        span = Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)
        for record in await store.read(span):
            text = excerpt(_text(record, dialect), query)
            pointer = Pointer(hit.thread_id, hit.ordinal)
            found.append(Recalled(pointer=pointer, text=text, score=round(hit.score, 3), kind=record.kind))
    return found


def excerpt(text: str, query: str) -> str:
    """Return the stretch of `text` that holds the most words of `query`."""
    if len(text) <= EXCERPT_CHARS:
        return text
    words = {word.casefold() for word in re.findall(r"\w+", query) if len(word) > 2}
    places = [match.start() for word in words for match in re.finditer(re.escape(word), text, re.IGNORECASE)]
    if not places:
        return text[: EXCERPT_CHARS - 1] + "…"
    half = EXCERPT_CHARS // 2
    best = max(places, key=lambda place: sum(1 for other in places if abs(other - place) <= half))
    start = max(0, min(best - half, len(text) - EXCERPT_CHARS))
    stretch = text[start : start + EXCERPT_CHARS]
    return ("…" if start else "") + stretch + ("…" if start + EXCERPT_CHARS < len(text) else "")


def _text(record: Record, dialect: Dialect) -> str:
    """Return a record as a reader wants it: what an item says, or any other body as it is stored."""
    if record.kind in UNSEARCHED:
        return record.body.decode("utf-8", "replace")
    return dialect.view(Item(record.body)).text or record.body.decode("utf-8", "replace")
