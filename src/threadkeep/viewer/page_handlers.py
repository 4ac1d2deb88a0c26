"""The pages of the viewer: each gathers from the store what its template needs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from urllib.parse import unquote

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import Section, read_ledger
from threadkeep.compaction.report import compare
from threadkeep.compaction.run import find_newest_failed_attempts
from threadkeep.compaction.strategies import STRATEGIES
from threadkeep.errors import InvalidArgument, InvalidPointer, StoreCorrupt
from threadkeep.gateway.http.exchange import Call, Caller
from threadkeep.memory.memory import Memories
from threadkeep.store import RecordKind, Span
from threadkeep.threads import Pointer, parse_pointer
from threadkeep.threads.pressure import measure_recorded_pressure
from threadkeep.threads.reader import load_current_turn, load_live_path, load_metadata
from threadkeep.threads.records import MailBody, read_mail_record
from threadkeep.threads.summary import find_title
from threadkeep.tokens import Pressure
from threadkeep.viewer.compaction_diff import PAGE, compare_windows, group_changes, list_positions
from threadkeep.viewer.compaction_reader import check_originals, number_compactions, open_compaction, read_compaction_row
from threadkeep.viewer.record_lines import LINE_CHARS, read_mail_text, shorten
from threadkeep.viewer.renderer import render
from threadkeep.viewer.responses import Response
from threadkeep.viewer.size_history import read_size_history
from threadkeep.viewer.thread_list import Filter, list_threads
from threadkeep.viewer.thread_tree import find_tree
from threadkeep.viewer.timeline import KINDS, Place, open_record, read_timeline

Values = dict[str, object]

MOST_HITS = 20
# A search finds the memories beyond these.
MOST_MEMORIES = 200
# The overview shows the newest ones; each is read with its state, which may be long.
MOST_COMPACTIONS = 40
MOST_RELATIVES = 200
MOST_MAIL = 12
FATES = ("left", "shortened", "kept", "rewritten", "new")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request of an admitted visitor.

    Attributes:
        query: The values of the address; if a name is repeated, its last value counts.
        names: The parts of the path.
        common: The values that every template needs.
        is_admitted: Whether the visitor is still admitted.
        stopping: Ends streams of events.
    """

    call: Call
    caller: Caller
    tk: Threadkeep
    query: Mapping[str, str]
    names: Mapping[str, str]
    common: Values
    is_admitted: Callable[[], bool]
    stopping: asyncio.Event

    @property
    def at(self) -> int:
        """The ordinal in the path."""
        return int(self.names["at"])

    async def find_thread(self) -> Thread:
        """Return the thread the path names.

        Raises:
            ThreadNotFound: There is none.
        """
        return await self.tk.find(unquote(self.names["thread"]))

    def render(self, template: str, **values: object) -> Response:
        """Return a page."""
        return Response(body=render(template, {**self.common, **values}))

    async def render_thread(self, template: str, thread: Thread, **values: object) -> Response:
        """Return a page of a thread, with its head."""
        store = self.tk.backend.store
        row = await store.get(thread.id)
        title, turns = await find_title(store, row), await load_current_turn(store, row, stop=row.next)
        return self.render(template, thread=thread, row=row, title=title, turns=turns, **values)


async def show_threads(request: Request) -> Response:
    """The list, with search and filters."""
    query = request.query
    wanted = Filter(
        words=query.get("q", "").strip(),
        dialect=query.get("dialect", ""),
        only=query.get("only", ""),
        start=read_number(query, "start") or 0,
    )
    return request.render("threads.html", wanted=wanted, listing=await list_threads(request.tk, wanted))


async def show_memory(request: Request) -> Response:
    """The tenant's memories, each linked to the records it comes from."""
    words = request.query.get("q", "").strip()
    memories = Memories(request.tk.backend)
    state = await memories.state()
    found = await memories.search(words, limit=MOST_MEMORIES) if words else state.memories[:MOST_MEMORIES]
    return request.render(
        "memory.html",
        words=words,
        found=[(memory, list(_parse_sources(memory.sources))) for memory in found],
        total=len(state.memories),
        pending=len(state.pending),
        failures=len(state.failures),
    )


def _parse_sources(sources: Sequence[str]) -> Iterator[Pointer]:
    for source in sources:
        try:
            yield parse_pointer(source)
        except InvalidPointer:
            # A memory edited by hand may name any source.
            continue


async def show_overview(request: Request) -> Response:
    """A thread at a glance: its size over time, its compactions, forks, mail and sub-agents."""
    tk, thread, query = request.tk, await request.find_thread(), request.query
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
        "mail": await _read_mail(tk, thread),
        "meta": await load_metadata(store, thread.id),
        "strategies": list(STRATEGIES),
        "done": query.get("done", ""),
        "done_at": read_number(query, "at"),
    }
    return await request.render_thread("overview.html", thread, **values)


