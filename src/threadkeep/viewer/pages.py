"""The pages that only look: each is what a template needs, gathered from the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import Section, ledger_of
from threadkeep.compaction.comparison import compare
from threadkeep.compaction.failed_attempts import newest_in_vain
from threadkeep.compaction.strategies import DEFAULT, STRATEGIES
from threadkeep.errors import BadInput, InvalidPointer, StoreCorrupt
from threadkeep.memory.memory import Memories
from threadkeep.memory.records import Kept
from threadkeep.threads import Pointer, parse_pointer
from threadkeep.threads.reader import load_current_turn, load_live_path, load_metadata
from threadkeep.tokens import Pressure
from threadkeep.viewer import compactions
from threadkeep.viewer.diffs import PAGE, groups_of, positions, side_by_side
from threadkeep.viewer.losses import Places, archive_of, verdict_of
from threadkeep.viewer.relations import correspondence_of, family_of
from threadkeep.viewer.renderer import render, thread_url
from threadkeep.viewer.responses import Answer
from threadkeep.viewer.size_history import Lives
from threadkeep.viewer.thread_list import Filter, list_threads, title_of
from threadkeep.viewer.timeline import SIDES, Place, open_record, timeline
from threadkeep.viewer.window_sizes import Sizes, pressure_on

Query = Mapping[str, str]
Values = dict[str, object]

FOUND = 20
FATES = ("left", "shortened", "kept", "rewritten", "new")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What every page needs: what all templates show, and what is known from pages before."""

    common: Values
    sizes: Sizes
    lives: Lives


async def threads_page(tk: Threadkeep, query: Query, sight: Sight) -> Answer:
    """The list, with search and filters."""
    asked = Filter(
        words=query.get("q", "").strip(),
        dialect=query.get("dialect", ""),
        only=query.get("only", ""),
        start=number_in(query, "start") or 0,
        said_from=number_in(query, "said") or 0,
    )
    listing = await list_threads(tk, asked, sizes=sight.sizes)
    return Answer(body=render("threads.html", {**sight.common, "asked": asked, "listing": listing}))


async def memory_page(tk: Threadkeep, query: Query, sight: Sight) -> Answer:
    """What is remembered across threads."""
    words = query.get("q", "").strip()
    known = await remembered(tk, words)
    values: Values = {"words": words, "found": known.found, "total": known.total}
    return Answer(body=render("memory.html", {**sight.common, **values, "pending": known.pending, "failures": known.failures}))


async def overview_page(tk: Threadkeep, thread: Thread, query: Query, sight: Sight) -> Answer:
    """A thread at a glance: how full it is, how that came, what compacted it, whom it is related to."""
    store = tk.backend.store
    places = await compactions.numbered(store, thread.id)
    shown = await compactions.summaries(store, list(reversed(places[-compactions.SHOWN :])))
    known = await load_metadata(store, thread.id)
    values: Values = {
        "pressure": await _pressure(tk, thread, sizes=sight.sizes),
        "places": places,
        "compactions": shown,
        "in_vain": await newest_in_vain(store, await load_live_path(store, thread.id, whole=True), most=compactions.SHOWN),
        "family": await family_of(store, thread.id),
        "mail": await correspondence_of(tk, thread),
        "known": known,
        "strategies": [name for name in STRATEGIES if name != DEFAULT],
        "done": query.get("done", ""),
        "done_at": number_in(query, "at"),
    }
    return Answer(body=render("overview.html", {**sight.common, **await _head(tk, thread), **values}))


async def timeline_page(tk: Threadkeep, thread: Thread, query: Query, sight: Sight) -> Answer:
    """A page of the thread's records."""
    side = query.get("side", "all")
    if side not in SIDES:
        raise BadInput(f"there is no side {side!r} of a timeline")
    place = Place(
        side=side,
        at=number_in(query, "at"),
        before=number_in(query, "before"),
        after=number_in(query, "after"),
        since=number_in(query, "since"),
    )
    page = await timeline(tk, thread, place)
    places = {each.record.ordinal: each.number for each in await compactions.numbered(tk.backend.store, thread.id)}
    values: Values = {"page": page, "place": place, "sides": SIDES, "numbers": places}
    return Answer(body=render("timeline.html", {**sight.common, **await _head(tk, thread), **values}))


async def record_page(tk: Threadkeep, thread: Thread, ordinal: int, query: Query, sight: Sight) -> Answer:
    """One record, whole; with `part=body` only what a page shows when a line is opened."""
    opened = await open_record(tk, thread, ordinal)
    if query.get("part") == "body":
        return Answer(body=render("record_body.html", {**sight.common, "thread": thread, "opened": opened}))
    return Answer(body=render("record.html", {**sight.common, **await _head(tk, thread), "opened": opened}))


async def raw_record(tk: Threadkeep, thread: Thread, ordinal: int) -> Answer:
    """A record's bytes, to be saved and never to be rendered."""
    opened = await open_record(tk, thread, ordinal)
    name = f'attachment; filename="record-{ordinal}.json"'.encode()
    return Answer(body=opened.record.body, content_type=b"application/octet-stream", headers=((b"content-disposition", name),))


