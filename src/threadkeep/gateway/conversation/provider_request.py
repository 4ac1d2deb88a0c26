"""A client's request as its provider gets it: the client's own bytes, unless something in them must change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final
from weakref import WeakValueDictionary

from threadkeep.client.turn import run_start_hooks
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Request
from threadkeep.dialects.hidden_tool import HiddenTool
from threadkeep.errors import CompactionStopped
from threadkeep.gateway.conversation.item_cache import History
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.proxy_interface import merge_header_lists
from threadkeep.gateway.conversation.recall_tool import TOOL, restore_exchanges
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import ActiveCheckpoint, KnownThread, ThreadContext
from threadkeep.gateway.conversation.window import Erased, WindowItem, build_window, replace_erased
from threadkeep.hooks import HookEvent
from threadkeep.items import Item
from threadkeep.threads.reader import load_live_path, load_start
from threadkeep.tokens import estimate_bytes, estimate_item

COMPACTION_SIGN: Final = b'"compaction"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderRequest:
    """A request as the provider gets it. `headers` replace the client's own of these names; `tokens` is our estimate."""

    body: bytes = field(repr=False)
    tokens: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def counted_tokens(self) -> int:
        """Our estimate of what the provider counts; 0 for a request with its own compaction, of which it reads only the end."""
        return 0 if COMPACTION_SIGN in self.body else self.tokens


