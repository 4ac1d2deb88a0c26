"""A client's request as its provider gets it: the client's own bytes, unless something in them must be another."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from threadkeep.client.turn import StartResult, run_start_hooks
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import CompactionStopped
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.lookup import ThreadLookup, make_context
from threadkeep.gateway.conversation.recall_tool import TOOL, restore_exchanges
from threadkeep.gateway.conversation.request import OpenRequest, merge_header_lists
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import ActiveCheckpoint, KnownThread, ThreadContext
from threadkeep.gateway.conversation.window import Erased, WindowItem, build_window, replace_erased
from threadkeep.hooks import HookEvent
from threadkeep.items import Item
from threadkeep.threads.reader import load_live_path, load_start
from threadkeep.tokens import estimate_bytes, estimate_item


class RequestBuilder:
    """Makes requests to providers for conversations of one dialect."""

    def __init__(self, backend: Backend, dialect: Dialect, placing: ThreadLookup, rules: Rules) -> None:
        self._backend = backend
        self._dialect = dialect
        self._placing = placing
        self._rules = rules
        self._starts = StartHooks(backend, dialect, placing)

    async def made(self, known: KnownThread, opened: OpenRequest) -> tuple[KnownThread, Upstream]:
        """Return the request for a conversation's next step, and the thread after it.

        Which window is sent is recorded before it is first sent, where its provider binds what it answers to it. SessionStart
        hooks run before a window is first sent, and what they add is recorded and in it.

        Raises:
            CompactionStopped: Such a hook wants the turn to end.
        """
        context = known.context or make_context(
            None, opened.request, opened.hints, dialect=self._dialect, links=len(opened.history.items), memory=opened.memory.pin
        )
        is_new = self.is_new_window(known)
        if self.must_run_start_hooks(known):
            known = await self._starts.ran(known, opened)
            context = known.context or context
        if is_new:
            context = replace(context, checkpoint=_ordinal(known.active), bound_from=len(opened.history.items))
            known = await self._placing.tell(known, context, opened.request)
        return known, self._request(opened, context, known.active, known.erased)

    def must_run_start_hooks(self, known: KnownThread) -> bool:
        """Whether SessionStart hooks are to be run before the window that counts is sent; never once answers are bound to it."""
        return self._starts.is_due(known) and (self._dialect.api.thinking is None or self.is_new_window(known))

    def is_new_window(self, known: KnownThread) -> bool:
        """Whether the window that counts is another than the one sent last, and its provider binds what it answers to it."""
        in_use = known.context.checkpoint if known.context else None
        return self._dialect.api.thinking is not None and _ordinal(known.active) != in_use

    def shown(self, known: KnownThread | None, opened: OpenRequest) -> Upstream:
        """Return a request for a history as far as it is known, nothing being recorded; None is one that nobody knows."""
        links = len(opened.history.items)
        context = make_context(
            known.context if known else None,
            opened.request,
            opened.hints,
            dialect=self._dialect,
            links=links,
            memory=opened.memory.pin,
        )
        if known is None:
            return self._request(opened, context, None, Erased())
        if self.is_new_window(known):
            context = replace(context, checkpoint=_ordinal(known.active), bound_from=links)
        return self._request(opened, context, known.active, known.erased)

    def tokens(self, known: KnownThread | None, opened: OpenRequest) -> int:
        """Return our estimate of what a conversation's next step would hold."""
        if known is None or (known.active is None and not known.erased.depths):
            return self._whole(opened)
        window = self._window(opened, known.context, known.active, known.erased)
        return self._beside(self.add_extras(opened)) + sum(placed.tokens for placed in window)

    def add_extras(self, opened: OpenRequest) -> Request:
        """Return a request with what its model is shown of the memory, and the means to recall; the very same one where that
        is nothing.
        """
        api, request = self._dialect.api, opened.request
        if opened.memory.text:
            request = api.add_instructions(request, opened.memory.text)
        return request if opened.recalled is None else api.make_hidden_tool(TOOL).add_to(request)

    def _window(
        self, opened: OpenRequest, context: ThreadContext | None, active: ActiveCheckpoint | None, erased: Erased
    ) -> list[WindowItem]:
        """Return the history to send, what was erased of it taken out."""
        start, layout = find_start_items(context, active), active.layout if active else None
        window = build_window(opened.history, layout, issuer=opened.hints.issuer, start=start)
        return replace_erased(window, erased, dialect=self._dialect)

    def _request(self, opened: OpenRequest, context: ThreadContext, active: ActiveCheckpoint | None, erased: Erased) -> Upstream:
        history, request, rules = opened.history, self.add_extras(opened), self._rules
        if erased.bound > context.bound_from:
            context = replace(context, bound_from=erased.bound)
        as_it_came = request is opened.request and not rules.derives_cache_key and not erased.depths
        if active is None and as_it_came and not (any(history.aside) or context.issued_from or context.bound_from):
            return Upstream(body=opened.incoming.body, tokens=self._whole(opened))
        window = self._window(opened, context, active, erased)
        # An answer that was erased is not put together again from what was recalled in it.
        recalled = [exchange for exchange in opened.recalled or () if exchange.depth + 1 not in erased.depths]
        if recalled:
            window = restore_exchanges(window, recalled, history, dialect=self._dialect)
        cache = self._dialect.api.prompt_cache
        if rules.derives_cache_key and cache is not None:
            request = cache.set_key(request, f"threadkeep-{history.infos[0].link.hex()}")
        request, headers, bound = self._with_thinking(request, window, opened, context)
        window = remove_refused(window, context, dialect=self._dialect, bound=bound)
        ours = [placed.item for placed in window if placed.depth is None]
        headers |= merge_header_lists(headers, self._dialect.api.headers_for(ours))
        window = set_cache_marker(window, request, dialect=self._dialect)
        covers = active.layout.covers if active else 0
        window = merge_neighbours(window, history, covers=covers, dialect=self._dialect, model=opened.hints.model)
        if rules.sets_breakpoints and active and cache and cache.takes_breakpoints(opened.hints.model, opened.headers):
            window, request = set_breakpoints(window, request, dialect=self._dialect)
        tokens = self._beside(request) + sum(placed.tokens for placed in window)
        if request is opened.request and [placed.item for placed in window] == list(history.items):
            return Upstream(body=opened.incoming.body, tokens=tokens)
        items = [placed.item for placed in window]
        rewritten = active is not None or any(history.aside)
        body = self._dialect.join(request, self._dialect.arrange(items) if rewritten else items)
        return Upstream(body=body, tokens=tokens, headers=merge_header_lists(opened.headers, headers))

    def _whole(self, opened: OpenRequest) -> int:
        """Return our estimate of a request as the client sends it, what was said to the gateway left out."""
        spoken = zip(opened.history.infos, opened.history.aside, strict=True)
        return self._beside(self.add_extras(opened)) + sum(glance.tokens for glance, aside in spoken if not aside)

    def _beside(self, request: Request) -> int:
        """Return our estimate of what goes out beside the history."""
        fields = sum(len(raw) for name, raw in request.fields.items() if name != self._dialect.history_field)
        return estimate_bytes(fields + sum(len(item.raw) for item in request.head))

    def _with_thinking(
        self, request: Request, window: list[WindowItem], opened: OpenRequest, context: ThreadContext
    ) -> tuple[Request, dict[str, str], int]:
        """Return a request that says what becomes of thinking bound to another window, the headers it needs, and how many of the
        client's items lose theirs before it is sent.
        """
        thinking = self._dialect.api.thinking
        if thinking is None or not _has_bound(window, context):
            return request, {}, context.bound_from
        loop = find_loop_start(opened.history, until=context.bound_from)
        if self._rules.thinking == "strip" and loop is None:
            return request, {}, context.bound_from
        if self._rules.thinking == "strip" and not thinking.is_bound(opened.hints.model):
            return request, {}, loop or 0
        request, headers = thinking.drop_mismatched(request)
        kept_from = 0 if self._rules.thinking == "drop_block" else loop or 0
        return request, dict(headers), kept_from if headers else context.bound_from


