"""A client's request as its provider gets it: the client's own bytes, unless something in them must be another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from threadkeep.client.turn import Started, run_start_hooks
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import CompactionStopped
from threadkeep.gateway.conversation.item_cache import Seen
from threadkeep.gateway.conversation.lookup import Placing, told_now
from threadkeep.gateway.conversation.recall_tool import TOOL, put_back
from threadkeep.gateway.conversation.request import Arrived, merge_header_lists
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import Known, Standing, Told
from threadkeep.gateway.conversation.window import Erased, Placed, window_of, without_erased
from threadkeep.hooks import HookEvent
from threadkeep.items import Item
from threadkeep.threads.reader import load_live_path, load_start
from threadkeep.tokens import estimate_bytes, estimate_item


class Upstreams:
    """Makes requests to providers for conversations of one dialect."""

    def __init__(self, backend: Backend, dialect: Dialect, placing: Placing, rules: Rules) -> None:
        self._backend = backend
        self._dialect = dialect
        self._placing = placing
        self._rules = rules
        self._starts = Starts(backend, dialect, placing)

    async def made(self, known: Known, arrived: Arrived) -> tuple[Known, Upstream]:
        """Return the request for a conversation's next step, and the thread after it.

        Which window is sent is recorded before it is first sent, where its provider binds what it answers to it. SessionStart
        hooks run before a window is first sent, and what they add is recorded and in it.

        Raises:
            CompactionStopped: Such a hook wants the turn to end.
        """
        told = known.told or told_now(
            None, arrived.request, arrived.hints, dialect=self._dialect, links=len(arrived.seen.items), memory=arrived.memory.pin
        )
        is_new = self.is_new_window(known)
        if self.starts_anew(known):
            known = await self._starts.ran(known, arrived)
            told = known.told or told
        if is_new:
            told = replace(told, checkpoint=_ordinal(known.standing), bound_from=len(arrived.seen.items))
            known = await self._placing.tell(known, told, arrived.request)
        return known, self._request(arrived, told, known.standing, known.erased)

    def starts_anew(self, known: Known) -> bool:
        """Whether SessionStart hooks are to be run before the window that counts is sent; never once answers are bound to it."""
        return self._starts.is_due(known) and (self._dialect.api.thinking is None or self.is_new_window(known))

    def is_new_window(self, known: Known) -> bool:
        """Whether the window that counts is another than the one sent last, and its provider binds what it answers to it."""
        in_use = known.told.checkpoint if known.told else None
        return self._dialect.api.thinking is not None and _ordinal(known.standing) != in_use

    def shown(self, known: Known | None, arrived: Arrived) -> Upstream:
        """Return a request for a history as far as it is known, nothing being recorded; None is one that nobody knows."""
        links = len(arrived.seen.items)
        told = told_now(
            known.told if known else None,
            arrived.request,
            arrived.hints,
            dialect=self._dialect,
            links=links,
            memory=arrived.memory.pin,
        )
        if known is None:
            return self._request(arrived, told, None, Erased())
        if self.is_new_window(known):
            told = replace(told, checkpoint=_ordinal(known.standing), bound_from=links)
        return self._request(arrived, told, known.standing, known.erased)

    def tokens(self, known: Known | None, arrived: Arrived) -> int:
        """Return our estimate of what a conversation's next step would hold."""
        if known is None or (known.standing is None and not known.erased.depths):
            return self._whole(arrived)
        window = self._window(arrived, known.told, known.standing, known.erased)
        return self._beside(self.with_memory(arrived)) + sum(placed.tokens for placed in window)

    def with_memory(self, arrived: Arrived) -> Request:
        """Return a request with what its model is shown of the memory, and the means to recall; the very same one where that
        is nothing.
        """
        api, request = self._dialect.api, arrived.request
        if arrived.memory.text:
            request = api.add_instructions(request, arrived.memory.text)
        return request if arrived.recalled is None else api.make_hidden_tool(TOOL).add_to(request)

    def _window(self, arrived: Arrived, told: Told | None, standing: Standing | None, erased: Erased) -> list[Placed]:
        """Return the history to send, what was erased of it taken out."""
        start, layout = start_of(told, standing), standing.layout if standing else None
        window = window_of(arrived.seen, layout, issuer=arrived.hints.issuer, start=start)
        return without_erased(window, erased, dialect=self._dialect)

    def _request(self, arrived: Arrived, told: Told, standing: Standing | None, erased: Erased) -> Upstream:
        seen, request, rules = arrived.seen, self.with_memory(arrived), self._rules
        if erased.bound > told.bound_from:
            told = replace(told, bound_from=erased.bound)
        as_it_came = request is arrived.request and not rules.derives_cache_key and not erased.depths
        if standing is None and as_it_came and not (any(seen.aside) or told.issued_from or told.bound_from):
            return Upstream(body=arrived.incoming.body, tokens=self._whole(arrived))
        window = self._window(arrived, told, standing, erased)
        # An answer that was erased is not put together again from what was recalled in it.
        recalled = [exchange for exchange in arrived.recalled or () if exchange.depth + 1 not in erased.depths]
        if recalled:
            window = put_back(window, recalled, seen, dialect=self._dialect)
        cache = self._dialect.api.prompt_cache
        if rules.derives_cache_key and cache is not None:
            request = cache.set_key(request, f"threadkeep-{seen.glances[0].link.hex()}")
        request, headers, bound = self._with_thinking(request, window, arrived, told)
        window = legal(window, told, dialect=self._dialect, bound=bound)
        ours = [placed.item for placed in window if placed.depth is None]
        headers |= merge_header_lists(headers, self._dialect.api.headers_for(ours))
        window = marked(window, request, dialect=self._dialect)
        covers = standing.layout.covers if standing else 0
        window = brought_together(window, seen, covers=covers, dialect=self._dialect, model=arrived.hints.model)
        if rules.sets_breakpoints and standing and cache and cache.takes_breakpoints(arrived.hints.model, arrived.headers):
            window, request = pointed(window, request, dialect=self._dialect)
        tokens = self._beside(request) + sum(placed.tokens for placed in window)
        if request is arrived.request and [placed.item for placed in window] == list(seen.items):
            return Upstream(body=arrived.incoming.body, tokens=tokens)
        items = [placed.item for placed in window]
        rewritten = standing is not None or any(seen.aside)
        body = self._dialect.join(request, self._dialect.arrange(items) if rewritten else items)
        return Upstream(body=body, tokens=tokens, headers=merge_header_lists(arrived.headers, headers))

    def _whole(self, arrived: Arrived) -> int:
        """Return our estimate of a request as the client sends it, what was said to the gateway left out."""
        spoken = zip(arrived.seen.glances, arrived.seen.aside, strict=True)
        return self._beside(self.with_memory(arrived)) + sum(glance.tokens for glance, aside in spoken if not aside)

    def _beside(self, request: Request) -> int:
        """Return our estimate of what goes out beside the history."""
        fields = sum(len(raw) for name, raw in request.fields.items() if name != self._dialect.history_field)
        return estimate_bytes(fields + sum(len(item.raw) for item in request.head))

    def _with_thinking(
        self, request: Request, window: list[Placed], arrived: Arrived, told: Told
    ) -> tuple[Request, dict[str, str], int]:
        """Return a request that says what becomes of thinking bound to another window, the headers it needs, and how many of the
        client's items lose theirs before it is sent.
        """
        thinking = self._dialect.api.thinking
        if thinking is None or not _has_bound(window, told):
            return request, {}, told.bound_from
        loop = loop_start(arrived.seen, until=told.bound_from)
        if self._rules.thinking == "strip" and loop is None:
            return request, {}, told.bound_from
        if self._rules.thinking == "strip" and not thinking.is_bound(arrived.hints.model):
            return request, {}, loop or 0
        request, headers = thinking.drop_mismatched(request)
        kept_from = 0 if self._rules.thinking == "drop_block" else loop or 0
        return request, dict(headers), kept_from if headers else told.bound_from


