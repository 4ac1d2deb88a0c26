"""Reports every attempt at a compaction to an observer: OpenTelemetry if it is installed (extra `otel`), else none.

One attempt is one span, with an event for each strategy it tried, and one point in each of a few metrics. Names follow
OpenTelemetry's conventions for generative AI if these have one, else begin with `threadkeep.`. No text of a transcript is
reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from threadkeep.compaction.report import CompactionReport
from threadkeep.errors import CompactionStopped, ThreadkeepError
from threadkeep.threads import Attempt, sum_attempts
from threadkeep.threads.records import AttemptCost

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

SCOPE: Final = "threadkeep"
SPAN_NAME: Final = "threadkeep.compact"
PREFIX: Final = "threadkeep.compaction."
EVENT_NAME: Final = f"{PREFIX}tried"
AnyFigure = str | int | float
# OpenTelemetry's default boundaries end at 10,000 and suit milliseconds.
DURATIONS_S: Final = (0.01, 0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
WINDOWS_TOKENS: Final = tuple(1_000.0 * 2**power for power in range(12))


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionAttempt:
    """An attempt.

    Attributes:
        attempt_id: A unique id.
        strategy: The first strategy to try.
        model: The name of the model that drafts; None without one.
        reason: Why there is to be a compaction.
        turn: The thread's turn; None before there is something to compact.
        tokens_before: The size of the window; None before there is something to compact.
    """

    attempt_id: str
    thread_id: str
    trigger: str
    phase: str
    strategy: str
    model: str | None = None
    reason: str = "user_requested"
    turn: int | None = None
    tokens_before: int | None = None


class CompactionObserver:
    """Receives the events of attempts: `started`, then `tried` any number of times, then `finished` or `failed`. This one ignores
    them.

    All calls of an attempt come from one task. No method may raise or block.
    """

    def started(self, attempt: CompactionAttempt) -> None: ...

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        """One strategy ended, successfully or not; a cancelled one counts too."""

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None: ...

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, cost: AttemptCost) -> None:
        """The attempt ended with `error` and had its `cost`; a cancelled one counts too."""


class Watch:
    """What a running attempt has tried so far, in order; the compaction sets `report` when it succeeds."""

    def __init__(self, observer: CompactionObserver, attempt: CompactionAttempt) -> None:
        self.report: CompactionReport | None = None
        self.trials: list[Attempt] = []
        self.attempt = attempt
        self._observer = observer
        # The loop's own clock: durations must not jump with the time of day.
        self._clock = asyncio.get_running_loop().time
        self._begun = self._clock()

    @property
    def duration_ms(self) -> int:
        return round((self._clock() - self._begun) * 1_000)

    def begin(self, *, turn: int, tokens_before: int) -> None:
        """Note that there is something to compact."""
        self.attempt = replace(self.attempt, turn=turn, tokens_before=tokens_before)

    def add(self, trial: Attempt) -> None:
        """Report the end of one strategy."""
        self.trials.append(trial)
        self._observer.tried(self.attempt, trial)


@contextmanager
def observe(observer: CompactionObserver, attempt: CompactionAttempt) -> Iterator[Watch]:
    """Report the attempt in this block to `observer`; the block must set the report of the watch before it ends.

    An error is reported and raised again.
    """
    watch = Watch(observer, attempt)
    observer.started(attempt)
    try:
        yield watch
        if watch.report is None:
            raise AssertionError("an attempt that ends well leaves its report")
    except BaseException as error:
        observer.failed(watch.attempt, error, duration_ms=watch.duration_ms, cost=sum_attempts(watch.trials))
        raise
    observer.finished(watch.attempt, watch.report, duration_ms=watch.duration_ms)


def classify_failure(error: BaseException) -> str:
    """Return how an attempt without a checkpoint ended: `failed`, `interrupted`, or `stopped` by a hook."""
    match error:
        case asyncio.CancelledError():
            return "interrupted"
        case CompactionStopped():
            return "stopped"
        case _:
            return "failed"


def find_installed_observer() -> CompactionObserver:
    """Return an observer for OpenTelemetry's global providers, or one that does nothing if it is not installed."""
    try:
        installed = find_spec("opentelemetry.trace") is not None
    except ModuleNotFoundError:
        installed = False
    return OpenTelemetryObserver() if installed else CompactionObserver()


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

        def make_histogram(name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                f"{PREFIX}{name}", unit=unit, description=description, explicit_bucket_boundaries_advisory=bounds
            )

        self.duration = make_histogram("duration", "s", "How long an attempt to compact took.", DURATIONS_S)
        self.window = make_histogram("window.size", "{token}", "The window before and after a compaction.", WINDOWS_TOKENS)

        def make_counter(name: str, unit: str, description: str) -> Counter:
            return meter.create_counter(f"{PREFIX}{name}", unit=unit, description=description)

        self.calls = make_counter("model.calls", "{call}", "Calls to a model made to compact.")
        # Not gen_ai.client.token.usage: instrumented provider libraries count the same tokens there already.
        self.tokens = make_counter("token.usage", "{token}", "Tokens a provider counted for compactions.")
        self.cached = make_counter("token.cached", "{token}", "Of the input tokens, those read from a cache.")
        self.cost = make_counter("cost", "{USD}", "What providers said that compactions cost.")

    def count(self, cost: AttemptCost, labels: dict[str, str]) -> None:
        """Count a cost; unknown figures are left out."""
        self.calls.add(cost.calls, labels)
        for kind, tokens in (("input", cost.input_tokens), ("output", cost.output_tokens)):
            if tokens is not None:
                self.tokens.add(tokens, {**labels, "gen_ai.token.type": kind})
        if cost.cached_tokens is not None:
            self.cached.add(cost.cached_tokens, labels)
        if cost.cost_micro_usd is not None:
            self.cost.add(cost.cost_micro_usd / 1_000_000, labels)


