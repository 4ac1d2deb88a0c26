"""The pages of the viewer: each gathers from the store what its template needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import Section, read_ledger
from threadkeep.compaction.drafts.strategies import DEFAULT, STRATEGIES
from threadkeep.compaction.report import compare
from threadkeep.compaction.run import find_newest_failed_attempts
from threadkeep.errors import BadInput, InvalidPointer, StoreCorrupt
from threadkeep.memory.memory import Memories
from threadkeep.threads import Pointer, parse_pointer
from threadkeep.threads.reader import find_last_usage, load_checkpoint, load_current_turn, load_live_path, load_metadata
from threadkeep.threads.summary import find_title, measure_window
from threadkeep.tokens import Pressure, measure_pressure
from threadkeep.viewer.compactions import check_originals, number_compactions, open_compaction, read_compaction_row
from threadkeep.viewer.diffs import PAGE, compare_windows, group_changes, list_positions
from threadkeep.viewer.relations import find_tree, read_mail
from threadkeep.viewer.renderer import render
from threadkeep.viewer.responses import Response
from threadkeep.viewer.size_history import read_size_history
from threadkeep.viewer.thread_list import Filter, list_threads
from threadkeep.viewer.timeline import KINDS, Place, open_record, read_timeline

Query = Mapping[str, str]
Values = dict[str, object]

MOST_HITS = 20
# A search finds the memories beyond these.
MOST_MEMORIES = 200
# The overview shows the newest ones; each is read with its state, which may be long.
MOST_COMPACTIONS = 40
MOST_RELATIVES = 200
FATES = ("left", "shortened", "kept", "rewritten", "new")


async def show_threads(tk: Threadkeep, query: Query, common: Values) -> Response:
    """The list, with search and filters."""
    wanted = Filter(
        words=query.get("q", "").strip(),
        dialect=query.get("dialect", ""),
        only=query.get("only", ""),
        start=read_number(query, "start") or 0,
    )
    return Response(body=render("threads.html", {**common, "wanted": wanted, "listing": await list_threads(tk, wanted)}))


async def show_memory(tk: Threadkeep, query: Query, common: Values) -> Response:
    """The tenant's memories, each linked to the records it comes from."""
    words = query.get("q", "").strip()
    memories = Memories(tk.backend)
    state = await memories.state()
    found = await memories.search(words, limit=MOST_MEMORIES) if words else state.memories[:MOST_MEMORIES]
    values: Values = {
        "words": words,
        "found": [(memory, list(_parse_sources(memory.sources))) for memory in found],
        "total": len(state.memories),
        "pending": len(state.pending),
        "failures": len(state.failures),
    }
    return Response(body=render("memory.html", {**common, **values}))


def _parse_sources(sources: Sequence[str]) -> Iterator[Pointer]:
    for source in sources:
        try:
            yield parse_pointer(source)
        except InvalidPointer:
            # A memory edited by hand may name any source.
            continue


async def show_overview(tk: Threadkeep, thread: Thread, query: Query, common: Values) -> Response:
    """A thread at a glance: its size over time, its compactions, forks, mail and sub-agents."""
    store = tk.backend.store
    places = await number_compactions(store, thread.id)
    values: Values = {
        "pressure": await _measure_pressure(tk, thread),
        "places": places,
        "compactions": [await read_compaction_row(store, place) for place in reversed(places[-MOST_COMPACTIONS:])],
        "failed": await find_newest_failed_attempts(
            store, await load_live_path(store, thread.id, whole=True), most=MOST_COMPACTIONS
        ),
        "tree": await find_tree(store, thread.id, most=MOST_RELATIVES),
        "mail": await read_mail(tk, thread),
        "meta": await load_metadata(store, thread.id),
        "strategies": [name for name in STRATEGIES if name != DEFAULT],
        "done": query.get("done", ""),
        "done_at": read_number(query, "at"),
    }
    return Response(body=render("overview.html", {**common, **await _describe_thread(tk, thread), **values}))


async def _measure_pressure(tk: Threadkeep, thread: Thread) -> Pressure | None:
    """Return how full a thread's window is for the model asked last; None if the newest checkpoint cannot be read."""
    backend = tk.backend
    path = await load_live_path(backend.store, thread.id)
    try:
        made = await load_checkpoint(backend.store, path.checkpoint) if path.checkpoint else None
    except StoreCorrupt:
        return None
    return measure_pressure(
        limits=backend.find_limits(await thread.last_model()),
        estimated=await measure_window(backend.store, await backend.store.get(thread.id)),
        calibration=await find_last_usage(backend.store, path, made),
    )


async def show_timeline(tk: Threadkeep, thread: Thread, query: Query, common: Values) -> Response:
    """A page of the thread's records."""
    kind = query.get("side", "all")
    if kind not in KINDS:
        raise BadInput(f"a timeline has no side {kind!r}; choose one of {', '.join(KINDS)}")
    place = Place(kind=kind, **{name: read_number(query, name) for name in ("at", "before", "after", "since")})
    numbers = {each.record.ordinal: each.number for each in await number_compactions(tk.backend.store, thread.id)}
    values: Values = {"page": await read_timeline(tk, thread, place), "place": place, "kinds": KINDS, "numbers": numbers}
    return Response(body=render("timeline.html", {**common, **await _describe_thread(tk, thread), **values}))


