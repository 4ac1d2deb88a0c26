"""The list of threads: what each is about, found by words in its title, its id, or what was said in it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from threadkeep.client import Threadkeep
from threadkeep.dialects import DIALECTS, find_dialect
from threadkeep.store import Hit, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.store.base import FullStore
from threadkeep.threads import MetaBody, Pointer, TurnBody
from threadkeep.threads.reader import load_current_turn, read_body
from threadkeep.viewer.record_lines import Told, told
from threadkeep.viewer.window_sizes import Sizes

PAGE = 25
# How many threads a page looks through, newest first, before it says so and offers to look further.
MOST_LOOKED_AT = 1_000
# In how many threads words are searched for at once; a store's search is asked about a span for each of them.
SEARCHED_THREADS = 500
# The newest are searched first: words that are said everywhere are found there, and the rest need not be asked.
SEARCHED_FIRST = 100
HITS_SHOWN = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What is asked of the list: `start` is the thread it goes on from, `said_from` the one from which on words are searched."""

    words: str = ""
    dialect: str = ""
    only: str = ""
    start: int = 0
    said_from: int = 0


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
class Mentions:
    """What was said with the words searched for, in so many threads from the newest on; `following` is where to look further."""

    found: tuple[Mention, ...] = ()
    searched: int = 0
    following: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list. `following` is where the next one begins, None at the end.

    `looked_at` is how many threads were looked through, if that is why the page ends; 0 if it does not.
    """

    threads: tuple[ListedThread, ...]
    mentions: Mentions
    following: int | None
    looked_at: int = 0
    dialects: tuple[str, ...] = tuple(sorted(DIALECTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Known:
    """What a filter is asked about, read without the thread's window."""

    row: ThreadRow
    title: str
    archived: bool


async def list_threads(tk: Threadkeep, asked: Filter, *, sizes: Sizes) -> Listing:
    """Return the threads that fit, the most recently written first. Costs what a page shows and the filter passes over."""
    store = tk.backend.store
    stop = asked.start + MOST_LOOKED_AT
    rows = await store.threads(limit=stop + 1)
    fitting: list[_Known] = []
    following = stop if len(rows) > stop else None
    for at, row in enumerate(rows[asked.start : stop], start=asked.start):
        known = await _fitting(store, row, asked)
        if known is not None and len(fitting) == PAGE:
            following = at
            break
        fitting += [known] if known is not None else []
    capped = following == stop
    if capped:
        fitting += await _named(store, asked, known={row.id for row in rows[asked.start : stop]}, limit=PAGE - len(fitting))
    return Listing(
        threads=tuple([await _listed(store, known, sizes=sizes) for known in fitting]),
        mentions=await _mentions(store, asked) if asked.words and asked.start == 0 else Mentions(),
        following=following,
        looked_at=stop if capped else 0,
    )


async def title_of(store: ThreadStore, row: ThreadRow) -> str:
    """Return a thread's title: its own, else the first line a person said in it or in what it was forked from."""
    return await _title(store, row, await _described(store, row))


async def _described(store: ThreadStore, row: ThreadRow) -> MetaBody:
    """Return what a thread says about itself, from its row alone."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    for record in await store.read(own, kinds={RecordKind.META}, newest_first=True, limit=1):
        if (known := read_body(record, MetaBody)) is not None:
            return known
    return MetaBody(dialect=row.dialect, parent=row.parent)


async def _title(store: ThreadStore, row: ThreadRow, known: MetaBody) -> str:
    if known.title:
        return known.title
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            opened = read_body(record, TurnBody)
            return opened.preview if opened else ""
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


async def _fitting(store: ThreadStore, row: ThreadRow, asked: Filter) -> _Known | None:
    """Return a thread if it fits; what costs nothing is asked first."""
    if asked.dialect and row.dialect != asked.dialect:
        return None
    if asked.only == "forks" and row.parent is None:
        return None
    said = await _described(store, row)
    if said.archived != (asked.only == "archived"):
        return None
    if asked.only == "compacted" and not await _checkpoints(store, row, limit=1):
        return None
    title = await _title(store, row, said)
    told_here = f"{row.id} {title}".casefold()
    if not all(word in told_here for word in asked.words.casefold().split()):
        return None
    return _Known(row=row, title=title, archived=said.archived)


async def _named(store: ThreadStore, asked: Filter, *, known: Collection[str], limit: int) -> list[_Known]:
    """Return threads beyond those looked at whose id begins with what is asked for: an id finds its thread wherever it stands."""
    if not asked.words or limit <= 0:
        return []
    beyond = [row for row in await store.threads(prefix=asked.words, limit=PAGE) if row.id not in known]
    found = [await _fitting(store, row, asked) for row in beyond[:limit]]
    return [each for each in found if each is not None]


async def _checkpoints(store: ThreadStore, row: ThreadRow, *, limit: int | None = None) -> int:
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    return len(await store.read(own, kinds={RecordKind.CHECKPOINT}, limit=limit, bodies=False))


async def _listed(store: ThreadStore, known: _Known, *, sizes: Sizes) -> ListedThread:
    return ListedThread(
        row=known.row,
        title=known.title,
        turns=await load_current_turn(store, known.row, stop=known.row.next),
        compactions=await _checkpoints(store, known.row),
        archived=known.archived,
        tokens=await sizes.of(store, known.row),
    )


async def _mentions(store: FullStore, asked: Filter) -> Mentions:
    stop = asked.said_from + SEARCHED_THREADS
    rows = await store.threads(limit=stop + 1)
    dialects = {row.id: row.dialect for row in rows}
    spans = [Span(thread_id=row.id, start=row.start, stop=row.next) for row in rows[asked.said_from : stop]]
    searched = 0
    hits: list[Hit] = []
    for part in (spans[:SEARCHED_FIRST], spans[SEARCHED_FIRST:]):
        if part and len(hits) < HITS_SHOWN:
            hits += await store.search(part, asked.words, limit=HITS_SHOWN - len(hits))
            searched += len(part)
    found: list[Mention] = []
    for hit in hits:
        span = Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)
        dialect = find_dialect(dialects[hit.thread_id])
        found.extend(
            Mention(pointer=Pointer(hit.thread_id, hit.ordinal), told=told(record, dialect)) for record in await store.read(span)
        )
    upto = asked.said_from + searched
    return Mentions(found=tuple(found), searched=upto, following=upto if len(rows) > upto else None)