class OpenTelemetryObserver(CompactionObserver):
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
            SPAN_NAME, attributes={"gen_ai.conversation.id": attempt.thread_id, **_make_labels(attempt)}
        )
        self._open[attempt.attempt_id] = (span, context.attach(trace.set_span_in_context(span)))

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        opened = self._open.get(attempt.attempt_id)
        if opened is not None:
            told = {
                f"{PREFIX}strategy": trial.strategy,
                f"{PREFIX}outcome": trial.outcome,
                f"{PREFIX}duration_ms": trial.took_ms,
                "gen_ai.request.model": trial.model,
                **_describe_cost(sum_attempts([trial])),
            }
            opened[0].add_event(EVENT_NAME, _drop_unknown(told))

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None:
        labels = _make_labels(attempt) | {
            f"{PREFIX}strategy": report.strategy,
            f"{PREFIX}outcome": "tried_out" if report.checkpoint is None else "compacted",
            **({f"{PREFIX}fell_back_from": report.fell_back_from} if report.fell_back_from else {}),
        }
        cost = sum_attempts(report.attempts)
        figures = {
            f"{PREFIX}tokens_before": report.tokens_before,
            f"{PREFIX}tokens_after": report.tokens_after,
            f"{PREFIX}checkpoint": report.checkpoint,
            f"{PREFIX}turn": attempt.turn,
        }
        self._end_span(attempt, {**labels, **figures, **_describe_cost(cost)})
        self._instruments.duration.record(duration_ms / 1_000, labels)
        self._instruments.window.record(report.tokens_before, {**labels, f"{PREFIX}window": "before"})
        self._instruments.window.record(report.tokens_after, {**labels, f"{PREFIX}window": "after"})
        self._instruments.count(cost, labels)

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, cost: AttemptCost) -> None:
        kind = get_error_type(error)
        labels = {**_make_labels(attempt), f"{PREFIX}outcome": classify_failure(error), "error.type": kind}
        before = {f"{PREFIX}tokens_before": attempt.tokens_before, f"{PREFIX}turn": attempt.turn}
        # Only the type: a provider's error text may quote the transcript.
        self._end_span(attempt, {**labels, **before, **(_describe_cost(cost) if cost.calls else {})}, error=kind)
        self._instruments.duration.record(duration_ms / 1_000, labels)
        if cost.calls:
            self._instruments.count(cost, labels)

    def _end_span(
        self, attempt: CompactionAttempt, attributes: Mapping[str, AnyFigure | None], *, error: str | None = None
    ) -> None:
        from opentelemetry import context
        from opentelemetry.trace import StatusCode

        opened = self._open.pop(attempt.attempt_id, None)
        if opened is None:
            return
        span, token = opened
        context.detach(token)
        span.set_attributes(_drop_unknown(attributes))
        span.set_status(StatusCode.OK if error is None else StatusCode.ERROR, error)
        span.end()


def _make_labels(attempt: CompactionAttempt) -> dict[str, str]:
    """Return the labels of every span and metric point of an attempt; each has few values, so that metrics stay small."""
    labels = {
        "gen_ai.operation.name": "compact",
        f"{PREFIX}trigger": attempt.trigger,
        f"{PREFIX}phase": attempt.phase,
        f"{PREFIX}reason": attempt.reason,
        f"{PREFIX}strategy": attempt.strategy,
    }
    return labels if attempt.model is None else {**labels, "gen_ai.request.model": attempt.model}


def _describe_cost(cost: AttemptCost) -> dict[str, AnyFigure | None]:
    return {
        f"{PREFIX}model_calls": cost.calls,
        f"{PREFIX}cost_usd": None if cost.cost_micro_usd is None else cost.cost_micro_usd / 1_000_000,
        "gen_ai.usage.input_tokens": cost.input_tokens,
        "gen_ai.usage.output_tokens": cost.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": cost.cached_tokens,
    }


def _drop_unknown(figures: Mapping[str, AnyFigure | None]) -> dict[str, AnyFigure]:
    return {name: value for name, value in figures.items() if value is not None}