async def compaction_page(tk: Threadkeep, thread: Thread, ordinal: int, query: Query, sight: Sight) -> Answer:
    """What one compaction did: to the window, to the ledger, at which cost, and what the audit found."""
    store = tk.backend.store
    since = number_in(query, "from")
    opened = await compactions.open_compaction(store, thread.id, ordinal, since=since)
    places = await compactions.numbered(store, thread.id)
    index = next((at for at, place in enumerate(places) if place.record.ordinal == ordinal), None)
    only = query.get("fate", "")
    start = number_in(query, "start") or 0
    windows = side_by_side(opened.before, opened.after, thread.dialect, start=start, only=only if only in FATES else "")
    changes = compare(opened.earlier, opened.later)
    groups = groups_of(changes)
    base = thread_url(thread.id, "c", ordinal)
    beside = f"&from={since}" if since is not None else ""
    places_of = Places(left=f"{base}?fate=left{beside}#windows", shortened=f"{base}?fate=shortened{beside}#windows")
    values: Values = {
        "opened": opened,
        "verdict": verdict_of(await archive_of(store, opened), opened.audit, windows, groups, places=places_of),
        "since": since,
        "places": places,
        "place": places[index] if index is not None else None,
        "previous": places[index - 1] if index else None,
        "following": places[index + 1] if index is not None and index + 1 < len(places) else None,
        "groups": groups,
        "changes": changes,
        "windows": windows,
        "fate": only,
        "page_rows": PAGE,
    }
    return Answer(body=render("compaction.html", {**sight.common, **await _head(tk, thread), **values}))


async def state_page(tk: Threadkeep, thread: Thread, query: Query, sight: Sight) -> Answer:
    """The session state as of the newest compaction that counts, and what was pinned and noted since."""
    history = await thread.history()
    ledger = ledger_of(history)
    values: Values = {
        "ledger": ledger,
        "sections": list(Section),
        "checkpoint": history.checkpoint_ordinal,
        "done": query.get("done", ""),
        "entry": ledger.find(query.get("entry", "")),
    }
    return Answer(body=render("state.html", {**sight.common, **await _head(tk, thread), **values}))


async def window_page(tk: Threadkeep, thread: Thread, query: Query, sight: Sight) -> Answer:
    """What the model sees next, position by position."""
    history = await thread.history()
    start = number_in(query, "start") or 0
    every = positions(history, thread.dialect)
    values: Values = {
        "positions": every[start : start + PAGE],
        "start": start,
        "total": len(every),
        "page_rows": PAGE,
        "tokens": history.tokens,
    }
    return Answer(body=render("window.html", {**sight.common, **await _head(tk, thread), **values}))


async def find_page(tk: Threadkeep, thread: Thread, query: Query, sight: Sight) -> Answer:
    """Originals that match some words, as `recall` finds them."""
    words = query.get("q", "").strip()
    hits = await thread.recall(words, limit=FOUND) if words else []
    return Answer(body=render("find.html", {**sight.common, **await _head(tk, thread), "words": words, "hits": hits}))


async def series_data(tk: Threadkeep, thread: Thread, _: Query, sight: Sight) -> Answer:
    """The figures of the plot."""
    body = msgspec.json.encode(await sight.lives.series_of(tk, thread))
    return Answer(body=body, content_type=b"application/json")


ThreadPage = Callable[[Threadkeep, Thread, Query, Sight], Awaitable[Answer]]
THREAD_PAGES: Mapping[str, ThreadPage] = {
    "": overview_page,
    "timeline": timeline_page,
    "state": state_page,
    "window": window_page,
    "find": find_page,
    "series.json": series_data,
}
RecordPage = Callable[[Threadkeep, Thread, int, Query, Sight], Awaitable[Answer]]
RECORD_PAGES: Mapping[str, RecordPage] = {"r": record_page, "c": compaction_page}


async def _head(tk: Threadkeep, thread: Thread) -> Values:
    """Return what stands at the top of every page of a thread."""
    store = tk.backend.store
    row = await store.get(thread.id)
    return {
        "thread": thread,
        "row": row,
        "title": await title_of(store, row),
        "turns": await load_current_turn(store, row, stop=row.next),
    }


async def _pressure(tk: Threadkeep, thread: Thread, *, sizes: Sizes) -> Pressure | None:
    """Return how full the window is; None where damage keeps it from being put together."""
    try:
        return await pressure_on(tk, thread, sizes=sizes)
    except StoreCorrupt:
        return None


def number_in(query: Query, name: str) -> int | None:
    """Return a number of the address.

    Raises:
        BadInput: It is none.
    """
    said = query.get(name, "").removeprefix("#")
    if not said:
        return None
    if not (said.isascii() and said.isdecimal()) or len(said) > 15:
        raise BadInput(f"{name} must be a number, not {said!r}")
    return int(said)


# The most useful ones; a search finds the rest.
MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """A memory and the records behind it."""

    memory: Kept
    sources: tuple[Pointer, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Remembered:
    """Memories that fit, of how many; threads that were read and wait to be taken in, and those to be tried again."""

    found: tuple[Memory, ...]
    total: int
    pending: int
    failures: int


async def remembered(tk: Threadkeep, words: str) -> Remembered:
    """Return the memories that match some words; without any, the most useful ones."""
    memories = Memories(tk.backend)
    state = await memories.state()
    found = await memories.search(words, limit=MOST_SHOWN) if words else state.memories[:MOST_SHOWN]
    return Remembered(
        found=tuple(Memory(memory=kept, sources=tuple(_pointers(kept.sources))) for kept in found),
        total=len(state.memories),
        pending=len(state.pending),
        failures=len(state.failures),
    )


def _pointers(sources: Sequence[str]) -> Iterator[Pointer]:
    """Yield what can be linked; a source written by hand may be anything."""
    for source in sources:
        try:
            yield parse_pointer(source)
        except InvalidPointer:
            continue
