"""Reports every attempt at a compaction to an observer: OpenTelemetry if it is installed (extra `otel`), else none.

One attempt is one span, with an event for each strategy it tried, and one point in each of a few metrics. Names follow
OpenTelemetry's conventions for generative AI if these have one, else begin with `threadkeep.`. No text of a transcript is
reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Protocol

from threadkeep.errors import ThreadkeepError
from threadkeep.threads import Attempt, sum_attempts

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

SCOPE: Final = "threadkeep"
SPAN_NAME: Final = "threadkeep.compact"
EVENT_NAME: Final = "threadkeep.compaction.tried"
# OpenTelemetry's default boundaries end at 10,000 and suit milliseconds.
DURATIONS_S: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
WINDOWS_TOKENS: Final = tuple(1_000.0 * 2**power for power in range(12))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionAttempt:
    """An attempt as it begins.

    Attributes:
        attempt_id: A unique id.
        strategy: The first strategy to try.
        model: The name of the model that drafts; None without one.
    """

    attempt_id: str
    thread_id: str
    trigger: str
    phase: str
    strategy: str
    model: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The cost of all model calls of an attempt, over all its strategies.

    Attributes:
        model_calls: The number of calls, retries included.
        input_tokens: The provider's count over all calls; None if it gave none. The same holds for the other figures.
    """

    model_calls: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_micro_usd: int | None = None


NOTHING_SPENT: Final = Spent()


def sum_spent(attempts: Sequence[Attempt]) -> Spent:
    """Return the total cost of the attempts."""
    bill = sum_attempts(attempts)
    return Spent(
        model_calls=bill.calls,
        input_tokens=bill.input_tokens,
        output_tokens=bill.output_tokens,
        cached_tokens=bill.cached_tokens,
        cost_micro_usd=bill.cost_micro_usd,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionFigures(Spent):
    """The result and the cost of a successful attempt.

    Attributes:
        strategy: The strategy that drafted, after any fallback.
        checkpoint: The ordinal of the checkpoint; None for a dry run.
    """

    strategy: str
    fell_back_from: str | None
    tokens_before: int
    tokens_after: int
    checkpoint: int | None


class CompactionObserver(Protocol):
    """Receives the events of attempts: `started`, then `tried` any number of times, then `finished` or `failed`.

    All calls of an attempt come from one task. No method may raise or block.
    """

    def started(self, attempt: CompactionAttempt) -> None: ...

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        """One strategy ended, successfully or not; a cancelled one counts too."""
        ...

    def finished(self, attempt: CompactionAttempt, figures: CompactionFigures, *, duration_ms: int) -> None: ...

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, spent: Spent = NOTHING_SPENT) -> None:
        """The attempt ended with `error` and had cost `spent`; a cancelled one counts too."""
        ...


class Unobserved:
    """An observer that does nothing."""

    def started(self, attempt: CompactionAttempt) -> None: ...

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None: ...

    def finished(self, attempt: CompactionAttempt, figures: CompactionFigures, *, duration_ms: int) -> None: ...

    def failed(
        self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, spent: Spent = NOTHING_SPENT
    ) -> None: ...


class Watch:
    """The figures of a running attempt; the compaction sets `figures` on success and `spent` in any case."""

    def __init__(self, observer: CompactionObserver, attempt: CompactionAttempt) -> None:
        self.figures: CompactionFigures | None = None
        self.spent = NOTHING_SPENT
        self._observer = observer
        self._attempt = attempt

    def tried(self, trial: Attempt) -> None:
        """Report the end of one strategy."""
        self._observer.tried(self._attempt, trial)


@contextmanager
def observe(observer: CompactionObserver, attempt: CompactionAttempt) -> Iterator[Watch]:
    """Report the attempt in this block to `observer`; the block must set the figures of the watch before it ends.

    An error is reported and raised again.
    """
    # The loop's own clock: durations must not jump with the time of day.
    clock = asyncio.get_running_loop().time
    begun = clock()

    def elapsed_ms() -> int:
        return round((clock() - begun) * 1_000)

    watch = Watch(observer, attempt)
    observer.started(attempt)
    try:
        yield watch
        if watch.figures is None:
            raise AssertionError("an attempt that ends well leaves its figures")
    except BaseException as error:
        observer.failed(attempt, error, duration_ms=elapsed_ms(), spent=watch.spent)
        raise
    observer.finished(attempt, watch.figures, duration_ms=elapsed_ms())


