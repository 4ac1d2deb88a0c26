"""Compaction in the path of requests: when a person asks, when the window gets tight, when the provider says it is full."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from traceback import format_tb
from typing import Any, Literal

import msgspec

from threadkeep.compaction.backend import Backend, Order
from threadkeep.compaction.fallback import Deadline, VainAttempts
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.run import compact_thread
from threadkeep.compaction.strategies.strategy import Phase
from threadkeep.compaction.trigger import measure_room
from threadkeep.dialects import Dialect
from threadkeep.errors import (
    CompactionError,
    CompactionRunning,
    CompactionStopped,
    Conflict,
    NothingToCompact,
    ThreadkeepError,
)
from threadkeep.gateway.conversation.compaction_model import ClientCompactor, ClientModel
from threadkeep.gateway.conversation.hints import Hints, find_request_limits
from threadkeep.gateway.conversation.lookup import ThreadLookup
from threadkeep.gateway.conversation.open_request import OpenRequest
from threadkeep.gateway.conversation.provider_request import ProviderRequest, RequestBuilder
from threadkeep.gateway.conversation.rules import AutoCompact, Rules
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache, load_known
from threadkeep.items import Item
from threadkeep.store import NewRecord, RecordKind
from threadkeep.tokens import Limits, Pressure, measure_pressure

log = logging.getLogger("threadkeep.gateway")

# The provider does not say by how much a request was too large.
AFTER_OVERFLOW = "50%"
# How many threads' failures are remembered.
REASONS = 256


class Compactor:
    """Keeps conversations of one dialect within their windows, as the rules allow it."""

    def __init__(
        self,
        backend: Backend,
        dialect: Dialect,
        builder: RequestBuilder,
        lookup: ThreadLookup,
        compactions: RunningCompactions,
        rules: Rules,
    ) -> None:
        self._backend = backend
        self._dialect = dialect
        self._builder = builder
        self._lookup = lookup
        self._compactions = compactions
        self._rules = rules

    def find_mode(self, hints: Hints) -> AutoCompact:
        return self._rules.find_mode(client=hints.client, model=hints.model)

    def measure(self, known: KnownThread | None, opened: OpenRequest) -> Pressure:
        """Return how full the window of a conversation's next step is."""
        return measure_pressure(
            limits=find_request_limits(self._backend, opened.hints),
            estimated=self._builder.estimate_tokens(known, opened),
            calibration=known.usage if known else None,
            body_bytes=len(opened.incoming.body),
        )

    def is_needed(self, opened: OpenRequest) -> bool:
        """Whether a request calls for a compaction, before it or beside it."""
        mode = self.find_mode(opened.hints)
        return mode != "off" and find_due(self.measure(opened.known, opened), mode) != "nothing"

    def is_far_from_limit(self, known: KnownThread | None, hints: Hints, *, tokens: int, body_bytes: int) -> bool:
        """Whether a request that holds at most `tokens` calls for no compaction."""
        limits = find_request_limits(self._backend, hints)
        usage = known.usage if known else None
        pressure = measure_pressure(limits=limits, estimated=tokens, calibration=usage, body_bytes=body_bytes)
        return find_due(pressure, self.find_mode(hints)) == "nothing"

    def explain_delay(self, known: KnownThread, opened: OpenRequest) -> str | None:
        """Return why a compaction that is due has not happened; None where none is due."""
        if not self.measure(known, opened).must_compact:
            return None
        if self.find_mode(opened.hints) == "off":
            return "automatic compaction is off for this conversation"
        return self._compactions.explain(known.thread_id) or "it happens before the next request to the model"

    async def compact_on_command(self, known: KnownThread, opened: OpenRequest, *, focus: str | None) -> CompactionReport:
        """Compact because a person asks for it.

        Raises:
            CompactionError, Conflict: It did not happen; the thread is as it was.
        """
        return await self._compact(known, opened, Order(focus=focus))

    async def compact_if_needed(self, known: KnownThread, opened: OpenRequest) -> KnownThread:
        """Compact if the request calls for it, before it goes out or beside it; return the thread as it stands then.

        If a compaction fails, the request goes on with the window there is.

        Raises:
            CompactionStopped: A hook wants the turn to end.
        """
        mode = self.find_mode(opened.hints)
        if mode == "off":
            return known
        pressure = self.measure(known, opened)
        due = find_due(pressure, mode)
        if due == "nothing" or self._compactions.is_futile(known, tokens=pressure.tokens, due=due):
            return known
        order = Order(trigger="auto", reason="context_limit", phase=_find_phase(opened))
        if due == "in_background":
            order = self._with_model(replace(order, reason="background", room_tokens=measure_room(pressure)), known, opened)
            self._compactions.start(known, order, seed=self._seed(opened), pressure=pressure)
            return known
        order.deadline.set(seconds=self._backend.policy.wait_s)
        try:
            await self._compact(known, opened, order)
        except CompactionStopped:
            raise
        except NothingToCompact as error:
            self._compactions.mark_futile(known, tokens=pressure.tokens)
            log.info("a compaction of thread %s was due and gains nothing: %s", known.thread_id, error.code)
        except (CompactionError, Conflict) as error:
            log.warning("a compaction of thread %s was due and did not happen: %s", known.thread_id, error.code)
        return await load_known(self._backend, known.thread_id, seed=self._seed(opened))

    async def shrink_after_overflow(self, known: KnownThread, opened: OpenRequest) -> ProviderRequest | None:
        """Return a smaller request for one that the provider refused for its size; None where it cannot be made smaller."""
        order = Order(trigger="auto", reason="provider_overflow", phase=_find_phase(opened), target=AFTER_OVERFLOW, forced=True)
        order.deadline.set(seconds=self._backend.policy.wait_s)
        try:
            await self._compact(known, opened, order)
        except (CompactionError, Conflict) as error:
            log.warning("thread %s overflowed and was not compacted: %s", known.thread_id, error.code)
            return None
        known = await load_known(self._backend, known.thread_id, seed=self._seed(opened))
        return (await self._builder.build_next(known, opened))[1]

    async def compact_as_asked(self, known: KnownThread, opened: OpenRequest, *, threshold: int) -> KnownThread:
        """Compact a conversation whose client asks its provider for that, once it holds `threshold` tokens; return the thread."""
        if self.measure(known, opened).tokens < threshold:
            return known
        order = Order(trigger="auto", reason="context_limit", phase=_find_phase(opened))
        order.deadline.set(seconds=self._backend.policy.wait_s)
        try:
            await self._compact(known, opened, order)
        except (CompactionError, Conflict) as error:
            log.info("thread %s was not compacted as its client asked: %s", known.thread_id, error.code)
        return await self._lookup.reload(known, opened.hints)

    async def _compact(self, known: KnownThread, opened: OpenRequest, order: Order) -> CompactionReport:
        order, limits = self._with_model(order, known, opened), find_request_limits(self._backend, opened.hints)
        seed = self._seed(opened)
        try:
            return await self._compactions.compact(known, order, seed=seed, limits=limits)
        except CompactionRunning:
            if order.trigger != "auto":
                raise
            # This request is too large as it is, and whoever holds the lease may have been killed.
            order.deadline.set(seconds=0)
            return await self._compactions.compact(known, order, seed=seed, limits=limits)

    def _with_model(self, order: Order, known: KnownThread, opened: OpenRequest) -> Order:
        """Return an order that may ask the client's own model, on its warm prefix, where the rules allow that."""
        incoming, hints = opened.incoming, opened.hints
        is_urgent = order.trigger == "auto" and order.reason != "background"
        may_ask = self._rules.may_ask_model(client=hints.client, model=hints.model, is_urgent=is_urgent)
        if not may_ask or incoming.ask_provider is None or self._backend.policy.model is not None:
            return order
        own = self._builder.add_extras(opened)
        model = ClientModel(
            incoming.ask_provider,
            own=own,
            dialect=self._dialect,
            name=hints.model or "the conversation's own model",
            issuer=hints.issuer,
            window_tokens=find_request_limits(self._backend, hints).full,
            clean=self._choose_cleaner(known),
        )
        if incoming.ask_path is None or self._dialect.api.compaction is None:
            return replace(order, model=model, own=own)
        return replace(order, model=ClientCompactor(model, incoming.ask_path), own=own)

    def _choose_cleaner(self, known: KnownThread) -> Callable[[Item], Item | None]:
        """Return a function that removes from an item what the provider refuses in another request than the client's own."""
        if known.context is not None and known.context.issued_from > 0:
            return self._dialect.remove_sealed
        thinking = self._dialect.api.thinking
        return _keep_item if thinking is None or known.active is None else thinking.remove_thinking

    def _seed(self, opened: OpenRequest) -> bytes:
        return self._lookup.seed(opened.hints.agent)


