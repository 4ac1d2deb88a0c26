"""Where a client's history belongs: which thread holds the longest part of it, and what of it is new."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.gateway.continuing import continued_thread
from threadkeep.gateway.erased import unmoved
from threadkeep.gateway.glances import Seen
from threadkeep.gateway.hints import Hints
from threadkeep.gateway.known import Known, Memory, Told, head_digest, load_known
from threadkeep.gateway.sessions import Sessions
from threadkeep.items import seed_chain
from threadkeep.store import Found, NewRecord, RecordKind, Span
from threadkeep.threads import Arrival, Tip
from threadkeep.threads.branches import branch
from threadkeep.threads.reader import load_tip
from threadkeep.threads.writer import Opening, append_items, arrival, deepest_known, opening

# What the next request of a conversation begins with, as it is recorded.
NEXT_STEP = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.NOTE})
PAGE = 16
# How many items are made ready before other requests get the event loop.
TURN_ITEMS = 64
# How many items are written as one unit. A longer history is written in several, each durable and in order, so that other
# writers wait for one unit only. A crash in between leaves a beginning of it, from which the client's next request goes on.
UNIT_ITEMS = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The known part of a history: its thread, the ordinal its path ends before (None: the tip), and how many links it has.

    `ordinal` is the record of its last link.
    """

    thread_id: str
    stop: int | None
    depth: int
    ordinal: int