def find_installed_observer() -> CompactionObserver:
    """Return an observer for OpenTelemetry's global providers, or one that does nothing if it is not installed."""
    try:
        installed = find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:
        installed = False
    return OpenTelemetryObserver() if installed else Unobserved()


def get_error_type(error: BaseException) -> str:
    """Return a short error type for metrics: threadkeep's error code, or the class name."""
    if isinstance(error, ThreadkeepError):
        return error.code
    return "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__qualname__


class _Instruments:
    """The tracer and the metric instruments."""

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        from opentelemetry import metrics, trace

        self.tracer = trace.get_tracer(SCOPE, tracer_provider=tracers)
        meter = metrics.get_meter(SCOPE, meter_provider=meters)
        self.duration = meter.create_histogram(
            "threadkeep.compaction.duration",
            unit="s",
            description="How long an attempt to compact took.",
            explicit_bucket_boundaries_advisory=DURATIONS_S,
        )
        self.window = meter.create_histogram(
            "threadkeep.compaction.window.size",
            unit="{token}",
            description="The window before and after a compaction.",
            explicit_bucket_boundaries_advisory=WINDOWS_TOKENS,
        )
        self.calls = meter.create_counter(
            "threadkeep.compaction.model.calls", unit="{call}", description="Calls to a model made to compact."
        )
        # Not gen_ai.client.token.usage: instrumented provider libraries count the same tokens there already.
        self.spent = meter.create_counter(
            "threadkeep.compaction.token.usage", unit="{token}", description="Tokens a provider counted for compactions."
        )
        self.cached = meter.create_counter(
            "threadkeep.compaction.token.cached", unit="{token}", description="Of the input tokens, those read from a cache."
        )
        self.cost = meter.create_counter(
            "threadkeep.compaction.cost", unit="{USD}", description="What providers said that compactions cost."
        )

    def count(self, spent: Spent, labels: dict[str, str]) -> None:
        """Count what was spent; unknown figures are left out."""
        self.calls.add(spent.model_calls, labels)
        for kind, tokens in (("input", spent.input_tokens), ("output", spent.output_tokens)):
            if tokens is not None:
                self.spent.add(tokens, {**labels, "gen_ai.token.type": kind})
        if spent.cached_tokens is not None:
            self.cached.add(spent.cached_tokens, labels)
        if spent.cost_micro_usd is not None:
            self.cost.add(spent.cost_micro_usd / 1_000_000, labels)


