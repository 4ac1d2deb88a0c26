"""Adds what a client's file holds to the thread in which the gateway recorded the same session.

A client spells its history differently in its file and in its requests. So items are compared by what people, models and tools
said, each together with what was said before it. New is what stands behind the last known one, if a person said anything there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import NamedTuple

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind, Role, digest_session, seed_chain
from threadkeep.store import Found, RecordKind, Span, ThreadStore
from threadkeep.threads import Arrival, ReplyBody
from threadkeep.threads.forks_and_undos import prepare_fork
from threadkeep.threads.reader import (
    CHAINED,
    iterate_records,
    load_context_body,
    load_live_path,
    load_replies,
    load_tip,
    read_body,
)
from threadkeep.threads.writer import append_items, compute_chain, find_deepest, make_arrival
from threadkeep.transfer.json_rows import make_short_digest
from threadkeep.transfer.record_matcher import RecordPlace, find_row
from threadkeep.transfer.transcript_form import GoTo, Lane, Note, PutItem, Step, TakeBack

# Of the threads that one session has, so many are looked at, the newest first.
MOST_THREADS = 8


async def find_recorded_threads(backend: Backend, lane: Lane, items: Sequence[Item], dialect: Dialect) -> list[str]:
    """Return the threads that the gateway recorded of a lane's session, newest first: by its client's name, or by how it begins.

    `items` are the lane's first; what begins with them must be the session's own.
    """
    store, key = backend.store, backend.store.tenant.key
    own = await find_row(store, lane.thread_id)
    named = [own.id] if own is not None else []
    named += [match.thread_id for match in await store.lookup([digest_session(key, lane.session, agent=lane.agent)])]
    if not named and items:
        found = await find_deepest(store, compute_chain(backend, dialect, items, agent=lane.agent))
        named = [match.thread_id for match in found if await _has_all(store, match, items, dialect)]
    rows = [await store.get(name) for name in list(dict.fromkeys(named))[:MOST_THREADS]]
    return [
        row.id
        for row in rows
        if row.dialect == dialect.name and await load_context_body(store, row.id, stop=row.next) is not None
    ]


async def _has_all(store: ThreadStore, match: Found, items: Sequence[Item], dialect: Dialect) -> bool:
    """Whether a thread that has a beginning of `items` has all: the last may be an answer that no request has brought back."""
    if match.depth != len(items) - 1:
        return match.depth == len(items)
    span = Span(thread_id=match.thread_id, start=match.ordinal + 1, stop=(await store.get(match.thread_id)).next)
    answers = [read_body(record, ReplyBody) for record in await load_replies(store, span, most=1)]
    said = {dialect.canonical(Item(bytes(raw))) for answer in answers if answer is not None for raw in answer.items}
    return dialect.canonical(items[-1]) in said


class Unknown(NamedTuple):
    """An item that no thread of the session has, and the one before it."""

    item: Item
    before: Unknown | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """The end of a path in the file: the last thing said, the record it has, what is unknown since, and where its turn began."""

    said: bytes = b""
    known: RecordPlace | None = None
    unknown: Unknown | None = None
    turn_start: Spot | None = None


class RecordedSession:
    """Takes the steps of one lane, and appends what is new to the thread that has what comes before it."""

    def __init__(self, backend: Backend, lane: Lane, threads: Sequence[str], *, dialect: Dialect, added: Counter[str]) -> None:
        self.thread_id = threads[0]
        self._threads = threads
        self._backend = backend
        self._lane = lane
        self._dialect = dialect
        self._added = added
        self._known: dict[bytes, RecordPlace] = {}
        self._nodes: dict[str, Spot] = {}
        self._spot = self._beginning = Spot()

    async def load(self) -> None:
        """Read what the threads hold."""
        for name in reversed(self._threads):
            path = await load_live_path(self._backend.store, name, whole=True)
            said = b""
            async for record in iterate_records(self._backend.store, path.spans[::-1], kinds=CHAINED, page=256):
                if record.chain is None or record.erased:
                    continue
                for words in list_said(Item(record.body), self._dialect):
                    said = _digest(said, words)
                    self._known[said] = RecordPlace(name, record.ordinal)
                    said = _digest(b"", words)

    def take(self, step: Step) -> None:
        match step:
            case PutItem():
                self._take_item(step)
            case GoTo():
                self._spot = self._beginning if step.key is None else self._nodes.get(step.key, self._spot)
            case TakeBack():
                for _ in range(step.turns):
                    self._spot = self._spot.turn_start or self._spot
            case Note() if step.key is not None:
                self._nodes[step.key] = self._spot
            case _:
                pass

    def _take_item(self, step: PutItem) -> None:
        before = spot = self._spot
        known = None
        for words in list_said(step.item, self._dialect):
            known = self._known.get(_digest(spot.said, words), known)
            spot = replace(spot, said=_digest(b"", words))
        if known is not None:
            spot = replace(spot, known=known, unknown=None)
        else:
            spot = replace(spot, unknown=Unknown(step.item, spot.unknown))
        view = self._dialect.view(step.item)
        is_spoken = view.by_person and view.kind is ItemKind.MESSAGE
        if is_spoken if step.opens_turn is None else step.opens_turn:
            spot = replace(spot, turn_start=before)
        self._spot = spot
        if step.key is not None:
            self._nodes[step.key] = spot

    async def finish(self) -> None:
        """Append what is new. Durable when it returns."""
        spot = self._spot
        new = [self._arrive(item) for item in _list_oldest_first(spot.unknown)]
        if spot.known is not None:
            self.thread_id = spot.known.thread_id
        if spot.known is None or not any(_is_said_by_person(each) for each in new):
            return
        store, name = self._backend.store, spot.known.thread_id
        path = await load_live_path(store, name, whole=True)
        later = [replace(span, start=max(span.start, spot.known.ordinal + 1)) for span in path.spans]
        has_gone_on = False
        async for record in iterate_records(store, later, kinds={RecordKind.ITEM}):
            has_gone_on = has_gone_on or any(list_said(Item(record.body), self._dialect))
        seed = seed_chain(store.tenant.key, dialect=self._dialect.name, agent=self._lane.agent)
        if not has_gone_on:
            tip = await load_tip(store, name, seed=seed)
            await append_items(self._backend, name, new, tip=tip)
        else:
            parent, at = path.find_thread(spot.known.ordinal) or name, spot.known.ordinal + 1
            fork = self._lane.thread_id
            if await find_row(store, fork) is not None:
                fork = f"{fork}-{make_short_digest(new[0].item.raw)}"
            self.thread_id = fork
            if await find_row(store, fork) is not None:
                return
            start = await prepare_fork(self._backend, parent, at=at, new_id=fork)
            tip = start.tip(await load_tip(store, parent, seed=seed, stop=at))
            await append_items(self._backend, fork, new, tip=tip, begun=start)
        self._added[self.thread_id] += len(new)
        self._spot = replace(spot, unknown=None)

    def _arrive(self, item: Item) -> Arrival:
        return make_arrival(self._dialect, item, redact=self._backend.redact)


def list_said(item: Item, dialect: Dialect) -> Iterator[str]:
    """Yield what a person, a model or a tool said in an item, part by part; what a host wrote and reasoning is none of it."""
    view = dialect.view(item)
    if view.role is Role.ASSISTANT:
        for part in dialect.split_parts(item) or [item]:
            seen = dialect.view(part)
            if seen.kind is ItemKind.MESSAGE and seen.text.strip():
                yield f"model\0{seen.text.strip()}"
            yield from (f"call\0{each}" for each in seen.opens)
        return
    yield from (f"output\0{each}" for each in view.closes)
    if view.by_person and view.said.strip():
        yield f"person\0{view.said.strip()}"


def _digest(before: bytes, words: str) -> bytes:
    return blake2b(before + words.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _list_oldest_first(unknown: Unknown | None) -> list[Item]:
    found: list[Item] = []
    while unknown is not None:
        found.append(unknown.item)
        unknown = unknown.before
    return found[::-1]


def _is_said_by_person(arrival: Arrival) -> bool:
    return arrival.view.by_person and arrival.view.kind is ItemKind.MESSAGE