class Placing:
    """Finds and keeps the histories of one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, memory: Memory) -> None:
        self._backend = backend
        self._dialect = dialect
        self._memory = memory
        self._sessions = Sessions(backend, memory)

    def seed(self, agent: str) -> bytes:
        return seed_chain(self._backend.store.tenant.key, dialect=self._dialect.name, agent=agent)

    async def find(self, seen: Seen, hints: Hints) -> tuple[Known, int] | None:
        """Return the thread that holds the longest known part of a history, as it stood at its end, and that part's length.

        Read only: where the history leaves the thread, it is the thread before that point. Another conversation that only
        begins alike is not found; see `threadkeep.gateway.sessions`.
        """
        remembered = await self._remembered(seen, hints)
        if remembered is not None:
            return remembered
        place = await self._look_up(seen, hints)
        if place is None:
            return None
        seed = self.seed(hints.agent)
        return await load_known(self._backend, place.thread_id, seed=seed, stop=place.stop), place.depth

    async def settle(
        self, seen: Seen, request: Request, hints: Hints, *, memory: str = "", found: tuple[Known, int] | None = None
    ) -> Known:
        """Record what is new in a request; return the thread that now ends where the request does.

        A history that leaves a known path forks there; one that a client made of an older one says which it continues. The head
        is recorded where it changed, and `memory`, which pins what goes out beside it. What `find` returned a moment ago is
        `found`: the store refuses what no longer fits it. Durable when it returns.

        Raises:
            OrdinalConflict: Another request of the same conversation was faster; look again.
        """
        is_new = found is not None and found[1] < len(seen.items) and self._memory.is_current(found[0])
        remembered = found if is_new else await self._remembered(seen, hints)
        if remembered is not None:
            known, depth = remembered
            try:
                return await self._append(known, seen, request, hints, depth=depth, memory=memory)
            except OrdinalConflict:
                self._memory.forget(known.thread_id)
                raise
        place = await self._look_up(seen, hints)
        if place is not None and place.stop is not None:
            # What looks like a fork may be the same request twice at once, the other one a step ahead.
            place = await self._look_up(seen, hints)
        known, begun = await self._going_on(place, seen, hints)
        return await self._append(known, seen, request, hints, depth=place.depth if place else 0, memory=memory, begun=begun)

    async def tell(self, known: Known, told: Told, request: Request) -> Known:
        """Record what a thread's requests are sent under from here on; what else was written meanwhile does not matter to it."""
        record = self._told_record(told, request, turn=known.tip.turn)
        expected = known.tip.next
        while True:
            try:
                reached = await self._backend.append(known.thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                self._memory.forget(known.thread_id)
                expected = moved.actual
            else:
                break
        after = replace(known, tip=replace(known.tip, next=reached), told=told)
        if expected == known.tip.next:
            self._memory.remember(after)
        return after

    async def _remembered(self, seen: Seen, hints: Hints) -> tuple[Known, int] | None:
        """Return the thread that is remembered to end in the history, if it still does and none ends there that holds more."""
        found = self._memory.ending_in(seen.chain)
        if found is None:
            return None
        known, depth = found
        if hints.session and known.told is not None and known.told.session not in ("", hints.session):
            return None
        ends_later, reached, *ancestors = await asyncio.gather(
            self._ends_later(seen, depth=depth),
            self._end_of_thread(known.thread_id),
            *(self._end_of_thread(name) for name, _ in known.erased.ancestors),
        )
        if ends_later:
            return None
        if reached == known.tip.next:
            still = await unmoved(self._backend.store, known.erased, ancestors)
            if still is known.erased:
                return found
            if still is not None:
                self._memory.remember(replace(known, erased=still))
                return self._memory.ending_in(seen.chain)
        self._memory.forget(known.thread_id)
        return None

    async def _end_of_thread(self, thread_id: str) -> int | None:
        try:
            return (await self._backend.store.get(thread_id)).next
        except ThreadNotFound:
            return None

    async def _ends_later(self, seen: Seen, *, depth: int) -> bool:
        """Whether a thread ends in the history that holds more than the first `depth` items of it; its next link tells of it."""
        later = {glance.link for glance in seen.glances[depth:]}
        for match in await self._backend.store.lookup([seen.glances[depth].link]) if later else ():
            if (await load_tip(self._backend.store, match.thread_id, seed=b"")).chain in later:
                return True
        return False

    async def _look_up(self, seen: Seen, hints: Hints) -> Place | None:
        """Return where the longest known part of a history lies, preferring a thread that ends with it; None if all is new."""
        found = await self._sessions.open_to(hints.session, await deepest_known(self._backend.store, seen.chain), seen)
        for match in found:
            tip = await load_tip(self._backend.store, match.thread_id, seed=self.seed(hints.agent))
            if tip.chain == match.chain:
                return Place(thread_id=match.thread_id, stop=None, depth=match.depth, ordinal=match.ordinal)
        if not found:
            return None
        deepest = found[0]
        stop = await self._end_of(deepest)
        return Place(thread_id=deepest.thread_id, stop=stop, depth=deepest.depth, ordinal=deepest.ordinal)

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

    async def _going_on(self, place: Place | None, seen: Seen, hints: Hints) -> tuple[Known, Opening | None]:
        """Return the thread that goes on from a place, or from nothing; a new one is created with what is said first in it."""
        seed = self.seed(hints.agent)
        if place is None:
            continues = await self._continued(seen, hints, depth=0)
            begun = opening(self._backend, self._dialect, agent=hints.agent, continues=continues)
            known = Known(thread_id=begun.thread.id, tip=Tip(next=0, turn=0, depth=0, chain=seed))
        elif place.stop is None:
            known = await load_known(self._backend, place.thread_id, seed=seed)
            if known.tip.chain != seen.glances[place.depth - 1].link:
                # Another request took the thread on since it was looked up: what is new is no longer what was new then.
                raise OrdinalConflict(place.thread_id, expected=place.ordinal + 1, actual=known.tip.next)
            return known, None
        else:
            continues = await self._continued(seen, hints, depth=place.depth)
            begun = await branch(self._backend, place.thread_id, at=place.stop, continues=continues)
            known = await load_known(self._backend, place.thread_id, seed=seed, stop=place.stop)
        return replace(known, thread_id=begun.thread.id, tip=begun.tip(known.tip)), begun

    async def _continued(self, seen: Seen, hints: Hints, *, depth: int) -> str | None:
        return await continued_thread(
            self._backend, self._memory, seen, depth=depth, session=hints.session, dialect=self._dialect
        )

    async def _append(
        self,
        known: Known,
        seen: Seen,
        request: Request,
        hints: Hints,
        *,
        depth: int,
        memory: str,
        begun: Opening | None = None,
    ) -> Known:
        told = told_now(known.told, request, hints, dialect=self._dialect, links=len(seen.items), memory=memory)
        records = [] if told == known.told else [self._told_record(told, request, turn=known.tip.turn)]
        tip = known.tip
        while records or begun or depth < len(seen.items):
            new = await self._arrivals(seen, depth)
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
        after = replace(known, tip=tip, told=told)
        self._memory.remember(after)
        return after

    async def _arrivals(self, seen: Seen, depth: int) -> list[Arrival]:
        """Return the next items to append as one unit; other requests get the event loop now and then."""
        new: list[Arrival] = []
        for index in range(depth, min(len(seen.items), depth + 2 * UNIT_ITEMS)):
            new.append(self._arrival(seen, index))
            # What a host said right before a person's message belongs to the turn that message opens.
            if len(new) >= UNIT_ITEMS and new[-1].view.context is None:
                break
            if len(new) % TURN_ITEMS == 0:
                await asyncio.sleep(0)
        return new

    def _arrival(self, seen: Seen, index: int) -> Arrival:
        item, aside, reading = seen.items[index], seen.aside[index], seen.fresh.get(index)
        if reading is None or self._backend.redact is not None:
            return arrival(self._dialect, item, aside=aside, redact=self._backend.redact)
        tokens = seen.glances[index].tokens
        return Arrival(item=item, view=reading.view, canonical=reading.canonical, tokens=tokens, aside=aside)

    def _told_record(self, told: Told, request: Request, *, turn: int) -> NewRecord:
        body = told.body(_head_fields(request, self._dialect), [msgspec.Raw(item.raw) for item in request.head])
        return NewRecord(kind=RecordKind.CONTEXT, at_ms=self._backend.clock.now_ms(), turn=turn, tokens=0, body=body)


def told_now(before: Told | None, request: Request, hints: Hints, *, dialect: Dialect, links: int, memory: str = "") -> Told:
    """Return what holds with this request. What another account sealed stays its own, however long ago that was.

    What goes out beside a history is a part of what thinking is bound to: with another memory, all before is bound elsewhere.
    """
    head = head_digest(_head_fields(request, dialect), [msgspec.Raw(item.raw) for item in request.head])
    if before is None:
        return Told(head=head, session=hints.session, issuer=hints.issuer, memory=memory)
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
