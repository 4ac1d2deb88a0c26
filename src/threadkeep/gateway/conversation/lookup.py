"""Finds the thread of a resent history: the one that holds the longest part of it, or that it was rewritten from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.carried_state import carry_over
from threadkeep.compaction.run import make_checkpoint_record
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.gateway.conversation.hints import Hints, find_request_limits
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.sessions import Sessions, find_named_thread, find_rewritten_thread, is_certain
from threadkeep.gateway.conversation.thread_cache import (
    ActiveCheckpoint,
    KnownThread,
    ThreadCache,
    ThreadContext,
    digest_head,
    load_known,
)
from threadkeep.gateway.conversation.window import follow_ancestors, read_layout
from threadkeep.items import digest_session, seed_chain
from threadkeep.store import Found, NewRecord, RecordKind, Span
from threadkeep.threads import Arrival, Tip
from threadkeep.threads.forks_and_undos import prepare_fork
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import load_current_turn, load_live_path, load_tip
from threadkeep.threads.writer import (
    ThreadStart,
    append_items,
    find_deepest,
    make_arrival,
    make_rewrite_mark,
    prepare_thread,
)

# What the next request of a conversation begins with, as it is recorded.
NEXT_STEP = frozenset({RecordKind.TURN, RecordKind.ITEM, RecordKind.NOTE, RecordKind.META})
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


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """Where the items of a request behind its first `depth` go: the thread as it ends, and its start where it is a new one.

    `marks` begin its chain anew, where its client rewrote the history.
    """

    known: KnownThread
    depth: int
    start: ThreadStart | None = None
    marks: Sequence[NewRecord] = ()


class ThreadLookup:
    """Finds the thread of a resent history, and records what is new in it; one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, threads: ThreadCache) -> None:
        self._backend = backend
        self._dialect = dialect
        self._threads = threads
        self._sessions = Sessions(backend, dialect)

    def seed(self, agent: str) -> bytes:
        return seed_chain(self._backend.store.tenant.key, dialect=self._dialect.name, agent=agent)

    async def knows_session(self, hints: Hints) -> bool:
        """Whether a client's name for its conversation has a thread."""
        return await find_named_thread(self._backend, hints, self._dialect) is not None

    async def find(self, history: History, opened: OpenRequest) -> tuple[KnownThread, int] | None:
        """Return the thread that holds the longest known part of a request's history, as it stood at its end, and that part's
        length.

        Read only: where the history leaves the thread, it is the thread before that point. Another conversation that only
        begins alike is not found; see `Sessions`.
        """
        cached = await self._find_cached(history, opened.hints)
        if cached is not None:
            return cached
        match = await self._find_stored(history, opened)
        if match is None:
            return None
        seed = self.seed(opened.hints.agent)
        return await load_known(self._backend, match.thread_id, seed=seed, stop=match.stop), match.depth

    async def reload(self, known: KnownThread, hints: Hints) -> KnownThread:
        """Return a thread as it stands now that it was changed."""
        known = await load_known(self._backend, known.thread_id, seed=self.seed(hints.agent))
        self._threads.remember(known)
        return known

    async def record(self, opened: OpenRequest, *, found: tuple[KnownThread, int] | None = None) -> KnownThread:
        """Record what is new in a request; return the thread that now ends where the request does.

        A history that leaves a known path forks there; one that a client made of an older one goes on in that thread. The
        thread's context is recorded where it changed. `found` is what `find` returned a moment ago: the store refuses it if it no
        longer fits. Durable when it returns.

        Raises:
            OrdinalConflict: Another request of the same conversation was faster; look again.
        """
        history = opened.history
        is_new = found is not None and found[1] < len(history.items) and self._threads.is_current(found[0])
        cached = found if is_new else await self._find_cached(history, opened.hints)
        if cached is not None:
            known, depth = cached
            try:
                return await self._append(_Opening(known=known, depth=depth), opened)
            except OrdinalConflict:
                self._threads.forget(known.thread_id)
                raise
        match = await self._find_stored(history, opened)
        if match is not None and match.stop is not None:
            # What looks like a fork may be the same request twice at once, the other one a step ahead.
            match = await self._find_stored(history, opened)
        return await self._append(await self._open_thread(match, opened), opened)

    def make_context(self, before: ThreadContext | None, opened: OpenRequest) -> ThreadContext:
        """Return the context that holds with this request.

        Items that another account sealed stay its own, however long ago that was. Instructions and memories are part of what
        thinking is bound to: with other memories, all thinking before is bound elsewhere.
        """
        hints, memory, links = opened.hints, opened.memory.pin, len(opened.history.items)
        head = self._digest_head(opened.request)
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

    async def record_context(self, known: KnownThread, context: ThreadContext, request: Request) -> KnownThread:
        """Record the context of a thread's requests from here on, whatever else was written meanwhile."""
        record = self._make_context_record(context, request, turn=known.tip.turn)
        reached = await self._backend.append_beside(known.thread_id, record, expected=known.tip.next)
        after = replace(known, tip=replace(known.tip, next=reached), context=context)
        if reached <= known.tip.next + 1:
            self._threads.remember(after)
        else:
            self._threads.forget(known.thread_id)
        return after

    async def _find_cached(self, history: History, hints: Hints) -> tuple[KnownThread, int] | None:
        """Return the cached thread that ends in the history, if it still does and no stored thread holds more of it."""
        found = self._threads.find_ending(history.chain)
        if found is None:
            return None
        known, depth = found
        if not is_certain(known, history, depth, session=hints.session):
            return None
        has_longer, reached, *ancestors = await asyncio.gather(
            self._has_longer(history, depth=depth),
            self._load_end(known.thread_id),
            *(self._load_end(name) for name, _ in known.erased.ancestors),
        )
        if has_longer:
            return None
        if reached == known.tip.next:
            still = await follow_ancestors(self._backend.store, known.erased, ancestors)
            if still is known.erased:
                return found
            if still is not None:
                self._threads.remember(replace(known, erased=still))
                return self._threads.find_ending(history.chain)
        self._threads.forget(known.thread_id)
        return None

    async def _load_end(self, thread_id: str) -> int | None:
        try:
            return (await self._backend.store.get(thread_id)).next
        except ThreadNotFound:
            return None

    async def _has_longer(self, history: History, *, depth: int) -> bool:
        """Whether a thread ends in the history that holds more than the first `depth` items of it; its next link tells of it."""
        later = {info.link for info in history.infos[depth:]}
        for match in await self._backend.store.lookup([history.infos[depth].link]) if later else ():
            if (await load_tip(self._backend.store, match.thread_id, seed=b"")).chain in later:
                return True
        return False

    async def _find_stored(self, history: History, opened: OpenRequest) -> Match | None:
        """Return where the longest known part of a history lies, preferring a thread that ends with it; None if all is new."""
        deepest = await find_deepest(self._backend.store, history.chain)
        hints, head = opened.hints, self._digest_head(opened.request)
        found = await self._sessions.filter_found(deepest, history, hints=hints, head=head)
        for match in found:
            tip = await load_tip(self._backend.store, match.thread_id, seed=self.seed(hints.agent))
            if tip.chain == match.chain:
                return Match(thread_id=match.thread_id, stop=None, depth=match.depth, ordinal=match.ordinal)
        if not found:
            return None
        # A thread whose client rewrote its history may hold a beginning twice: a fork leaves where it was said first.
        first = min((match for match in found if match.thread_id == found[0].thread_id), key=lambda match: match.ordinal)
        is_whole = not any(info.is_summary for info in history.infos[: first.depth])
        if is_whole and not hints.session and await self._is_rewritten(first):
            # Rendered anew, two conversations may begin alike; a fork would take over what only one of them said before.
            return None
        stop = await self._find_step_end(first)
        return Match(thread_id=first.thread_id, stop=stop, depth=first.depth, ordinal=first.ordinal)

    async def _is_rewritten(self, match: Found) -> bool:
        """Whether a record stands in a history that its client rewrote."""
        before = Span(thread_id=match.thread_id, start=0, stop=match.ordinal)
        return any(map(is_rewrite_mark, await self._backend.store.read(before, kinds={RecordKind.META}, bodies=False)))

    async def _find_step_end(self, match: Found) -> int:
        """Return where the next step after a record begins. Checkpoints in between belong to the history before it."""
        row = await self._backend.store.get(match.thread_id)
        start = match.ordinal + 1
        while start < row.next:
            span = Span(thread_id=match.thread_id, start=start, stop=row.next)
            page = await self._backend.store.read(span, kinds=NEXT_STEP, limit=PAGE, bodies=False)
            for record in page:
                is_step = record.kind in (RecordKind.TURN, RecordKind.ITEM) or record.chain is not None
                if is_step or is_rewrite_mark(record):
                    return record.ordinal
            if not page:
                break
            start = page[-1].ordinal + 1
        return row.next

    async def _open_thread(self, match: Match | None, opened: OpenRequest) -> _Opening:
        """Return where a request's new items go: a thread that goes on or begins anew, a fork, or a thread of its own."""
        history, seed = opened.history, self.seed(opened.hints.agent)
        if match is not None and match.stop is None:
            known = await load_known(self._backend, match.thread_id, seed=seed)
            if known.tip.chain != history.infos[match.depth - 1].link:
                # Another request took the thread on since it was looked up: what is new is no longer what was new then.
                raise OrdinalConflict(match.thread_id, expected=match.ordinal + 1, actual=known.tip.next)
            return _Opening(known=known, depth=match.depth)
        depth = match.depth if match else 0
        rewritten = await find_rewritten_thread(
            self._backend,
            history,
            depth=depth,
            hints=opened.hints,
            head=self._digest_head(opened.request),
            dialect=self._dialect,
        )
        if rewritten is not None:
            return await self._begin_anew(rewritten, opened)
        if match is None:
            start = prepare_thread(self._backend, self._dialect, agent=opened.hints.agent)
            known = KnownThread(thread_id=start.thread.id, tip=Tip(next=0, turn=0, depth=0, chain=seed))
        else:
            start = await prepare_fork(self._backend, match.thread_id, at=match.stop or 0)
            known = await load_known(self._backend, match.thread_id, seed=seed, stop=match.stop)
        return _Opening(known=replace(known, thread_id=start.thread.id, tip=start.tip(known.tip)), depth=depth, start=start)

    async def _begin_anew(self, thread_id: str, opened: OpenRequest) -> _Opening:
        """Return a thread whose client rewrote its history; a summary in it is told beside what people said before."""
        store, history = self._backend.store, opened.history
        row = await store.get(thread_id)
        turn = await load_current_turn(store, row, stop=row.next)
        tip = Tip(next=row.next, turn=turn, depth=0, chain=self.seed(opened.hints.agent))
        marks = [await make_rewrite_mark(self._backend, thread_id, at=row.next, turn=turn)]
        known = KnownThread(thread_id=thread_id, tip=tip)
        summaries = [info for info in history.infos if info.is_summary]
        # A provider's own compaction has its own way to keep what people said, and nothing may stand before it.
        if summaries and not any(info.is_sealed for info in summaries) and await self._is_compacted_here(thread_id, opened):
            checkpoint = await carry_over(
                self._backend,
                thread_id,
                at=row.next,
                dialect=self._dialect,
                said=self._list_said(history),
                room_tokens=find_request_limits(self._backend, opened.hints).hard - sum(info.tokens for info in history.infos),
            )
            if checkpoint is not None:
                now = self._backend.clock.now_ms()
                marks.append(make_checkpoint_record(checkpoint, at_ms=now, turn=turn, tokens=checkpoint.figures["tokens_after"]))
                active = ActiveCheckpoint(ordinal=row.next + 1, checkpoint=checkpoint, layout=read_layout(checkpoint))
                known = replace(known, active=active)
        return _Opening(known=known, depth=0, marks=marks)

    async def _is_compacted_here(self, thread_id: str, opened: OpenRequest) -> bool:
        """Whether the gateway compacts this conversation: automatically, or because a person asked for it before."""
        return opened.is_compacted or (await load_live_path(self._backend.store, thread_id)).checkpoint is not None

    def _list_said(self, history: History) -> list[str]:
        spoken = (item for item, info in zip(history.items, history.infos, strict=True) if info.by_person)
        return [self._dialect.view(item).said for item in spoken]

    async def _append(self, opening: _Opening, opened: OpenRequest) -> KnownThread:
        known, depth, start, history, hints = opening.known, opening.depth, opening.start, opened.history, opened.hints
        context = self.make_context(known.context, opened)
        records = list(opening.marks)
        named_before = known.context.session if known.context is not None and start is None else ""
        is_named_anew = bool(hints.session) and hints.session != named_before
        if is_named_anew or context != known.context:
            record = self._make_context_record(context, opened.request, turn=known.tip.turn)
            if is_named_anew:
                name = digest_session(self._backend.store.tenant.key, hints.session_name, agent=hints.agent)
                record = replace(record, chain=name, depth=known.tip.depth)
            records.append(record)
        # Of a rewritten history only what the person said last is new.
        resent = max((at for at, info in enumerate(history.infos) if info.by_person), default=0) if opening.marks else 0
        tip = known.tip
        while records or start or depth < len(history.items):
            new = await self._take_unit(history, depth, resent=resent)
            tip = await append_items(
                self._backend,
                known.thread_id,
                new,
                tip=tip,
                model=hints.model or None,
                issuer=hints.issuer or None,
                before=records,
                begun=start,
            )
            records, start, depth = [], None, depth + len(new)
        after = replace(known, tip=tip, context=context)
        self._threads.remember(after)
        return after

    async def _take_unit(self, history: History, depth: int, *, resent: int) -> list[Arrival]:
        """Return the next items to append as one unit; other requests get the event loop now and then."""
        new: list[Arrival] = []
        for index in range(depth, min(len(history.items), depth + 2 * UNIT_ITEMS)):
            arrival = self._make_arrival(history, index)
            new.append(replace(arrival, resent=True) if index < resent else arrival)
            # What a host said right before a person's message belongs to the turn that message opens.
            if len(new) >= UNIT_ITEMS and new[-1].view.context is None:
                break
            if len(new) % TURN_ITEMS == 0:
                await asyncio.sleep(0)
        return new

    def _make_arrival(self, history: History, index: int) -> Arrival:
        item, aside, parsed = history.items[index], history.aside[index], history.parsed.get(index)
        if parsed is None or self._backend.redact is not None:
            return make_arrival(self._dialect, item, aside=aside, redact=self._backend.redact)
        tokens = history.infos[index].tokens
        return Arrival(item=item, view=parsed.view, canonical=parsed.canonical, tokens=tokens, aside=aside)

    def _make_context_record(self, context: ThreadContext, request: Request, *, turn: int) -> NewRecord:
        body = context.encode(self._head_fields(request), [msgspec.Raw(item.raw) for item in request.head])
        return NewRecord(kind=RecordKind.CONTEXT, at_ms=self._backend.clock.now_ms(), turn=turn, tokens=0, body=body)

    def _digest_head(self, request: Request) -> bytes:
        return digest_head(self._head_fields(request), [msgspec.Raw(item.raw) for item in request.head])

    def _head_fields(self, request: Request) -> dict[str, msgspec.Raw]:
        """Return what the model is told outside its history. Other fields, such as cache keys, change with every request."""
        return {name: msgspec.Raw(request.fields[name]) for name in self._dialect.api.head_fields if name in request.fields}