def _has_bound(window: list[WindowItem], context: ThreadContext) -> bool:
    """Whether a window holds thinking that its provider bound to another."""
    return any(placed.sealed and placed.depth is not None and placed.depth <= context.bound_from for placed in window)


def _ordinal(active: ActiveCheckpoint | None) -> int | None:
    return active.ordinal if active else None


COMPACTION_SIGN: Final = b'"compaction"'


@dataclass(frozen=True, slots=True, kw_only=True)
class Upstream:
    """A request as the provider gets it: its body, headers beside the client's own, and our estimate of what it holds."""

    body: bytes = field(repr=False)
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


def estimate_counted_tokens(upstream: Upstream) -> int:
    """Return our estimate of what the provider counts of a request; 0 where it reads nothing before its own compaction."""
    return 0 if COMPACTION_SIGN in upstream.body else upstream.tokens


def find_loop_start(history: History, *, until: int) -> int | None:
    """Return where the tool loop begins that was running on sealed thinking after the first `until` items; None if none was.

    What came later does not matter, so that the answer is the same for every request of a window.
    """
    before = history.infos[:until]
    asked = [index for index, glance in enumerate(before) if glance.by_person and not history.aside[index]]
    start = asked[-1] + 1 if asked else 0
    goes_on = history.in_tool_loop and len(history.infos) - len(history.turn) == start
    is_running = bool(before) and (before[-1].is_output or goes_on)
    return start if is_running and any(glance.is_sealed for glance in before[start:]) else None


