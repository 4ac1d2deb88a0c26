"""The list of threads, found by the words in their titles, their ids, or what was said in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.client import Threadkeep, ThreadSummary
from threadkeep.dialects import DIALECTS, find_dialect
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.store.base import FullStore
from threadkeep.threads import MetaBody, Pointer
from threadkeep.threads.reader import load_metadata
from threadkeep.threads.summary import find_title, summarise_thread
from threadkeep.viewer.record_lines import Line, describe_record

PAGE = 25
# How many threads a page looks at, newest first, before it offers to look further; the store searches one span for each.
MOST_LOOKED_AT = 500
MOST_HITS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What the list is asked for; `start` is the first thread to look at."""

    words: str = ""
    dialect: str = ""
    only: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """A record that contains the words."""

    pointer: Pointer
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A page of the list; `following` is the thread the next page begins at, None at the end.

    `looked_at` is how many threads were looked at where the page ends for that reason, else 0. `hits` are records found in the
    threads looked at, None where no words were asked for.
    """

    threads: tuple[ThreadSummary, ...]
    hits: tuple[Hit, ...] | None
    following: int | None
    looked_at: int = 0
    dialects: tuple[str, ...] = tuple(sorted(DIALECTS))


async def list_threads(tk: Threadkeep, wanted: Filter) -> Listing:
    """Return the threads that pass a filter, the most recently written first."""
    store = tk.backend.store
    stop = wanted.start + MOST_LOOKED_AT
    rows = await store.threads(limit=stop + 1)
    found: list[ThreadSummary] = []
    following = stop if len(rows) > stop else None
    for at, row in enumerate(rows[wanted.start : stop], start=wanted.start):
        meta = await load_metadata(store, row.id)
        if await _passes(store, row, meta, wanted):
            if len(found) == PAGE:
                following = at
                break
            found.append(await summarise_thread(store, row, meta))
    return Listing(
        threads=tuple(found),
        hits=await _search(store, rows[wanted.start : stop], wanted.words) if wanted.words else None,
        following=following,
        looked_at=stop if following == stop else 0,
    )


async def _passes(store: ThreadStore, row: ThreadRow, meta: MetaBody, wanted: Filter) -> bool:
    """Whether a thread passes the filter; the cheap checks come first."""
    if (wanted.dialect and row.dialect != wanted.dialect) or (wanted.only == "forks" and row.parent is None):
        return False
    if meta.archived != (wanted.only == "archived"):
        return False
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    if wanted.only == "compacted" and not await store.read(own, kinds={RecordKind.CHECKPOINT}, limit=1, bodies=False):
        return False
    text = f"{row.id} {await find_title(store, row, meta)}".casefold() if wanted.words else ""
    return all(word in text for word in wanted.words.casefold().split())


async def _search(store: FullStore, rows: Sequence[ThreadRow], words: str) -> tuple[Hit, ...]:
    dialects = {row.id: find_dialect(row.dialect) for row in rows}
    spans = [Span(thread_id=row.id, start=row.start, stop=row.next) for row in rows]
    found: list[Hit] = []
    for hit in await store.search(spans, words, limit=MOST_HITS) if spans else ():
        for record in await store.read(Span(thread_id=hit.thread_id, start=hit.ordinal, stop=hit.ordinal + 1)):
            line = describe_record(record, dialects[hit.thread_id])
            found.append(Hit(pointer=Pointer(hit.thread_id, hit.ordinal), line=line))
    return tuple(found)