class RequestBuilder:
    """Makes requests to providers for conversations of one dialect."""

    def __init__(self, backend: Backend, dialect: Dialect, lookup: ThreadLookup, rules: Rules) -> None:
        self._backend = backend
        self._dialect = dialect
        self._lookup = lookup
        self._rules = rules
        self._start_hooks = StartHooks(backend, dialect, lookup)

    async def build_next(self, known: KnownThread, opened: OpenRequest) -> tuple[KnownThread, ProviderRequest]:
        """Return the request for a conversation's next step, and the thread after it.

        Where the provider binds its answers to a window, that window is recorded before it is first sent. SessionStart hooks run
        before a window is first sent; what they add is recorded, and is part of the window.

        Raises:
            CompactionStopped: Such a hook wants the turn to end.
        """
        context = known.context or self._lookup.make_context(None, opened)
        is_new = self._is_new_window(known)
        if self._must_run_start_hooks(known):
            known = await self._start_hooks.run(known, opened)
            context = known.context or context
        if is_new:
            context = replace(context, checkpoint=_ordinal(known.active), bound_from=len(opened.history.items))
            known = await self._lookup.record_context(known, context, opened.request)
        return known, self._build(opened, context, known.active, known.erased)

    def build(self, known: KnownThread | None, opened: OpenRequest) -> ProviderRequest:
        """Return a request for a history as far as a thread holds it, with nothing recorded; `known` is None where none does."""
        context = self._lookup.make_context(known.context if known else None, opened)
        if known is None:
            return self._build(opened, context, None, Erased())
        if self._is_new_window(known):
            context = replace(context, checkpoint=_ordinal(known.active), bound_from=len(opened.history.items))
        return self._build(opened, context, known.active, known.erased)

    def must_record_first(self, known: KnownThread) -> bool:
        """Whether something is to be recorded or run before the window that counts is sent."""
        return self._is_new_window(known) or self._must_run_start_hooks(known)

    def _must_run_start_hooks(self, known: KnownThread) -> bool:
        """Whether SessionStart hooks are to be run before the window is sent; never once answers are bound to it."""
        return self._start_hooks.are_due(known) and (self._dialect.api.thinking is None or self._is_new_window(known))

    def _is_new_window(self, known: KnownThread) -> bool:
        """Whether the window differs from the one sent last, and its provider binds answers to a window."""
        in_use = known.context.checkpoint if known.context else None
        return self._dialect.api.thinking is not None and _ordinal(known.active) != in_use

    def estimate_tokens(self, known: KnownThread | None, opened: OpenRequest) -> int:
        """Return our estimate of what a conversation's next step would hold."""
        if known is None or (known.active is None and not known.erased.depths):
            return self._estimate_unchanged(opened)
        window = self._build_window(opened, known.context, known.active, known.erased)
        return self._estimate_beside(self.add_extras(opened)) + sum(placed.tokens for placed in window)

    def add_extras(self, opened: OpenRequest) -> Request:
        """Return a request with the memories its model is shown and the recall tool; the same request where there is neither."""
        api, request = self._dialect.api, opened.request
        if opened.memory.text:
            request = api.add_instructions(request, opened.memory.text)
        return request if opened.recalled is None else HiddenTool(definition=TOOL, dialect=self._dialect).add_to(request)

    def _build_window(
        self, opened: OpenRequest, context: ThreadContext | None, active: ActiveCheckpoint | None, erased: Erased
    ) -> list[WindowItem]:
        """Return the history to send, without the items that were erased."""
        start, layout = find_start_items(context, active), active.layout if active else None
        window = build_window(opened.history, layout, issuer=opened.hints.issuer, start=start)
        return replace_erased(window, erased, dialect=self._dialect)

    def _build(
        self, opened: OpenRequest, context: ThreadContext, active: ActiveCheckpoint | None, erased: Erased
    ) -> ProviderRequest:
        history, request, rules = opened.history, self.add_extras(opened), self._rules
        if erased.bound > context.bound_from:
            context = replace(context, bound_from=erased.bound)
        as_it_came = request is opened.request and not rules.derives_cache_key and not erased.depths
        if active is None and as_it_came and not (any(history.aside) or context.issued_from or context.bound_from):
            return ProviderRequest(body=opened.incoming.body, tokens=self._estimate_unchanged(opened))
        window = self._build_window(opened, context, active, erased)
        # An answer that was erased is not put together again from what was recalled in it.
        recalled = [exchange for exchange in opened.recalled or () if exchange.depth + 1 not in erased.depths]
        if recalled:
            window = restore_exchanges(window, recalled, history, dialect=self._dialect)
        cache = self._dialect.api.prompt_cache
        if rules.derives_cache_key and cache is not None:
            request = cache.set_key(request, f"threadkeep-{history.infos[0].link.hex()}")
        request, headers, bound = self._handle_thinking(request, window, opened, context)
        window = remove_refused(window, context, dialect=self._dialect, bound=bound)
        ours = [placed.item for placed in window if placed.depth is None]
        headers |= merge_header_lists(headers, self._dialect.api.headers_for(ours))
        window = set_cache_marker(window, request, dialect=self._dialect)
        if active is not None:
            covers = active.layout.covers
            window = merge_neighbours(window, history, covers=covers, dialect=self._dialect, model=opened.hints.model)
        if rules.sets_breakpoints and active and cache and cache.takes_breakpoints(opened.hints.model, opened.headers):
            window, request = set_breakpoints(window, request, dialect=self._dialect)
        tokens = self._estimate_beside(request) + sum(placed.tokens for placed in window)
        if request is opened.request and [placed.item for placed in window] == list(history.items):
            return ProviderRequest(body=opened.incoming.body, tokens=tokens)
        items = [placed.item for placed in window]
        rewritten = active is not None or any(history.aside)
        body = self._dialect.join(request, self._dialect.arrange(items) if rewritten else items)
        return ProviderRequest(body=body, tokens=tokens, headers=merge_header_lists(opened.headers, headers))

    def _estimate_unchanged(self, opened: OpenRequest) -> int:
        """Return our estimate of a request as the client sends it, without commands and their answers."""
        spoken = zip(opened.history.infos, opened.history.aside, strict=True)
        return self._estimate_beside(self.add_extras(opened)) + sum(info.tokens for info, aside in spoken if not aside)

    def _estimate_beside(self, request: Request) -> int:
        """Return our estimate of what goes out beside the history."""
        fields = sum(len(request.fields.get(name, b"")) for name in self._dialect.api.head_fields)
        return estimate_bytes(fields + sum(len(item.raw) for item in request.head))

    def _handle_thinking(
        self, request: Request, window: list[WindowItem], opened: OpenRequest, context: ThreadContext
    ) -> tuple[Request, dict[str, str], int]:
        """Return a request that handles thinking bound to another window, the headers it needs, and how many of the client's
        items lose their thinking before it is sent.
        """
        thinking = self._dialect.api.thinking
        if thinking is None or not _has_bound_thinking(window, context):
            return request, {}, context.bound_from
        loop = find_loop_start(opened.history, until=context.bound_from)
        if self._rules.thinking == "strip" and loop is None:
            return request, {}, context.bound_from
        if self._rules.thinking == "strip" and not thinking.is_bound(opened.hints.model):
            return request, {}, loop or 0
        request, headers = thinking.drop_mismatched(request)
        kept_from = 0 if self._rules.thinking == "drop_block" else loop or 0
        return request, dict(headers), kept_from if headers else context.bound_from


def _has_bound_thinking(window: list[WindowItem], context: ThreadContext) -> bool:
    """Whether a window holds thinking that its provider bound to another."""
    return any(placed.sealed and placed.depth is not None and placed.depth <= context.bound_from for placed in window)


def _ordinal(active: ActiveCheckpoint | None) -> int | None:
    return active.ordinal if active else None


def find_loop_start(history: History, *, until: int) -> int | None:
    """Return where the tool loop begins that was running on sealed thinking after the first `until` items; None if none was.

    What came later does not matter, so that the answer is the same for every request of a window.
    """
    start, is_running = _find_turn(history, until=until)
    is_running = is_running or _find_turn(history, until=len(history.infos)) == (start, True)
    return start if is_running and any(info.is_sealed for info in history.infos[start:until]) else None