def _find_phase(opened: OpenRequest) -> Phase:
    return "mid_turn" if opened.history.in_tool_loop else "pre_turn"


def _keep_item(item: Item) -> Item:
    return item


Due = Literal["nothing", "in_background", "now"]


def find_due(pressure: Pressure, mode: AutoCompact) -> Due:
    """Return which compaction a request calls for."""
    if mode == "off":
        return "nothing"
    if pressure.must_compact:
        return "now"
    return "in_background" if mode == "background" and pressure.worth_preparing else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    task: asyncio.Task[CompactionReport]
    deadline: Deadline


class RunningCompactions:
    """Compacts threads of one dialect in one tenant's store. `close` must be called before the store is closed."""

    def __init__(self, backend: Backend, dialect: Dialect, threads: ThreadCache) -> None:
        self._backend = backend
        self._dialect = dialect
        self._threads = threads
        self._running: dict[str, _Running] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._futility = VainAttempts()
        # Why the newest try at a thread came to nothing.
        self._reasons: dict[str, str] = {}

    async def compact(self, known: KnownThread, order: Order, *, seed: bytes, limits: Limits) -> CompactionReport:
        """Compact a thread, or wait for the compaction that is under way; its draft ends at the order's deadline.

        Raises:
            CompactionError: It failed, and the thread is as it was.
            Conflict: Another process is compacting the thread, or wrote to it meanwhile.
        """
        return await asyncio.shield(self._find_or_start(known, order, seed=seed, limits=limits))

    def start(self, known: KnownThread, order: Order, *, seed: bytes, pressure: Pressure) -> None:
        """Compact a thread while requests go on, at most one compaction at a time per thread.

        A failure is recorded in the thread. If there is nothing to gain under this pressure, that is remembered.
        """
        if known.thread_id in self._running:
            return
        task = self._find_or_start(known, order, seed=seed, limits=pressure.limits)
        watching = asyncio.create_task(self._watch(known, task, tokens=pressure.tokens))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    def is_futile(self, known: KnownThread, *, tokens: int, due: Due = "now") -> bool:
        """Whether a compaction of a window of about this size was tried and gained nothing.

        A failed try in the background does not hold back one that must happen now: by then a turn is over that could not be
        replaced before.
        """
        return self._futility.holds((known.thread_id, due), tokens=tokens)

    def explain(self, thread_id: str) -> str | None:
        """Return what holds up the compaction of a thread; None where nothing is known to."""
        return "one is under way" if thread_id in self._running else self._reasons.get(thread_id)

    def mark_futile(self, known: KnownThread, *, tokens: int, due: Due = "now") -> None:
        """Remember that nothing can be gained from a window of this size."""
        self._futility.found((known.thread_id, due), tokens=tokens)

    async def wait_idle(self) -> None:
        """Return once every compaction that is under way has ended."""
        while tasks := self._tasks():
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Cancel what is under way, which leaves every thread as it was, and return once it has ended."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return {*(running.task for running in self._running.values()), *self._watching}

    def _find_or_start(self, known: KnownThread, order: Order, *, seed: bytes, limits: Limits) -> asyncio.Task[CompactionReport]:
        running = self._running.get(known.thread_id)
        if running is not None:
            running.deadline.follow(order.deadline)
            return running.task
        task = asyncio.create_task(self._compact(known, order, seed=seed, limits=limits))
        self._running[known.thread_id] = _Running(task=task, deadline=order.deadline)
        task.add_done_callback(lambda done: self._finish(known.thread_id, done))
        return task

    def _finish(self, thread_id: str, task: asyncio.Task[CompactionReport]) -> None:
        self._running.pop(thread_id, None)
        self._threads.forget(thread_id)
        self._reasons.pop(thread_id, None)
        # Where nobody waits, asyncio must not report the error as never retrieved.
        if not task.cancelled() and (error := task.exception()) is not None:
            self._reasons[thread_id] = str(error)
            while len(self._reasons) > REASONS:
                del self._reasons[next(iter(self._reasons))]

    async def _compact(self, known: KnownThread, order: Order, *, seed: bytes, limits: Limits) -> CompactionReport:
        backend = replace(self._backend, limits=limits)
        try:
            report = await compact_thread(backend, known.thread_id, dialect=self._dialect, seed=seed, order=order)
        except ThreadkeepError:
            raise
        except Exception as error:
            # Where it broke and what kind it is, but not what it says: that may quote the conversation.
            kind, trace = type(error).__name__, "".join(format_tb(error.__traceback__))
            log.error("a compaction of thread %s broke: %s\n%s", known.thread_id, kind, trace)  # noqa: TRY400
            raise CompactionError(f"the compaction of thread {known.thread_id!r} broke ({kind}); the log says where") from error
        log.info("compacted thread %s: %d to %d tokens", known.thread_id, report.tokens_before, report.tokens_after)
        return report

    async def _watch(self, known: KnownThread, task: asyncio.Task[CompactionReport], *, tokens: int) -> None:
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NothingToCompact):
            self.mark_futile(known, tokens=tokens, due="in_background")
        elif isinstance(error, ThreadkeepError) and not isinstance(error, CompactionRunning):
            log.warning("a compaction of thread %s failed in the background: %s", known.thread_id, error.code)
            try:
                await self._note(known, error)
            except ThreadkeepError as unnoted:
                log.warning("thread %s could not be told of it: %s", known.thread_id, unnoted.code)

    async def _note(self, known: KnownThread, error: ThreadkeepError) -> None:
        """Record in a thread that it could not be compacted, and why."""
        body = msgspec.json.encode({"event": "compaction_failed", "code": error.code, "reason": str(error)})
        at_ms = self._backend.clock.now_ms()
        note = NewRecord(kind=RecordKind.NOTE, at_ms=at_ms, turn=known.tip.turn, tokens=0, body=body)
        await self._backend.append_beside(known.thread_id, note, expected=known.tip.next)
        self._threads.forget(known.thread_id)