async def _measure_pressure(tk: Threadkeep, thread: Thread) -> Pressure | None:
    """Return how full a thread's window is for the model asked last; None if the newest checkpoint cannot be read."""
    try:
        return await measure_recorded_pressure(tk.backend, thread.id)
    except StoreCorrupt:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A piece of mail and its record."""

    ordinal: int
    sender: str
    way: str
    text: str


async def _read_mail(tk: Threadkeep, thread: Thread) -> list[Mail]:
    """Return the newest mail of a thread, newest first."""
    store = tk.backend.store
    row = await store.get(thread.id)
    mail: list[Mail] = []
    for record in await store.read(Span(thread_id=row.id, start=row.start, stop=row.next), kinds={RecordKind.MAIL}):
        body = read_mail_record(record)
        if isinstance(body, MailBody):
            text = shorten(read_mail_text(body, thread.dialect), limit=LINE_CHARS)
            mail.append(Mail(ordinal=record.ordinal, sender=body.sender, way=body.way, text=text))
    return mail[: -MOST_MAIL - 1 : -1]


async def show_timeline(request: Request) -> Response:
    """A page of the thread's records."""
    tk, thread, query = request.tk, await request.find_thread(), request.query
    kind = query.get("side", "all")
    if kind not in KINDS:
        raise InvalidArgument("side", f"a timeline has no side {kind!r}; choose one of {', '.join(KINDS)}")
    place = Place(kind=kind, **{name: read_number(query, name) for name in ("at", "before", "after", "since")})
    numbers = {each.record.ordinal: each.number for each in await number_compactions(tk.backend.store, thread.id)}
    values: Values = {"page": await read_timeline(tk, thread, place), "place": place, "kinds": KINDS, "numbers": numbers}
    return await request.render_thread("timeline.html", thread, **values)


async def show_record(request: Request) -> Response:
    """One record; with `part=body` only what the timeline shows when a line is opened."""
    thread, query = await request.find_thread(), request.query
    opened = await open_record(request.tk, thread, request.at)
    if query.get("part") == "body":
        return request.render("record_body.html", thread=thread, opened=opened)
    return await request.render_thread("record.html", thread, opened=opened)


async def send_raw_record(request: Request) -> Response:
    """A record's bytes as a download, which the browser never renders."""
    opened = await open_record(request.tk, await request.find_thread(), request.at)
    name = f'attachment; filename="record-{request.at}.json"'.encode()
    return Response(body=opened.record.body, content_type=b"application/octet-stream", headers=((b"content-disposition", name),))


async def show_compaction(request: Request) -> Response:
    """What one compaction did to the window and the ledger, what it cost, and what its audit found."""
    thread, query, ordinal = await request.find_thread(), request.query, request.at
    store = request.tk.backend.store
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
    return await request.render_thread("compaction.html", thread, **values)


async def show_state(request: Request) -> Response:
    """The session state of the newest compaction in use, with the pins and notes made since."""
    thread, query = await request.find_thread(), request.query
    history = await thread.history()
    ledger = read_ledger(history)
    values: Values = {
        "ledger": ledger,
        "sections": list(Section),
        "checkpoint": history.checkpoint_ordinal,
        "done": query.get("done", ""),
        "entry": ledger.find(query.get("entry", "")),
    }
    return await request.render_thread("state.html", thread, **values)


async def show_window(request: Request) -> Response:
    """What the model sees next, position by position."""
    thread, query = await request.find_thread(), request.query
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
    return await request.render_thread("window.html", thread, **values)


async def show_hits(request: Request) -> Response:
    """Originals that match some words, as `recall` finds them."""
    thread, query = await request.find_thread(), request.query
    words = query.get("q", "").strip()
    hits = await thread.recall(words, limit=MOST_HITS) if words else []
    return await request.render_thread("find.html", thread, words=words, hits=hits)


async def send_size_history(request: Request) -> Response:
    """The figures of the plot, as JSON."""
    body = msgspec.json.encode(asdict(await read_size_history(request.tk, await request.find_thread())))
    return Response(body=body, content_type=b"application/json")


def read_number(query: Mapping[str, str], name: str) -> int | None:
    """Return a number from an address or a form; None if it is empty.

    Raises:
        InvalidArgument: It is not a number.
    """
    text = query.get(name, "").strip().removeprefix("#")
    if not text:
        return None
    if not (text.isascii() and text.isdecimal()) or len(text) > 15:
        raise InvalidArgument(name, f"{name} must be a number, not {text!r}")
    return int(text)
