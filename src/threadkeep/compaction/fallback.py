"""Tries strategies in order until one gives a usable draft, within a deadline and past strategies that keep failing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import msgspec

from threadkeep.compaction.engine import NO_DRAFT, NOTHING_NEW, Outcome, Proposal, conclude, has_something_to_replace
from threadkeep.compaction.strategies.requests import NotAsked
from threadkeep.compaction.strategies.strategy import Draft, DraftRefused, Meter, Strategy, Summariser
from threadkeep.compaction.telemetry import Watch
from threadkeep.errors import BrokenWindow, ModelError, NothingToCompact
from threadkeep.threads import Attempt
from threadkeep.threads.backend import Clock


class Deadline:
    """The moment at which a compaction stops waiting for a model and goes on without one.

    Unset at first. Once set, it can only move earlier.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._timer: asyncio.Timeout | None = None

    def set(self, *, seconds: float) -> None:
        """Set the deadline `seconds` from now, unless it is earlier already."""
        self._bring_forward(asyncio.get_running_loop().time() + seconds)

    def follow(self, other: Deadline) -> None:
        """Take the time of another deadline if it is earlier."""
        if other._at is not None:
            self._bring_forward(other._at)

    @property
    def has_passed(self) -> bool:
        return self._at is not None and asyncio.get_running_loop().time() >= self._at

    @asynccontextmanager
    async def timed(self, timeout_s: float) -> AsyncIterator[None]:
        """Run a draft until the deadline, and for `timeout_s` at most.

        Raises:
            TimeoutError: The draft took longer.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        async with asyncio.timeout_at(until if self._at is None else min(until, self._at)) as timer:
            self._timer = timer
            try:
                yield
            finally:
                self._timer = None

    def _bring_forward(self, at: float) -> None:
        if self._at is not None and self._at <= at:
            return
        self._at = at
        timer = self._timer
        if timer is not None and not timer.expired():
            timer.reschedule(min(at, timer.when() or at))


# A compaction that gained nothing is not tried again before the window has grown by this much.
GROWTH_PERCENT = 10
REMEMBERED = 1_024


@dataclass(slots=True)
class VainAttempts:
    """Compactions that gained nothing, with the size of their window; the oldest is dropped first."""

    _tokens: dict[Hashable, int] = field(default_factory=dict)

    def holds(self, tried: Hashable, *, tokens: int) -> bool:
        """Whether `tried` gained nothing from a window of about this size."""
        return tokens * 100 < self._tokens.get(tried, 0) * (100 + GROWTH_PERCENT)

    def found(self, tried: Hashable, *, tokens: int) -> None:
        """Record that `tried` gains nothing from a window of this size."""
        self._tokens.pop(tried, None)
        self._tokens[tried] = tokens
        while len(self._tokens) > REMEMBERED:
            del self._tokens[next(iter(self._tokens))]

    def copy(self) -> VainAttempts:
        return VainAttempts(dict(self._tokens))


log = logging.getLogger(__name__)

# Makes a summariser whose requests and replies the meter counts.
SummariserFactory = Callable[[Meter], Summariser]

TAKEN = "taken"
# A model, or the parsing of its reply, raised an error outside its contract.
UNFORESEEN = "unforeseen"
# The compaction was cancelled. This does not count against the strategy, and no checkpoint records it.
BROKEN_OFF = "broken_off"
# After so many failures in a row a strategy rests: a compaction must not wait for a provider that is down.
FAILURES_IN_A_ROW = 3
REST_MS = 300_000


@dataclass(slots=True)
class Breaker:
    """The pairs of strategy and model that rest after repeated failures, and the compactions that gained nothing.

    A failure is a model error, a timeout or a reply that is no draft. The later fate of a draft does not count.
    """

    futility: VainAttempts = field(default_factory=VainAttempts)
    _failed: dict[tuple[str, str], int] = field(default_factory=dict)
    _resting: dict[tuple[str, str], int] = field(default_factory=dict)

    def is_open(self, strategy: str, model: str, *, now_ms: int) -> bool:
        """Whether to skip a strategy; after its rest it gets one more try."""
        return now_ms < self._resting.get((strategy, model), 0)

    def failed(self, strategy: str, model: str, *, now_ms: int) -> None:
        key = (strategy, model)
        self._failed[key] = self._failed.get(key, 0) + 1
        if self._failed[key] >= FAILURES_IN_A_ROW:
            self._resting[key] = now_ms + REST_MS

    def succeeded(self, strategy: str, model: str) -> None:
        self._failed.pop((strategy, model), None)
        self._resting.pop((strategy, model), None)

    def rehearsal(self) -> Breaker:
        """Return an independent copy for a dry run."""
        return Breaker(futility=self.futility.copy(), _failed=dict(self._failed), _resting=dict(self._resting))


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftRules:
    """Whether and how long a model is asked.

    Attributes:
        make_summariser: None if there is no model.
        timeout_s: The time limit of one strategy.
        deadline: The time limit of all of them.
    """

    make_summariser: SummariserFactory | None
    breaker: Breaker
    timeout_s: float
    deadline: Deadline


async def draft_with_fallbacks(
    proposal: Proposal, strategies: Sequence[Strategy], tried: Watch, *, rules: DraftRules, clock: Clock
) -> Outcome:
    """Return the outcome of the first strategy that succeeds. After the deadline no model is asked.

    Every attempt is added to `tried` as it ends, so that failed ones are billed too. If a draft gained nothing from a window of
    about this size before, a model is asked again only if the strategy without a model would gain something now.

    Raises:
        NothingToCompact, BrokenWindow: The last strategy fails too.
    """
    thread_id, tokens = proposal.brief.thread_id, proposal.tokens_before
    if len(strategies) > 1 and not await asyncio.to_thread(has_something_to_replace, proposal):
        raise NothingToCompact(thread_id, reason=NOTHING_NEW)
    futility = rules.breaker.futility
    if futility.holds((thread_id, strategies[0].name), tokens=tokens):
        with suppress(BrokenWindow):
            await asyncio.to_thread(conclude, proposal, NO_DRAFT)
    for strategy in strategies[:-1]:
        outcome = await _try_model(strategy, proposal, tried, rules=rules, clock=clock)
        if outcome is not None:
            return outcome
    try:
        return await conclude_without_model(Draft(strategy=strategies[-1]), proposal, tried, clock=clock)
    except NothingToCompact:
        if any(attempt.outcome == NothingToCompact.code for attempt in tried.trials[:-1]):
            futility.found((thread_id, strategies[0].name), tokens=tokens)
        raise


async def conclude_without_model(
    draft: Draft, proposal: Proposal, tried: Watch, *, clock: Clock, model: str | None = None
) -> Outcome:
    """Return the outcome of a draft that needs no request; `model` names the model whose provider wrote it, if one did.

    Raises:
        NothingToCompact, BrokenWindow: The draft gives no usable checkpoint.
    """
    started = clock.now_ms()
    taken = Attempt(strategy=draft.strategy.name, outcome=TAKEN, model=model)
    try:
        outcome = await asyncio.to_thread(conclude, proposal, replace(draft, attempts=(*tried.trials, taken)))
    except (NothingToCompact, BrokenWindow) as error:
        took_ms = clock.now_ms() - started
        tried.add(msgspec.structs.replace(taken, outcome=error.code, took_ms=took_ms))
        raise
    timed = _add_duration(outcome, took_ms=clock.now_ms() - started)
    tried.add(timed.checkpoint.attempts[-1])
    return timed


def _add_duration(outcome: Outcome, *, took_ms: int) -> Outcome:
    """Return the outcome with the duration of its last attempt, which is known only afterwards."""
    checkpoint = outcome.checkpoint
    attempts = [*checkpoint.attempts[:-1], msgspec.structs.replace(checkpoint.attempts[-1], took_ms=took_ms)]
    figures = {**checkpoint.figures, "took_ms": sum(attempt.took_ms for attempt in attempts)}
    return replace(outcome, checkpoint=msgspec.structs.replace(checkpoint, attempts=attempts, figures=figures))


async def _try_model(strategy: Strategy, proposal: Proposal, tried: Watch, *, rules: DraftRules, clock: Clock) -> Outcome | None:
    """Try one strategy that asks a model; return None if it fails."""
    name, breaker, deadline = strategy.name, rules.breaker, rules.deadline
    if rules.make_summariser is None or strategy.draft is None:
        tried.add(Attempt(strategy=name, outcome="no_model"))
        return None
    started, meter = clock.now_ms(), Meter()
    summariser = rules.make_summariser(meter)
    if breaker.is_open(name, summariser.name, now_ms=started):
        tried.add(Attempt(strategy=name, outcome="resting", model=summariser.name))
        return None
    if deadline.has_passed:
        tried.add(Attempt(strategy=name, outcome="no_time", model=summariser.name))
        return None
    became = BROKEN_OFF
    try:
        async with deadline.timed(rules.timeout_s):
            draft = await strategy.draft(proposal.brief, summariser)
        breaker.succeeded(name, summariser.name)
        meter.ignored = draft.ignored
        taken = meter.attempt(strategy=name, model=summariser.name, outcome=TAKEN, took_ms=clock.now_ms() - started)
        outcome = await asyncio.to_thread(conclude, proposal, replace(draft, attempts=(*tried.trials, taken)))
    except (NothingToCompact, BrokenWindow) as error:
        became = error.code
    except NotAsked as unasked:
        became = unasked.reason
    except (DraftRefused, TimeoutError, ModelError) as failure:
        became = _get_failure_code(failure)
        breaker.failed(name, summariser.name, now_ms=clock.now_ms())
    except AssertionError:
        # A failed assertion is a defect of threadkeep, so it propagates.
        raise
    except Exception as failure:  # a model that breaks its contract must cost no turn; it is on record and logged
        became = UNFORESEEN
        breaker.failed(name, summariser.name, now_ms=clock.now_ms())
        # The error text may quote the conversation.
        log.warning("drafting thread %s by %s broke: %s", proposal.brief.thread_id, name, type(failure).__name__)
        log.debug("how it broke", exc_info=failure)
    else:
        became = TAKEN
        return outcome
    finally:
        tried.add(meter.attempt(strategy=name, model=summariser.name, outcome=became, took_ms=clock.now_ms() - started))
    return None


def _get_failure_code(failure: DraftRefused | TimeoutError | ModelError) -> str:
    match failure:
        case DraftRefused():
            return failure.reason
        case ModelError():
            return failure.code
        case _:
            return "timed_out"