def _find_turn(history: History, *, until: int) -> tuple[int, bool]:
    """Return where the newest turn of the first `until` items begins, and whether it waits for the model behind a tool's output.

    What a person says right behind an output, to steer the model or to go on after a crash, is part of the turn: the API sees
    both as one message.
    """
    start, waits = 0, False
    for index, (info, aside) in enumerate(zip(history.infos[:until], history.aside, strict=False)):
        if aside or info.is_host:
            continue
        if not info.by_person:
            waits = info.is_output
        elif not waits:
            start = index + 1
    return start, waits


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
    at = _find_last_placed(window)
    if markers is None or at is None:
        return list(window)
    item = markers.mark_item([placed.item for placed in window], request, at=at)
    return [*window[:at], replace(window[at], item=item), *window[at + 1 :]]


def merge_neighbours(
    window: Sequence[WindowItem], history: History, *, covers: int, dialect: Dialect, model: str
) -> list[WindowItem]:
    """Return a window in which no two messages of the user's follow each other because a checkpoint brought them together.

    A client whose own first `covers` items hold such neighbours (all its items, if a checkpoint replaces none) has a provider
    that takes them.
    """
    merger = dialect.api.merger
    if merger is None or merger.takes_neighbours(model):
        return list(window)
    users = [merger.is_user_message(item) for item in history.items[: covers or None]]
    if any(one and other for one, other in pairwise(users)):
        return list(window)
    merged: list[WindowItem] = []
    for placed in window:
        before = merged[-1] if merged else None
        if before is None or not before.from_checkpoint or not all(map(merger.is_user_message, (before.item, placed.item))):
            merged.append(placed)
            continue
        item = merger.merge_messages([before.item, placed.item])
        merged[-1] = replace(placed, item=item, tokens=before.tokens + placed.tokens)
    return merged


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


def _find_last_placed(window: Sequence[WindowItem]) -> int | None:
    return next((at for at in range(len(window) - 1, -1, -1) if window[at].from_checkpoint), None)


class StartHooks:
    """Runs SessionStart hooks of conversations, before a compacted window is first sent.

    What they add is not part of the client's history. It is recorded once, and stands behind the state in every request of that
    window, byte for byte, so that the prefix only grows.
    """

    def __init__(self, backend: Backend, dialect: Dialect, lookup: ThreadLookup) -> None:
        self._backend = backend
        self._dialect = dialect
        self._lookup = lookup
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def are_due(self, known: KnownThread) -> bool:
        """Whether hooks are to be run before the window is sent.

        A hook that did not exist at the time of the compaction is not run later: the window was sent without it.
        """
        active, context = known.active, known.context
        if active is None or not active.checkpoint.start_due or (context is not None and context.started == active.ordinal):
            return False
        return self._backend.policy.hooks.has_any(HookEvent.SESSION_START)

    async def run(self, known: KnownThread, opened: OpenRequest) -> KnownThread:
        """Run the hooks for a window that is about to be sent; return the thread with what they add recorded.

        Of requests that come at once, one runs them and all send the same. Other gateways on this store send the same too, though
        each may have run the hooks. An undone compaction brings back the window before it, with what was added to that.

        Raises:
            CompactionStopped: A hook wants the turn to end. The next request goes on.
        """
        active = known.active
        if active is None:
            return known
        lock = self._locks.setdefault(known.thread_id, asyncio.Lock())
        async with lock:
            first, stopped_by = await self._load_first(known, active), None
            if first is None:
                model, redact = opened.hints.model or None, self._backend.redact
                started = await run_start_hooks(
                    self._backend, known.thread_id, dialect=self._dialect, model=model, checkpoint=active.ordinal
                )
                added = tuple(redact(item.raw) if redact else item.raw for item in started.items)
                known = await self._record(known, opened, active, added)
                first, stopped_by = await self._load_first(known, active), started.stopped_by
            recorded = (known.context.started, known.context.start) if known.context else None
            if first is not None and recorded != (active.ordinal, first):
                known = await self._record(known, opened, active, first)
        if stopped_by is not None:
            raise CompactionStopped(known.thread_id, event=str(HookEvent.SESSION_START), reason=stopped_by)
        return known

    async def _record(
        self, known: KnownThread, opened: OpenRequest, active: ActiveCheckpoint, start: tuple[bytes, ...]
    ) -> KnownThread:
        context = replace(self._lookup.make_context(known.context, opened), started=active.ordinal, start=start)
        return await self._lookup.record_context(known, context, opened.request)

    async def _load_first(self, known: KnownThread, active: ActiveCheckpoint) -> tuple[bytes, ...] | None:
        """Return what was first recorded as added to a window; None where its hooks were not run yet."""
        path = await load_live_path(self._backend.store, known.thread_id)
        items = await load_start(self._backend.store, path, checkpoint=active.ordinal)
        return None if items is None else tuple(item.raw for item in items)


def find_start_items(context: ThreadContext | None, active: ActiveCheckpoint | None) -> list[WindowItem]:
    """Return what hooks added to this window; nothing where it was added to another."""
    if context is None or active is None or context.started != active.ordinal:
        return []
    return [WindowItem(item=Item(raw), tokens=estimate_item(raw), from_checkpoint=True) for raw in context.start]
