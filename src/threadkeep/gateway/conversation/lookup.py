"""Where a client's history belongs: which thread holds the longest part of it, and what of it is new."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.state_text import TAG
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.gateway.conversation.hints import Hints
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.thread_cache import (
    KnownThread,
    ThreadCache,
    ThreadContext,
    digest_head,
    load_context,
    load_known,
)
from threadkeep.gateway.conversation.window import follow_ancestors
from threadkeep.items import Item, digest_body, seed_chain
from threadkeep.store import Found, NewRecord, Record, RecordKind, Span, ThreadRow
from threadkeep.threads import Arrival, ReplyBody, StateEntry, Tip
from threadkeep.threads.branches import prepare_fork
from threadkeep.threads.reader import load_checkpoint, load_live_path, load_tip, read_body
from threadkeep.threads.writer import ThreadStart, append_items, find_deepest, make_arrival, prepare_thread

# What the next request of a conversation begins with, as it is recorded.
NEXT_STEP = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.NOTE})
PAGE = 16
# How many items are made ready before other requests get the event loop.
TURN_ITEMS = 64
# How many items are written as one unit. A longer history is written in several, each durable and in order, so that other
# writers wait for one unit only. A crash in between leaves a beginning of it, from which the client's next request goes on.
UNIT_ITEMS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The known part of a history: its thread, the ordinal its path ends before (None: the tip), and how many links it has.

    `ordinal` is the record of its last link.
    """

    thread_id: str
    stop: int | None
    depth: int
    ordinal: int