class OpenTelemetryObserver:
    """Reports to OpenTelemetry. Spans made during an attempt, such as a provider library's, become its children.

    The import is delayed to the first attempt: it takes a tenth of a second, which other commands need not spend.
    """

    def __init__(self, *, tracers: TracerProvider | None = None, meters: MeterProvider | None = None) -> None:
        """Use the given providers, else the global ones."""
        self._tracers = tracers
        self._meters = meters
        self._open: dict[str, tuple[Span, Token[Context]]] = {}

    @cached_property
    def _instruments(self) -> _Instruments:
        return _Instruments(self._tracers, self._meters)

    def started(self, attempt: CompactionAttempt) -> None:
        from opentelemetry import context, trace

        span = self._instruments.tracer.start_span(
            SPAN_NAME, attributes={"gen_ai.conversation.id": attempt.thread_id, **_build_labels(attempt)}
        )
        self._open[attempt.attempt_id] = (span, context.attach(trace.set_span_in_context(span)))

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        opened = self._open.get(attempt.attempt_id)
        if opened is not None:
            opened[0].add_event(EVENT_NAME, _build_trial_attributes(trial))

    def finished(self, attempt: CompactionAttempt, figures: CompactionFigures, *, duration_ms: int) -> None:
        from opentelemetry.trace import StatusCode

        labels = {
            **_build_labels(attempt),
            **_build_result_labels(figures),
            "threadkeep.compaction.outcome": _get_outcome(figures),
        }
        span = self._close_span(attempt)
        if span is not None:
            span.set_attributes({**labels, **_build_size_attributes(figures)})
            span.set_status(StatusCode.OK)
            span.end()
        self._instruments.duration.record(duration_ms / 1_000, labels)
        self._instruments.window.record(figures.tokens_before, {**labels, "threadkeep.compaction.window": "before"})
        self._instruments.window.record(figures.tokens_after, {**labels, "threadkeep.compaction.window": "after"})
        self._instruments.count(figures, labels)

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, spent: Spent = NOTHING_SPENT) -> None:
        from opentelemetry.trace import StatusCode

        labels = {**_build_labels(attempt), "threadkeep.compaction.outcome": "failed", "error.type": get_error_type(error)}
        span = self._close_span(attempt)
        if span is not None:
            span.set_attributes({**labels, **(_build_cost_attributes(spent) if spent.model_calls else {})})
            # Only the type: a provider's error text may quote the transcript.
            span.set_status(StatusCode.ERROR, get_error_type(error))
            span.end()
        self._instruments.duration.record(duration_ms / 1_000, labels)
        if spent.model_calls:
            self._instruments.count(spent, labels)

    def _close_span(self, attempt: CompactionAttempt) -> Span | None:
        from opentelemetry import context

        opened = self._open.pop(attempt.attempt_id, None)
        if opened is None:
            return None
        span, token = opened
        context.detach(token)
        return span


def _build_labels(attempt: CompactionAttempt) -> dict[str, str]:
    """Return the labels of every span and metric point of an attempt; each has few values, so that metrics stay small."""
    labels = {
        "gen_ai.operation.name": "compact",
        "threadkeep.compaction.trigger": attempt.trigger,
        "threadkeep.compaction.phase": attempt.phase,
        "threadkeep.compaction.strategy": attempt.strategy,
    }
    return labels if attempt.model is None else {**labels, "gen_ai.request.model": attempt.model}


def _build_trial_attributes(trial: Attempt) -> dict[str, str | int | float]:
    """Return the event attributes of one tried strategy."""
    told: dict[str, str | int | float] = {
        "threadkeep.compaction.strategy": trial.strategy,
        "threadkeep.compaction.outcome": trial.outcome,
        "threadkeep.compaction.duration_ms": trial.took_ms,
        **_build_cost_attributes(sum_spent([trial])),
    }
    return told if trial.model is None else {**told, "gen_ai.request.model": trial.model}


def _build_result_labels(figures: CompactionFigures) -> dict[str, str]:
    fell = {} if figures.fell_back_from is None else {"threadkeep.compaction.fell_back_from": figures.fell_back_from}
    return {"threadkeep.compaction.strategy": figures.strategy, **fell}


def _get_outcome(figures: CompactionFigures) -> str:
    return "tried_out" if figures.checkpoint is None else "compacted"


def _build_size_attributes(figures: CompactionFigures) -> dict[str, int | float]:
    named = {
        "threadkeep.compaction.tokens_before": figures.tokens_before,
        "threadkeep.compaction.tokens_after": figures.tokens_after,
        "threadkeep.compaction.checkpoint": figures.checkpoint,
    }
    return {**{name: value for name, value in named.items() if value is not None}, **_build_cost_attributes(figures)}


def _build_cost_attributes(spent: Spent) -> dict[str, int | float]:
    named = {
        "threadkeep.compaction.model_calls": spent.model_calls,
        "threadkeep.compaction.cost_usd": None if spent.cost_micro_usd is None else spent.cost_micro_usd / 1_000_000,
        "gen_ai.usage.input_tokens": spent.input_tokens,
        "gen_ai.usage.output_tokens": spent.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": spent.cached_tokens,
    }
    return {name: value for name, value in named.items() if value is not None}
