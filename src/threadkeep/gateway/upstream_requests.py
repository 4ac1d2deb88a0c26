"""A client's request as its provider gets it: the client's own bytes, unless something in them must be another."""

from __future__ import annotations

from dataclasses import replace

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Request
from threadkeep.gateway.arrivals import Arrived
from threadkeep.gateway.erased import Erased, without_erased
from threadkeep.gateway.headers import merge_header_lists
from threadkeep.gateway.known import Known, Standing, Told
from threadkeep.gateway.placing import Placing, told_now
from threadkeep.gateway.provider_rules import Upstream, brought_together, legal, loop_start, marked, pointed
from threadkeep.gateway.recall_tool.exchanges import put_back
from threadkeep.gateway.recall_tool.form import TOOL
from threadkeep.gateway.rewriting import Placed, window_of
from threadkeep.gateway.rules import Rules
from threadkeep.gateway.starting import Starts, start_of
from threadkeep.tokens import estimate_bytes


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
