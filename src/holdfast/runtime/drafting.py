"""Down the ladder: each strategy is tried once, and what it cost and why it was not taken is kept. The last needs no model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.compaction.drafting import Draft, DraftRefused, Meter, Voice
from holdfast.compaction.engine import NOTHING_NEW, Outcome, Proposal, conclude, has_something_to_replace
from holdfast.compaction.strategies import DRAFTERS
from holdfast.errors import BrokenWindow, ModelError, NothingToCompact
from holdfast.runtime.clock import Clock
from holdfast.thread import Attempt

# Gives a voice whose every question and answer the meter counts.
Speak = Callable[[Meter], Voice]

TAKEN = "taken"
# After so many failures in a row a strategy is left out for a while: a compaction must not wait for a provider that is down.
FAILURES_IN_A_ROW = 3
REST_MS = 300_000


@dataclass(slots=True)
class Breaker:
    """Which strategies, with which model, failed too often lately to be tried again now."""

    _failed: dict[tuple[str, str], int] = field(default_factory=dict)
    _resting: dict[tuple[str, str], int] = field(default_factory=dict)

    def is_open(self, strategy: str, model: str, *, now_ms: int) -> bool:
        """Whether to leave a strategy out; after its rest it gets one more chance."""
        return now_ms < self._resting.get((strategy, model), 0)

    def failed(self, strategy: str, model: str, *, now_ms: int) -> None:
        key = (strategy, model)
        self._failed[key] = self._failed.get(key, 0) + 1
        if self._failed[key] >= FAILURES_IN_A_ROW:
            self._resting[key] = now_ms + REST_MS

    def succeeded(self, strategy: str, model: str) -> None:
        self._failed.pop((strategy, model), None)
        self._resting.pop((strategy, model), None)


async def draft_down(
    proposal: Proposal, rungs: Sequence[str], *, speak: Speak | None, clock: Clock, breaker: Breaker, timeout_s: float
) -> Outcome:
    """Return the outcome of the first strategy of `rungs` that comes to one.

    Raises:
        NothingToCompact, BrokenWindow: The last of them does not either.
    """
    attempts: list[Attempt] = []
    if len(rungs) > 1 and not await asyncio.to_thread(has_something_to_replace, proposal):
        raise NothingToCompact(proposal.brief.thread_id, reason=NOTHING_NEW)
    for name in rungs[:-1]:
        attempt, outcome = await _tried(name, proposal, attempts, speak=speak, clock=clock, breaker=breaker, timeout_s=timeout_s)
        if outcome is not None:
            return outcome
        attempts.append(attempt)
    started = clock.now_ms()
    last = Draft(strategy=rungs[-1], attempts=(*attempts, Attempt(strategy=rungs[-1], outcome=TAKEN)))
    outcome = await asyncio.to_thread(conclude, proposal, last)
    return _timed(outcome, took_ms=clock.now_ms() - started)


def _timed(outcome: Outcome, *, took_ms: int) -> Outcome:
    """Return an outcome whose last attempt says how long it took: without a model, that is known only afterwards."""
    checkpoint = outcome.checkpoint
    attempts = [*checkpoint.attempts[:-1], msgspec.structs.replace(checkpoint.attempts[-1], took_ms=took_ms)]
    figures = {**checkpoint.figures, "took_ms": sum(attempt.took_ms for attempt in attempts)}
    return replace(outcome, checkpoint=msgspec.structs.replace(checkpoint, attempts=attempts, figures=figures))


async def _tried(
    name: str,
    proposal: Proposal,
    before: Sequence[Attempt],
    *,
    speak: Speak | None,
    clock: Clock,
    breaker: Breaker,
    timeout_s: float,
) -> tuple[Attempt, Outcome | None]:
    """Try one strategy that asks a model; return what became of it."""
    if speak is None:
        return Attempt(strategy=name, outcome="no_model"), None
    started, meter = clock.now_ms(), Meter()
    voice = speak(meter)
    if breaker.is_open(name, voice.name, now_ms=started):
        return Attempt(strategy=name, outcome="resting", model=voice.name), None
    outcome: Outcome | None = None
    try:
        async with asyncio.timeout(timeout_s):
            draft = await DRAFTERS[name](proposal.brief, voice)
        taken = meter.attempt(strategy=name, model=voice.name, outcome=TAKEN, took_ms=clock.now_ms() - started)
        outcome = await asyncio.to_thread(conclude, proposal, replace(draft, attempts=(*before, taken)))
    except DraftRefused as refused:
        reason = refused.reason
    except TimeoutError:
        reason = "timed_out"
    except (ModelError, NothingToCompact, BrokenWindow) as error:
        reason = error.code
    else:
        breaker.succeeded(name, voice.name)
        return taken, outcome
    breaker.failed(name, voice.name, now_ms=clock.now_ms())
    return meter.attempt(strategy=name, model=voice.name, outcome=reason, took_ms=clock.now_ms() - started), None