async def show_record(tk: Threadkeep, thread: Thread, ordinal: int, query: Query, common: Values) -> Response:
    """One record; with `part=body` only what the timeline shows when a line is opened."""
    opened = await open_record(tk, thread, ordinal)
    if query.get("part") == "body":
        return Response(body=render("record_body.html", {**common, "thread": thread, "opened": opened}))
    return Response(body=render("record.html", {**common, **await _describe_thread(tk, thread), "opened": opened}))


async def send_raw_record(tk: Threadkeep, thread: Thread, ordinal: int) -> Response:
    """A record's bytes as a download, which the browser never renders."""
    opened = await open_record(tk, thread, ordinal)
    name = f'attachment; filename="record-{ordinal}.json"'.encode()
    return Response(body=opened.record.body, content_type=b"application/octet-stream", headers=((b"content-disposition", name),))


async def show_compaction(tk: Threadkeep, thread: Thread, ordinal: int, query: Query, common: Values) -> Response:
    """What one compaction did to the window and the ledger, what it cost, and what its audit found."""
    store = tk.backend.store
    compared_with = read_number(query, "from")
    opened = await open_compaction(store, thread.id, ordinal, compared_with=compared_with)
    places = await number_compactions(store, thread.id)
    index = next((at for at, place in enumerate(places) if place.record.ordinal == ordinal), None)
    fate = query.get("fate", "")
    start = read_number(query, "start") or 0
    windows = compare_windows(opened.before, opened.after, thread.dialect, start=start, fate=fate if fate in FATES else "")
    changes = compare(opened.ledger_before, opened.ledger_after)
    groups = group_changes(changes)
    values: Values = {
        "opened": opened,
        "originals": await check_originals(store, opened),
        "since": compared_with,
        "places": places,
        "place": places[index] if index is not None else None,
        "previous": places[index - 1] if index else None,
        "following": places[index + 1] if index is not None and index + 1 < len(places) else None,
        "groups": groups,
        "retired": {group.name: len(group.entries) for group in groups if group.name in ("withdrawn", "superseded")},
        "changes": changes,
        "windows": windows,
        "fate": fate,
        "page_rows": PAGE,
    }
    return Response(body=render("compaction.html", {**common, **await _describe_thread(tk, thread), **values}))


async def show_state(tk: Threadkeep, thread: Thread, query: Query, common: Values) -> Response:
    """The session state of the newest compaction in use, with the pins and notes made since."""
    history = await thread.history()
    ledger = read_ledger(history)
    values: Values = {
        "ledger": ledger,
        "sections": list(Section),
        "checkpoint": history.checkpoint_ordinal,
        "done": query.get("done", ""),
        "entry": ledger.find(query.get("entry", "")),
    }
    return Response(body=render("state.html", {**common, **await _describe_thread(tk, thread), **values}))


async def show_window(tk: Threadkeep, thread: Thread, query: Query, common: Values) -> Response:
    """What the model sees next, position by position."""
    history = await thread.history()
    start = read_number(query, "start") or 0
    positions = list_positions(history, thread.dialect)
    values: Values = {
        "positions": positions[start : start + PAGE],
        "start": start,
        "total": len(positions),
        "page_rows": PAGE,
        "tokens": history.tokens,
    }
    return Response(body=render("window.html", {**common, **await _describe_thread(tk, thread), **values}))


async def show_hits(tk: Threadkeep, thread: Thread, query: Query, common: Values) -> Response:
    """Originals that match some words, as `recall` finds them."""
    words = query.get("q", "").strip()
    hits = await thread.recall(words, limit=MOST_HITS) if words else []
    return Response(body=render("find.html", {**common, **await _describe_thread(tk, thread), "words": words, "hits": hits}))


async def send_size_history(tk: Threadkeep, thread: Thread, _: Query, __: Values) -> Response:
    """The figures of the plot, as JSON."""
    body = msgspec.json.encode(asdict(await read_size_history(tk, thread)))
    return Response(body=body, content_type=b"application/json")


ThreadPage = Callable[[Threadkeep, Thread, Query, Values], Awaitable[Response]]
THREAD_PAGES: Mapping[str, ThreadPage] = {
    "": show_overview,
    "timeline": show_timeline,
    "state": show_state,
    "window": show_window,
    "find": show_hits,
    "series.json": send_size_history,
}
RecordPage = Callable[[Threadkeep, Thread, int, Query, Values], Awaitable[Response]]
RECORD_PAGES: Mapping[str, RecordPage] = {"r": show_record, "c": show_compaction}


async def _describe_thread(tk: Threadkeep, thread: Thread) -> Values:
    """Return the values of the top of a thread's pages."""
    store = tk.backend.store
    row = await store.get(thread.id)
    title, turns = await find_title(store, row), await load_current_turn(store, row, stop=row.next)
    return {"thread": thread, "row": row, "title": title, "turns": turns}


def read_number(query: Query, name: str) -> int | None:
    """Return a number from an address or a form; None if it is empty.

    Raises:
        BadInput: It is not a number.
    """
    text = query.get(name, "").strip().removeprefix("#")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise BadInput(f"{name} must be a number, not {text!r}")
    return int(text)