def remove_refused(window: Sequence[WindowItem], context: ThreadContext, *, dialect: Dialect, bound: int) -> list[WindowItem]:
    """Return a window without what its provider would refuse: what others sealed, and thinking of the first `bound` items."""
    thinking = dialect.api.thinking
    kept: list[WindowItem] = []
    for placed in window:
        depth = placed.depth if placed.sealed else None
        item: Item | None = placed.item
        if depth is not None and depth <= context.issued_from:
            item = dialect.remove_sealed(placed.item)
        elif thinking is not None and depth is not None and depth <= bound:
            item = thinking.remove_thinking(placed.item)
        if item is not None:
            kept.append(placed if item is placed.item else replace(placed, item=item))
    return kept


def set_cache_marker(window: Sequence[WindowItem], request: Request, *, dialect: Dialect) -> list[WindowItem]:
    """Return a window with a cache marker at the end of what a checkpoint laid out, where one is free."""
    markers = dialect.api.cache_markers
    at = _last_laid_out(window)
    if markers is None or at is None:
        return list(window)
    item = markers.mark_item([placed.item for placed in window], request, at=at)
    return [*window[:at], replace(window[at], item=item), *window[at + 1 :]]


def merge_neighbours(
    window: Sequence[WindowItem], history: History, *, covers: int, dialect: Dialect, model: str
) -> list[WindowItem]:
    """Return a window in which no two messages of the user's follow each other because a checkpoint brought them together.

    A client whose own first `covers` items hold such neighbours has a provider that takes them.
    """
    merger = dialect.api.merger
    if merger is None or not covers or merger.takes_neighbours(model):
        return list(window)
    users = [merger.is_user_message(item) for item in history.items[:covers]]
    if any(one and other for one, other in pairwise(users)):
        return list(window)
    runs: list[list[WindowItem]] = []
    for placed in window:
        before = runs[-1][-1] if runs else None
        if (
            before is not None
            and before.from_checkpoint
            and merger.is_user_message(before.item)
            and merger.is_user_message(placed.item)
        ):
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