class ThreadLookup:
    """Finds and keeps the histories of one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, memory: ThreadCache) -> None:
        self._backend = backend
        self._dialect = dialect
        self._memory = memory
        self._sessions = Sessions(backend, memory)

    def seed(self, agent: str) -> bytes:
        return seed_chain(self._backend.store.tenant.key, dialect=self._dialect.name, agent=agent)

    async def find(self, history: History, hints: Hints) -> tuple[KnownThread, int] | None:
        """Return the thread that holds the longest known part of a history, as it stood at its end, and that part's length.

        Read only: where the history leaves the thread, it is the thread before that point. Another conversation that only
        begins alike is not found; see `threadkeep.gateway.conversation.lookup`.
        """
        remembered = await self._remembered(history, hints)
        if remembered is not None:
            return remembered
        place = await self._look_up(history, hints)
        if place is None:
            return None
        seed = self.seed(hints.agent)
        return await load_known(self._backend, place.thread_id, seed=seed, stop=place.stop), place.depth

    async def settle(
        self, history: History, request: Request, hints: Hints, *, memory: str = "", found: tuple[KnownThread, int] | None = None
    ) -> KnownThread:
        """Record what is new in a request; return the thread that now ends where the request does.

        A history that leaves a known path forks there; one that a client made of an older one says which it continues. The head
        is recorded where it changed, and `memory`, which pins what goes out beside it. What `find` returned a moment ago is
        `found`: the store refuses what no longer fits it. Durable when it returns.

        Raises:
            OrdinalConflict: Another request of the same conversation was faster; look again.
        """
        is_new = found is not None and found[1] < len(history.items) and self._memory.is_current(found[0])
        remembered = found if is_new else await self._remembered(history, hints)
        if remembered is not None:
            known, depth = remembered
            try:
                return await self._append(known, history, request, hints, depth=depth, memory=memory)
            except OrdinalConflict:
                self._memory.forget(known.thread_id)
                raise
        place = await self._look_up(history, hints)
        if place is not None and place.stop is not None:
            # What looks like a fork may be the same request twice at once, the other one a step ahead.
            place = await self._look_up(history, hints)
        known, begun = await self._going_on(place, history, hints)
        return await self._append(known, history, request, hints, depth=place.depth if place else 0, memory=memory, begun=begun)

    async def tell(self, known: KnownThread, context: ThreadContext, request: Request) -> KnownThread:
        """Record what a thread's requests are sent under from here on; what else was written meanwhile does not matter to it."""
        record = self._make_context_record(context, request, turn=known.tip.turn)
        expected = known.tip.next
        while True:
            try:
                reached = await self._backend.append(known.thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                self._memory.forget(known.thread_id)
                expected = moved.actual
            else:
                break
        after = replace(known, tip=replace(known.tip, next=reached), context=context)
        if expected == known.tip.next:
            self._memory.remember(after)
        return after

    async def _remembered(self, history: History, hints: Hints) -> tuple[KnownThread, int] | None:
        """Return the thread that is remembered to end in the history, if it still does and none ends there that holds more."""
        found = self._memory.find_ending(history.chain)
        if found is None:
            return None
        known, depth = found
        if hints.session and known.context is not None and known.context.session not in ("", hints.session):
            return None
        ends_later, reached, *ancestors = await asyncio.gather(
            self._ends_later(history, depth=depth),
            self._end_of_thread(known.thread_id),
            *(self._end_of_thread(name) for name, _ in known.erased.ancestors),
        )
        if ends_later:
            return None
        if reached == known.tip.next:
            still = await follow_ancestors(self._backend.store, known.erased, ancestors)
            if still is known.erased:
                return found
            if still is not None:
                self._memory.remember(replace(known, erased=still))
                return self._memory.find_ending(history.chain)
        self._memory.forget(known.thread_id)
        return None

    async def _end_of_thread(self, thread_id: str) -> int | None:
        try:
            return (await self._backend.store.get(thread_id)).next
        except ThreadNotFound:
            return None

    async def _ends_later(self, history: History, *, depth: int) -> bool:
        """Whether a thread ends in the history that holds more than the first `depth` items of it; its next link tells of it."""
        later = {glance.link for glance in history.infos[depth:]}
        for match in await self._backend.store.lookup([history.infos[depth].link]) if later else ():
            if (await load_tip(self._backend.store, match.thread_id, seed=b"")).chain in later:
                return True
        return False

    async def _look_up(self, history: History, hints: Hints) -> Match | None:
        """Return where the longest known part of a history lies, preferring a thread that ends with it; None if all is new."""
        found = await self._sessions.filter_found(hints.session, await find_deepest(self._backend.store, history.chain), history)
        for match in found:
            tip = await load_tip(self._backend.store, match.thread_id, seed=self.seed(hints.agent))
            if tip.chain == match.chain:
                return Match(thread_id=match.thread_id, stop=None, depth=match.depth, ordinal=match.ordinal)
        if not found:
            return None
        deepest = found[0]
        stop = await self._end_of(deepest)
        return Match(thread_id=deepest.thread_id, stop=stop, depth=deepest.depth, ordinal=deepest.ordinal)

    async def _end_of(self, match: Found) -> int:
        """Return where the next step after a record begins: a checkpoint made of what stands before it still counts there."""
        row = await self._backend.store.get(match.thread_id)
        start = match.ordinal + 1
        while start < row.next:
            span = Span(thread_id=match.thread_id, start=start, stop=row.next)
            page = await self._backend.store.read(span, kinds=NEXT_STEP, limit=PAGE, bodies=False)
            for record in page:
                if record.kind is not RecordKind.NOTE or record.chain is not None:
                    return record.ordinal
            if not page:
                break
            start = page[-1].ordinal + 1
        return row.next

    async def _going_on(self, place: Match | None, history: History, hints: Hints) -> tuple[KnownThread, ThreadStart | None]:
        """Return the thread that goes on from a place, or from nothing; a new one is created with what is said first in it."""
        seed = self.seed(hints.agent)
        if place is None:
            continues = await self._continued(history, hints, depth=0)
            begun = prepare_thread(self._backend, self._dialect, agent=hints.agent, continues=continues)
            known = KnownThread(thread_id=begun.thread.id, tip=Tip(next=0, turn=0, depth=0, chain=seed))
        elif place.stop is None:
            known = await load_known(self._backend, place.thread_id, seed=seed)
            if known.tip.chain != history.infos[place.depth - 1].link:
                # Another request took the thread on since it was looked up: what is new is no longer what was new then.
                raise OrdinalConflict(place.thread_id, expected=place.ordinal + 1, actual=known.tip.next)
            return known, None
        else:
            continues = await self._continued(history, hints, depth=place.depth)
            begun = await prepare_fork(self._backend, place.thread_id, at=place.stop, continues=continues)
            known = await load_known(self._backend, place.thread_id, seed=seed, stop=place.stop)
        return replace(known, thread_id=begun.thread.id, tip=begun.tip(known.tip)), begun

    async def _continued(self, history: History, hints: Hints, *, depth: int) -> str | None:
        return await find_continued_thread(
            self._backend, self._memory, history, depth=depth, session=hints.session, dialect=self._dialect
        )

    async def _append(
        self,
        known: KnownThread,
        history: History,
        request: Request,
        hints: Hints,
        *,
        depth: int,
        memory: str,
        begun: ThreadStart | None = None,
    ) -> KnownThread:
        context = make_context(known.context, request, hints, dialect=self._dialect, links=len(history.items), memory=memory)
        records = [] if context == known.context else [self._make_context_record(context, request, turn=known.tip.turn)]
        tip = known.tip
        while records or begun or depth < len(history.items):
            new = await self._arrivals(history, depth)
            tip = await append_items(
                self._backend,
                known.thread_id,
                new,
                tip=tip,
                model=hints.model or None,
                issuer=hints.issuer or None,
                before=records,
                begun=begun,
            )
            records, begun, depth = [], None, depth + len(new)
        after = replace(known, tip=tip, context=context)
        self._memory.remember(after)
        return after

    async def _arrivals(self, history: History, depth: int) -> list[Arrival]:
        """Return the next items to append as one unit; other requests get the event loop now and then."""
        new: list[Arrival] = []
        for index in range(depth, min(len(history.items), depth + 2 * UNIT_ITEMS)):
            new.append(self._arrival(history, index))
            # What a host said right before a person's message belongs to the turn that message opens.
            if len(new) >= UNIT_ITEMS and new[-1].view.context is None:
                break
            if len(new) % TURN_ITEMS == 0:
                await asyncio.sleep(0)
        return new

    def _arrival(self, history: History, index: int) -> Arrival:
        item, aside, reading = history.items[index], history.aside[index], history.fresh.get(index)
        if reading is None or self._backend.redact is not None:
            return make_arrival(self._dialect, item, aside=aside, redact=self._backend.redact)
        tokens = history.infos[index].tokens
        return Arrival(item=item, view=reading.view, canonical=reading.canonical, tokens=tokens, aside=aside)

    def _make_context_record(self, context: ThreadContext, request: Request, *, turn: int) -> NewRecord:
        body = context.body(_head_fields(request, self._dialect), [msgspec.Raw(item.raw) for item in request.head])
        return NewRecord(kind=RecordKind.CONTEXT, at_ms=self._backend.clock.now_ms(), turn=turn, tokens=0, body=body)


def make_context(
    before: ThreadContext | None, request: Request, hints: Hints, *, dialect: Dialect, links: int, memory: str = ""
) -> ThreadContext:
    """Return what holds with this request. What another account sealed stays its own, however long ago that was.

    What goes out beside a history is a part of what thinking is bound to: with another memory, all before is bound elsewhere.
    """
    head = digest_head(_head_fields(request, dialect), [msgspec.Raw(item.raw) for item in request.head])
    if before is None:
        return ThreadContext(head=head, session=hints.session, issuer=hints.issuer, memory=memory)
    changed = bool(before.issuer) and before.issuer != hints.issuer
    return replace(
        before,
        head=head,
        session=hints.session or before.session,
        issuer=hints.issuer,
        issued_from=links if changed else before.issued_from,
        bound_from=links if memory != before.memory else before.bound_from,
        memory=memory,
    )


def _head_fields(request: Request, dialect: Dialect) -> dict[str, msgspec.Raw]:
    """Return what the model is told outside its history. Other fields, such as cache keys, change with every request."""
    return {name: msgspec.Raw(request.fields[name]) for name in dialect.api.head_fields if name in request.fields}


# How many of the threads written last are asked for their name, and how many records that begin alike.
THREADS = 16
ALIKE = 64
# Shorter answers than this are given in any conversation.
TELLING_BYTES = 200
# Where every answer is short, so many questions must have been asked and answered alike.
EXCHANGES = 2
HOPS = 64


class Sessions:
    """Tells conversations of one tenant apart by the names their clients gave them."""

    def __init__(self, backend: Backend, memory: ThreadCache) -> None:
        self._backend = backend
        self._memory = memory

    async def filter_found(self, session: str, found: list[Found], history: History) -> list[Found]:
        """Return the records that a request under the name `session` may go on from; none where it begins a thread.

        `found` are the deepest records of its history. Those under its own name or none come first; then shallower ones under
        its own name, which say that it only began like another; then, as a fork, those under another name.
        """
        if not session or not found:
            return found
        names = [await self._name_at(match) for match in found[:ALIKE]]
        open_to_all = [match for match, name in zip(found, names, strict=False) if name in ("", session)]
        if open_to_all:
            return open_to_all
        depth = found[0].depth
        own = await self._deepest_own(session, history.chain[: depth - 1])
        if own or not is_own_conversation(history, depth):
            return own
        if any(glance.is_summary for glance in history.infos[:depth]) and await self._has_another(session, found):
            return []
        return found

    async def _deepest_own(self, session: str, chain: Sequence[bytes]) -> list[Found]:
        """Return the deepest records of a history that were written under this name."""
        best = await self._own_at(session, chain[0]) if chain else []
        low, high = 0, len(chain)
        while best and high - low > 1:
            middle = (low + high) // 2
            if own := await self._own_at(session, chain[middle]):
                low, best = middle, own
            else:
                high = middle
        return best

    async def _own_at(self, session: str, link: bytes) -> list[Found]:
        alike = (await self._backend.store.lookup([link]))[:ALIKE]
        return [match for match in alike if await self._name_at(match) == session]

    async def _has_another(self, session: str, found: Sequence[Found]) -> bool:
        """Whether a name has a thread of its own that did not come from any of these."""
        own = self._memory.find_session(session) or await self._written_lately(session)
        if own is None:
            return False
        others = {match.thread_id for match in found}
        name: str | None = own
        for _ in range(HOPS):
            if name is None:
                return True
            if name in others:
                return False
            name = (await self._backend.store.get(name)).parent
        return True

    async def _written_lately(self, session: str) -> str | None:
        for row in await self._backend.store.threads(limit=THREADS):
            context = await load_context(self._backend.store, row.id, stop=row.next)
            if context is not None and context.session == session:
                return row.id
        return None

    async def _name_at(self, match: Found) -> str:
        """Return the name under which a record was written; empty where its client gave none."""
        context = await load_context(self._backend.store, match.thread_id, stop=match.ordinal + 1)
        return context.session if context is not None else ""


def is_own_conversation(history: History, depth: int) -> bool:
    """Whether the first `depth` items of a history are one conversation's own, so that who shares them forked it.

    A person's words must be among them with something behind that is not said twice by chance: a tool's output, what a provider
    sealed, a long answer, or several answers. A client's summary and what stands before it do not count.
    """
    summaries = [index for index, glance in enumerate(history.infos[:depth]) if glance.is_summary]
    start = summaries[-1] + 1 if summaries else 0
    asked, exchanges = False, 0
    for index in range(start, depth):
        glance = history.infos[index]
        if history.aside[index]:
            continue
        if glance.by_person:
            asked = True
        elif glance.by_model and (asked or exchanges):
            if glance.is_output or glance.is_sealed or len(history.items[index].raw) >= TELLING_BYTES:
                return True
            exchanges += asked
            asked = False
    return exchanges >= EXCHANGES


# How many of a thread's newest items are compared; what a client keeps word for word is recent.
ITEMS = 256
# How many of them are read, where spelling must not matter.
LAST_SAID = 24
# Without a name, one item alone tells nothing: call ids are numbered anew by some servers, and many say the same short words.
SHARED_WITHOUT_NAME = 2


async def find_continued_thread(
    backend: Backend, memory: ThreadCache, history: History, *, depth: int, session: str, dialect: Dialect
) -> str | None:
    """Return the thread whose history was rewritten to make what follows the first `depth` items, if one was.

    A new beginning, an edit and a fork bring nothing that a model said, and continue nothing in this sense.
    """
    shown = _states_in(history, depth, dialect)
    for row in await backend.store.threads(limit=THREADS) if shown else ():
        if row.dialect != dialect.name or await _is_anothers(backend, row, session):
            continue
        if not shown.isdisjoint(await _states_of(backend, row, dialect)):
            return row.id
    later = history.infos[depth:]
    summarised = any(glance.is_summary for glance in later)
    if not summarised and not any(glance.by_model for glance in later):
        return None
    telling = {digest_body(_written(backend, raw)) for raw in _telling(history, depth)}
    named = memory.find_session(session) if session else None
    if named is not None and (summarised or telling & await _newest(backend, await backend.store.get(named))):
        return named
    # Beside a summary, which says that there was more, what people and models said tells it too, however short.
    spoken = _find_typed(backend, history, depth, dialect) if summarised and not session else set()
    compacted = _compacted(backend, history, depth, dialect)
    best: tuple[int, str | None] = SHARED_WITHOUT_NAME - 1, None
    for row in await backend.store.threads(limit=THREADS):
        if row.dialect != dialect.name or row.id == named:
            continue
        shared = len(telling & await _newest(backend, row)) if telling else 0
        said = await _last_said(backend, row, dialect) if spoken or compacted else set()
        if compacted & said:
            return row.id
        if await _is_anothers(backend, row, session):
            continue
        shared = max(shared, len(spoken & said))
        if shared > best[0]:
            best = shared, row.id
        elif session and (summarised or shared) and await _is_called(backend, row, session):
            return row.id
    return best[1]


def _states_in(history: History, depth: int, dialect: Dialect) -> set[str]:
    """Return the session states among what a client sends: one that had its history compacted upstream keeps what came back."""
    tag = TAG.encode()
    set_cache_marker = (item for item in islice(history.items, depth, None) if tag in item.raw)
    return {block for item in set_cache_marker if (block := _block(dialect.view(item).text)) is not None}


async def _states_of(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[str]:
    """Return the session state that a thread stands on, if it was compacted."""
    path = await load_live_path(backend.store, row.id)
    if path.checkpoint is None:
        return set()
    layout = (await load_checkpoint(backend.store, path.checkpoint)).layout
    states = (dialect.view(Item(bytes(entry.item))).text for entry in layout if isinstance(entry, StateEntry))
    return {block for text in states if (block := _block(text)) is not None}


def _block(text: str) -> str | None:
    """Return the state in a text, whatever stands around it: neighbours of one role may have been joined."""
    begins, ends = text.find(f"<{TAG}>\n"), text.rfind(f"\n</{TAG}>")
    return text[begins:ends] if 0 <= begins < ends else None


def _telling(history: History, depth: int) -> Iterator[bytes]:
    """Yield what no two conversations have in common: outputs, sealed items, and what a model said at length."""
    for item, glance in zip(history.items[depth:], history.infos[depth:], strict=True):
        if glance.by_model and (glance.is_output or glance.is_sealed or len(item.raw) >= TELLING_BYTES):
            yield item.raw


def _find_typed(backend: Backend, history: History, depth: int, dialect: Dialect) -> set[bytes]:
    """Return digests of all that people and models said to each other, however it is spelled."""
    said = zip(history.items[depth:], history.infos[depth:], history.aside[depth:], strict=True)
    items = (item for item, glance, aside in said if (glance.by_model or glance.by_person) and not aside)
    return {digest_body(dialect.canonical(Item(_written(backend, item.raw)))) for item in items}


def _compacted(backend: Backend, history: History, depth: int, dialect: Dialect) -> set[bytes]:
    """Return digests of what a provider compacted by itself: no two conversations were ever given the same."""
    sent = zip(history.items[depth:], history.infos[depth:], strict=True)
    items = (item for item, glance in sent if glance.is_summary and glance.is_sealed)
    return {digest_body(dialect.canonical(Item(_written(backend, item.raw)))) for item in items}


async def _last_said(backend: Backend, row: ThreadRow, dialect: Dialect) -> set[bytes]:
    """Return the same of the last items of a thread, the answer that its client never sent back among them."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    kinds = {RecordKind.ITEM, RecordKind.REPLY}
    last = await backend.store.read(own, kinds=kinds, newest_first=True, limit=LAST_SAID)
    return {digest_body(dialect.canonical(item)) for record in last for item in _items_in(record)}


def _items_in(record: Record) -> list[Item]:
    if record.kind is RecordKind.ITEM:
        return [] if record.erased else [Item(record.body)]
    reply = read_body(record, ReplyBody)
    return [Item(bytes(raw)) for raw in reply.items] if reply else []


def _written(backend: Backend, raw: bytes) -> bytes:
    """Return what is kept of an item."""
    return backend.redact(raw) if backend.redact else raw


async def _newest(backend: Backend, row: ThreadRow) -> set[bytes]:
    """Return the digests of a thread's newest items."""
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    newest = await backend.store.read(own, kinds={RecordKind.ITEM}, newest_first=True, limit=ITEMS, bodies=False)
    return {record.digest for record in newest}


async def _is_anothers(backend: Backend, row: ThreadRow, session: str) -> bool:
    """Whether a thread was last written under another name than `session`: what they share they share by chance."""
    context = await load_context(backend.store, row.id, stop=row.next) if session else None
    return context is not None and context.session not in ("", session)


async def _is_called(backend: Backend, row: ThreadRow, session: str) -> bool:
    context = await load_context(backend.store, row.id, stop=row.next)
    return context is not None and context.session == session
