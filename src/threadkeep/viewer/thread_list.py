"""The list of threads, found by the words in their titles, their ids, or what was said in them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from threadkeep.client import Threadkeep
from threadkeep.dialects import DIALECTS, find_dialect
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.store.base import FullStore
from threadkeep.threads import MetaBody, Pointer, TurnBody
from threadkeep.threads.reader import load_current_turn, load_metadata, read_body
from threadkeep.viewer.record_lines import Line, describe_record
from threadkeep.viewer.window_sizes import measure_window

PAGE = 25
# How many threads a page filters, newest first, before it offers to look further.
MOST_FILTERED = 1_000
# In how many threads words are searched at once; the store searches one span for each.
MOST_SEARCHED = 500
MOST_HITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the list is asked for; `start` is the first thread to filter, `search_start` the first to search in."""

    words: str = ""
    dialect: str = ""
    only: str = ""
    start: int = 0
    search_start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedThread:
    """A thread in the list; `tokens` is the size of its window."""

    row: ThreadRow
    title: str
    turns: int
    compactions: int
    archived: bool
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that contains the words."""

    pointer: Pointer
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Hits:
    """The records found in the `searched` newest threads; `following` is the thread to search from next."""

    found: tuple[Hit, ...] = ()
    searched: int = 0
    following: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list; `following` is the thread the next page begins at, None at the end.

    `filtered` is how many threads were filtered if the page ends for that reason, else 0.
    """

    threads: tuple[ListedThread, ...]
    hits: Hits
    following: int | None
    filtered: int = 0
    dialects: tuple[str, ...] = tuple(sorted(DIALECTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A thread that passed the filter."""

    row: ThreadRow
    title: str
    archived: bool


async def list_threads(tk: Threadkeep, wanted: Filter) -> Listing:
    """Return the threads that pass a filter, the most recently written first."""
    store = tk.backend.store
    stop = wanted.start + MOST_FILTERED
    rows = await store.threads(limit=stop + 1)
    found: list[_Candidate] = []
    following = stop if len(rows) > stop else None
    for at, row in enumerate(rows[wanted.start : stop], start=wanted.start):
        candidate = await _filter_thread(store, row, wanted)
        if candidate is not None and len(found) == PAGE:
            following = at
            break
        found += [candidate] if candidate is not None else []
    is_capped = following == stop
    if is_capped:
        found += await _find_by_id(store, wanted, known={row.id for row in rows[wanted.start : stop]}, limit=PAGE - len(found))
    return Listing(
        threads=tuple([await _measure_thread(store, candidate) for candidate in found]),
        hits=await _search(store, wanted) if wanted.words and wanted.start == 0 else Hits(),
        following=following,
        filtered=stop if is_capped else 0,
    )


async def find_title(store: ThreadStore, row: ThreadRow) -> str:
    """Return a thread's title: its own, else the first line a person said in it or in the thread it was forked from."""
    return await _find_title(store, row, await load_metadata(store, row.id))


async def _find_title(store: ThreadStore, row: ThreadRow, meta: MetaBody) -> str:
    if meta.title:
        return meta.title
    while True:
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        for record in await store.read(own, kinds={RecordKind.TURN}, limit=1):
            turn = read_body(record, TurnBody)
            return turn.preview if turn else ""
        if row.parent is None:
            return ""
        row = await store.get(row.parent)


async def _filter_thread(store: ThreadStore, row: ThreadRow, wanted: Filter) -> _Candidate | None:
    """Return a thread if it passes; the cheap checks come first."""
    if wanted.dialect and row.dialect != wanted.dialect:
        return None
    if wanted.only == "forks" and row.parent is None:
        return None
    meta = await load_metadata(store, row.id)
    if meta.archived != (wanted.only == "archived"):
        return None
    if wanted.only == "compacted" and not await _count_compactions(store, row, limit=1):
        return None
    title = await _find_title(store, row, meta)
    text = f"{row.id} {title}".casefold()
    if not all(word in text for word in wanted.words.casefold().split()):
        return None
    return _Candidate(row=row, title=title, archived=meta.archived)


async def _find_by_id(store: ThreadStore, wanted: Filter, *, known: Collection[str], limit: int) -> list[_Candidate]:
    """Return threads beyond those filtered whose id begins with the words."""
    if not wanted.words or limit <= 0:
        return []
    beyond = [row for row in await store.threads(prefix=wanted.words, limit=PAGE) if row.id not in known]
    found = [await _filter_thread(store, row, wanted) for row in beyond[:limit]]
    return [each for each in found if each is not None]


async def _count_compactions(store: ThreadStore, row: ThreadRow, *, limit: int | None = None) -> int:
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    return len(await store.read(own, kinds={RecordKind.CHECKPOINT}, limit=limit, bodies=False))


async def _measure_thread(store: ThreadStore, candidate: _Candidate) -> ListedThread:
    return ListedThread(
        row=candidate.row,
        title=candidate.title,
        turns=await load_current_turn(store, candidate.row, stop=candidate.row.next),
        compactions=await _count_compactions(store, candidate.row),
        archived=candidate.archived,
        tokens=await measure_window(store, candidate.row),
    )


async def _search(store: FullStore, wanted: Filter) -> Hits:
    stop = wanted.search_start + MOST_SEARCHED
    rows = await store.threads(limit=stop + 1)
    searched = rows[wanted.search_start : stop]
    dialects = {row.id: row.dialect for row in searched}
    spans = [Span(thread_id=row.id, start=row.start, stop=row.next) for row in searched]
    found: list[Hit] = []
    for hit in await store.search(spans, wanted.words, limit=MOST_HITS) if spans else ():
        span = Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)
        for record in await store.read(span):
            line = describe_record(record, find_dialect(dialects[hit.thread_id]))
            found.append(Hit(pointer=Pointer(hit.thread_id, hit.ordinal), line=line))
    upto = wanted.search_start + len(searched)
    return Hits(found=tuple(found), searched=upto, following=upto if len(rows) > upto else None)