def set_breakpoints(window: Sequence[WindowItem], request: Request, *, dialect: Dialect) -> tuple[list[WindowItem], Request]:
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
        item = cache.set_breakpoint(window[at].item) if window[at].from_checkpoint else None
        if item is not None:
            return [*window[:at], replace(window[at], item=item), *window[at + 1 :]], request
    return list(window), request


def _last_laid_out(window: Sequence[WindowItem]) -> int | None:
    return next((at for at in range(len(window) - 1, -1, -1) if window[at].from_checkpoint), None)


Start = tuple[bytes, ...]


class StartHooks:
    """Runs the hooks for conversations of one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, placing: ThreadLookup) -> None:
        self._backend = backend
        self._dialect = dialect
        self._placing = placing
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_due(self, known: KnownThread) -> bool:
        """Whether hooks are to be run before the window that counts is sent.

        Where there was no such hook when it was compacted there is none to run later: the window was sent without what it adds.
        """
        active, context = known.active, known.context
        if active is None or not active.checkpoint.start_due or (context is not None and context.started == active.ordinal):
            return False
        return self._backend.policy.hooks.has_any(HookEvent.SESSION_START)

    async def ran(self, known: KnownThread, opened: OpenRequest) -> KnownThread:
        """Run the hooks for a window that is about to be sent; return the thread with what they add recorded.

        Of requests that come at once one runs them and all send the same; so do other gateways on this store, though each of them
        may have run them. A compaction that is undone brings back the window before it, and what was added to that.

        Raises:
            CompactionStopped: A hook wants the turn to end. The next request goes on.
        """
        active = known.active
        if active is None:
            return known
        lock = self._locks.setdefault(known.thread_id, asyncio.Lock())
        async with lock:
            first, stopped_by = await self._first(known, active), None
            if first is None:
                started = await self._run(known, opened, active)
                known = await self._record(known, opened, active, self._written(started))
                first, stopped_by = await self._first(known, active), started.stopped_by
            if first is not None and (
                known.context is None or (known.context.started, known.context.start) != (active.ordinal, first)
            ):
                known = await self._record(known, opened, active, first)
        if stopped_by is not None:
            raise CompactionStopped(known.thread_id, event=str(HookEvent.SESSION_START), reason=stopped_by)
        return known

    async def _run(self, known: KnownThread, opened: OpenRequest, active: ActiveCheckpoint) -> StartResult:
        model = opened.hints.model or None
        return await run_start_hooks(
            self._backend, known.thread_id, dialect=self._dialect, model=model, checkpoint=active.ordinal
        )

    def _written(self, started: StartResult) -> Start:
        redact = self._backend.redact
        return tuple(redact(item.raw) if redact else item.raw for item in started.items)

    async def _record(self, known: KnownThread, opened: OpenRequest, active: ActiveCheckpoint, start: Start) -> KnownThread:
        links, memory = len(opened.history.items), opened.memory.pin
        context = make_context(known.context, opened.request, opened.hints, dialect=self._dialect, links=links, memory=memory)
        return await self._placing.tell(known, replace(context, started=active.ordinal, start=start), opened.request)

    async def _first(self, known: KnownThread, active: ActiveCheckpoint) -> Start | None:
        """Return what was first recorded to be told with a window; None where its hooks were not run yet."""
        path = await load_live_path(self._backend.store, known.thread_id)
        said = await load_start(self._backend.store, path, checkpoint=active.ordinal)
        return None if said is None else tuple(item.raw for item in said)


def find_start_items(context: ThreadContext | None, active: ActiveCheckpoint | None) -> list[WindowItem]:
    """Return what hooks added to a window, in the places it has there; nothing where it was added to another."""
    if context is None or active is None or context.started != active.ordinal:
        return []
    return [WindowItem(item=Item(raw), tokens=estimate_item(raw), from_checkpoint=True) for raw in context.start]
