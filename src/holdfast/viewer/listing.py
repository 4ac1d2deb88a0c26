"""The list of threads: what each is about, found by words in its title, its id, or what was said in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from holdfast.dialects import DIALECTS, dialect_named
from holdfast.runtime import Holdfast
from holdfast.runtime.backend import Backing
from holdfast.runtime.describing import description
from holdfast.runtime.reading import current_turn, readable
from holdfast.store import RecordKind, Span, ThreadRow, ThreadStore
from holdfast.thread import Pointer, TurnBody
from holdfast.viewer.sizes import Sizes
from holdfast.viewer.wording import Told, told

PAGE = 25
# How many threads a filter looks through, newest first, before it says that it looked no further.
MOST_LOOKED_AT = 5_000
# Words said in a thread are searched for in the newest threads alone: every one of them is a span of the search.
SEARCHED_THREADS = 500
HITS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is asked of the list."""

    words: str = ""
    dialect: str = ""
    only: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedThread:
    """A thread in the list; `tokens` is its window's size."""

    row: ThreadRow
    title: str
    turns: int
    compactions: int
    archived: bool
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A record in which the words that are searched for were said."""

    pointer: Pointer
    told: Told


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list. `following` is where the next one begins, None at the end."""

    threads: tuple[ListedThread, ...]
    mentions: tuple[Mention, ...]
    following: int | None
    dialects: tuple[str, ...] = tuple(sorted(DIALECTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a filter is asked about, read without the thread's window."""

    at: int
    row: ThreadRow
    title: str
    archived: bool
    compactions: int


async def list_threads(hf: Holdfast, asked: Filter, *, sizes: Sizes) -> Listing:
    """Return the threads that fit, the most recently written first. Costs what a page shows and the filter passes over."""
    store = hf.backend.store
    found: list[ListedThread] = []
    following = None
    async for known in _fitting(store, asked):
        if len(found) == PAGE:
            following = known.at
            break
        found.append(await _listed(store, known, sizes=sizes))
    mentions = await _mentions(store, asked) if asked.words and asked.start == 0 else ()
    return Listing(threads=tuple(found), mentions=mentions, following=following)


async def title_of(store: ThreadStore, row: ThreadRow) -> str:
    """Return a thread's title: its own, else the first line a person said in it or in what it was forked from."""
    known = await description(store, row.id)
    if known.title:
        return known.title
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            opened = readable(record, TurnBody)
            return opened.preview if opened else ""
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


async def _fitting(store: ThreadStore, asked: Filter) -> AsyncIterator[_Known]:
    words = asked.words.casefold().split()
    rows = await store.threads(limit=MOST_LOOKED_AT)
    for at, row in enumerate(rows[asked.start :], start=asked.start):
        if asked.dialect and row.dialect != asked.dialect:
            continue
        if asked.only == "forks" and row.parent is None:
            continue
        archived = (await description(store, row.id)).archived
        if archived != (asked.only == "archived"):
            continue
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        compactions = len(await store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False))
        if asked.only == "compacted" and not compactions:
            continue
        title = await title_of(store, row)
        told_here = f"{row.id} {title}".casefold()
        if all(word in told_here for word in words):
            yield _Known(at=at, row=row, title=title, archived=archived, compactions=compactions)


async def _listed(store: ThreadStore, known: _Known, *, sizes: Sizes) -> ListedThread:
    return ListedThread(
        row=known.row,
        title=known.title,
        turns=await current_turn(store, known.row, stop=known.row.next),
        compactions=known.compactions,
        archived=known.archived,
        tokens=await sizes.of(store, known.row),
    )


async def _mentions(store: Backing, asked: Filter) -> tuple[Mention, ...]:
    rows = {row.id: row for row in await store.threads(limit=SEARCHED_THREADS)}
    spans = [Span(thread_id=row.id, start=row.start, stop=row.next) for row in rows.values()]
    mentions: list[Mention] = []
    for hit in await store.search(spans, asked.words, limit=HITS_SHOWN):
        span = Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)
        dialect = dialect_named(rows[hit.thread_id].dialect)
        mentions.extend(
            Mention(pointer=Pointer(hit.thread_id, hit.ordinal), told=told(record, dialect)) for record in await store.read(span)
        )
    return tuple(mentions)