def _has_bound(window: list[Placed], told: Told) -> bool:
    """Whether a window holds thinking that its provider bound to another."""
    return any(placed.sealed and placed.depth is not None and placed.depth <= told.bound_from for placed in window)


def _ordinal(standing: Standing | None) -> int | None:
    return standing.ordinal if standing else None


COMPACTION_SIGN: Final = b'"compaction"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A request as the provider gets it: its body, headers beside the client's own, and our estimate of what it holds."""

    body: bytes = field(repr=False)
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def counted_tokens(upstream: Upstream) -> int:
    """Return our estimate of what the provider counts of a request; 0 where it reads nothing before its own compaction."""
    return 0 if COMPACTION_SIGN in upstream.body else upstream.tokens


def loop_start(seen: Seen, *, until: int) -> int | None:
    """Return where the tool loop begins that was running on sealed thinking after the first `until` items; None if none was.

    What came later does not matter, so that the answer is the same for every request of a window.
    """
    before = seen.glances[:until]
    asked = [index for index, glance in enumerate(before) if glance.by_person and not seen.aside[index]]
    start = asked[-1] + 1 if asked else 0
    goes_on = seen.in_tool_loop and len(seen.glances) - len(seen.turn) == start
    is_running = bool(before) and (before[-1].is_output or goes_on)
    return start if is_running and any(glance.is_sealed for glance in before[start:]) else None


def legal(window: Sequence[Placed], told: Told, *, dialect: Dialect, bound: int) -> list[Placed]:
    """Return a window without what its provider would refuse: what others sealed, and thinking of the first `bound` items."""
    thinking = dialect.api.thinking
    kept: list[Placed] = []
    for placed in window:
        depth = placed.depth if placed.sealed else None
        item: Item | None = placed.item
        if depth is not None and depth <= told.issued_from:
            item = dialect.remove_sealed(placed.item)
        elif thinking is not None and depth is not None and depth <= bound:
            item = thinking.remove_thinking(placed.item)
        if item is not None:
            kept.append(placed if item is placed.item else replace(placed, item=item))
    return kept


def marked(window: Sequence[Placed], request: Request, *, dialect: Dialect) -> list[Placed]:
    """Return a window with a cache marker at the end of what a checkpoint laid out, where one is free."""
    markers = dialect.api.cache_markers
    at = _last_laid_out(window)
    if markers is None or at is None:
        return list(window)
    item = markers.mark_item([placed.item for placed in window], request, at=at)
    return [*window[:at], replace(window[at], item=item), *window[at + 1 :]]


def brought_together(window: Sequence[Placed], seen: Seen, *, covers: int, dialect: Dialect, model: str) -> list[Placed]:
    """Return a window in which no two messages of the user's follow each other because a checkpoint brought them together.

    A client whose own first `covers` items hold such neighbours has a provider that takes them.
    """
    merger = dialect.api.merger
    if merger is None or not covers or merger.takes_neighbours(model):
        return list(window)
    users = [merger.is_user_message(item) for item in seen.items[:covers]]
    if any(one and other for one, other in pairwise(users)):
        return list(window)
    runs: list[list[Placed]] = []
    for placed in window:
        before = runs[-1][-1] if runs else None
        if before is not None and before.laid_out and merger.is_user_message(before.item) and merger.is_user_message(placed.item):
            runs[-1].append(placed)
        else:
            runs.append([placed])
    return [
        run[0]
        if len(run) == 1
        else replace(
            run[-1], item=merger.merge_messages([placed.item for placed in run]), tokens=sum(placed.tokens for placed in run)
        )
        for run in runs
    ]


def pointed(window: Sequence[Placed], request: Request, *, dialect: Dialect) -> tuple[list[Placed], Request]:
    """Return a window and its request with a breakpoint at the end of the head and of what a checkpoint laid out.

    A client that sets any itself is left alone.
    """
    cache = dialect.api.prompt_cache
    raws = (*request.fields.values(), *(item.raw for item in request.head), *(placed.item.raw for placed in window))
    if cache is None or any(map(cache.has_breakpoint, raws)):
        return list(window), request
    head = cache.set_breakpoint(request.head[-1]) if request.head else None
    if head is not None:
        request = replace(request, head=(*request.head[:-1], head))
    for at in range(len(window) - 1, -1, -1):
        item = cache.set_breakpoint(window[at].item) if window[at].laid_out else None
        if item is not None:
            return [*window[:at], replace(window[at], item=item), *window[at + 1 :]], request
    return list(window), request


def _last_laid_out(window: Sequence[Placed]) -> int | None:
    return next((at for at in range(len(window) - 1, -1, -1) if window[at].laid_out), None)


Start = tuple[bytes, ...]


class Starts:
    """Runs the hooks for conversations of one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, placing: Placing) -> None:
        self._backend = backend
        self._dialect = dialect
        self._placing = placing
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_due(self, known: Known) -> bool:
        """Whether hooks are to be run before the window that counts is sent.

        Where there was no such hook when it was compacted there is none to run later: the window was sent without what it adds.
        """
        standing, told = known.standing, known.told
        if standing is None or not standing.checkpoint.start_due or (told is not None and told.started == standing.ordinal):
            return False
        return self._backend.policy.hooks.has_any(HookEvent.SESSION_START)

    async def ran(self, known: Known, arrived: Arrived) -> Known:
        """Run the hooks for a window that is about to be sent; return the thread with what they add recorded.

        Of requests that come at once one runs them and all send the same; so do other gateways on this store, though each of them
        may have run them. A compaction that is undone brings back the window before it, and what was added to that.

        Raises:
            CompactionStopped: A hook wants the turn to end. The next request goes on.
        """
        standing = known.standing
        if standing is None:
            return known
        lock = self._locks.setdefault(known.thread_id, asyncio.Lock())
        async with lock:
            first, stopped_by = await self._first(known, standing), None
            if first is None:
                started = await self._run(known, arrived, standing)
                known = await self._record(known, arrived, standing, self._written(started))
                first, stopped_by = await self._first(known, standing), started.stopped_by
            if first is not None and (known.told is None or (known.told.started, known.told.start) != (standing.ordinal, first)):
                known = await self._record(known, arrived, standing, first)
        if stopped_by is not None:
            raise CompactionStopped(known.thread_id, event=str(HookEvent.SESSION_START), reason=stopped_by)
        return known

    async def _run(self, known: Known, arrived: Arrived, standing: Standing) -> Started:
        model = arrived.hints.model or None
        return await run_start_hooks(
            self._backend, known.thread_id, dialect=self._dialect, model=model, checkpoint=standing.ordinal
        )

    def _written(self, started: Started) -> Start:
        redact = self._backend.redact
        return tuple(redact(item.raw) if redact else item.raw for item in started.items)

    async def _record(self, known: Known, arrived: Arrived, standing: Standing, start: Start) -> Known:
        links, memory = len(arrived.seen.items), arrived.memory.pin
        told = told_now(known.told, arrived.request, arrived.hints, dialect=self._dialect, links=links, memory=memory)
        return await self._placing.tell(known, replace(told, started=standing.ordinal, start=start), arrived.request)

    async def _first(self, known: Known, standing: Standing) -> Start | None:
        """Return what was first recorded to be told with a window; None where its hooks were not run yet."""
        path = await load_live_path(self._backend.store, known.thread_id)
        said = await load_start(self._backend.store, path, checkpoint=standing.ordinal)
        return None if said is None else tuple(item.raw for item in said)


def start_of(told: Told | None, standing: Standing | None) -> list[Placed]:
    """Return what hooks added to a window, in the places it has there; nothing where it was added to another."""
    if told is None or standing is None or told.started != standing.ordinal:
        return []
    return [Placed(item=Item(raw), tokens=estimate_item(raw), laid_out=True) for raw in told.start]
