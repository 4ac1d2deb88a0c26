"""Every attempt to compact, as OpenTelemetry's own SDK receives it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.histories import turns

from threadkeep import Threadkeep
from threadkeep.compaction.audit import AuditReport
from threadkeep.compaction.early_compaction import Worth
from threadkeep.compaction.report import CompactionReport, Comparison, PlanPart, PlanSummary
from threadkeep.compaction.telemetry import (
    CompactionAttempt,
    CompactionObserver,
    OpenTelemetryObserver,
    find_installed_observer,
    observe,
)
from threadkeep.errors import NothingToCompact
from threadkeep.threads import Attempt

pytestmark = pytest.mark.anyio

ATTEMPT = CompactionAttempt(
    attempt_id="1", thread_id="ship-it", trigger="auto", phase="pre_turn", strategy="session", model="openai:gpt-5"
)
TRIAL = Attempt(strategy="session", outcome="taken", calls=2, input_tokens=8_000, output_tokens=300, cached_tokens=7_500)
PART = PlanPart()
REPORT = CompactionReport(
    thread="ship-it",
    checkpoint=41,
    strategy="extractive",
    fell_back_from="session",
    tokens_before=9_000,
    tokens_after=1_200,
    worth=Worth(sheds=7_800, rebills=1_200),
    model_calls=2,
    attempts=(TRIAL,),
    hooks=(),
    over_target=False,
    audit=AuditReport(required=0, kept=0),
    plan=PlanSummary(replaced=PART, quoted=PART, context=PART, request=PART, frontier=PART, stubbed=PART, state=PART),
    changes=Comparison(),
)
# What every span and point of ATTEMPT carries once it came to REPORT.
LABELS = {
    "gen_ai.operation.name": "compact",
    "gen_ai.request.model": "openai:gpt-5",
    "threadkeep.compaction.trigger": "auto",
    "threadkeep.compaction.phase": "pre_turn",
    "threadkeep.compaction.reason": "user_requested",
    "threadkeep.compaction.strategy": "extractive",
    "threadkeep.compaction.fell_back_from": "session",
    "threadkeep.compaction.outcome": "compacted",
}
FAILURE = {
    "gen_ai.operation.name": "compact",
    "gen_ai.request.model": "openai:gpt-5",
    "threadkeep.compaction.trigger": "auto",
    "threadkeep.compaction.phase": "pre_turn",
    "threadkeep.compaction.reason": "user_requested",
    "threadkeep.compaction.strategy": "session",
    "threadkeep.compaction.outcome": "failed",
}


class Backstage:
    """An SDK that keeps what it is sent."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self._points = InMemoryMetricReader()
        self.meters = MeterProvider(metric_readers=[self._points])
        self.observer = OpenTelemetryObserver(tracers=self.tracers, meters=self.meters)

    def spans(self) -> list[ReadableSpan]:
        return list(self._spans.get_finished_spans())

    def points(self) -> dict[str, list[tuple[dict[str, object], float]]]:
        """Return each metric's points: attributes, and the sum, or of times, which no test can know, how many there were."""
        told = self._points.get_metrics_data()
        found: dict[str, list[tuple[dict[str, object], float]]] = {}
        for resource in told.resource_metrics if told else ():
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                for point in metric.data.data_points:
                    value = point.value if isinstance(point, NumberDataPoint) else point.sum
                    counted = point.count if isinstance(point, HistogramDataPoint) and metric.unit == "s" else value
                    found.setdefault(metric.name, []).append((dict(point.attributes or {}), counted))
        return found

    def close(self) -> None:
        self.tracers.shutdown()
        self.meters.shutdown()


@pytest.fixture
def backstage() -> Iterator[Backstage]:
    opened = Backstage()
    yield opened
    opened.close()


async def test_a_compaction_is_one_span_with_its_figures(backstage: Backstage) -> None:
    """What it was asked for, what it fell back from, what it cost."""
    with observe(backstage.observer, ATTEMPT) as watch:
        watch.report = REPORT
    (span,) = backstage.spans()
    assert (span.name, span.status.status_code) == ("threadkeep.compact", trace.StatusCode.OK)
    assert dict(span.attributes or {}) == {
        **LABELS,
        "gen_ai.conversation.id": "ship-it",
        "gen_ai.usage.input_tokens": 8_000,
        "gen_ai.usage.output_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 7_500,
        "threadkeep.compaction.tokens_before": 9_000,
        "threadkeep.compaction.tokens_after": 1_200,
        "threadkeep.compaction.checkpoint": 41,
        "threadkeep.compaction.model_calls": 2,
    }


async def test_a_compaction_is_one_point_in_each_metric(backstage: Backstage) -> None:
    """No thread is named: a metric that grows with threads is none."""
    with observe(backstage.observer, ATTEMPT) as watch:
        watch.report = REPORT
    assert backstage.points() == {
        "threadkeep.compaction.duration": [(LABELS, 1)],
        "threadkeep.compaction.window.size": [
            ({**LABELS, "threadkeep.compaction.window": "before"}, 9_000),
            ({**LABELS, "threadkeep.compaction.window": "after"}, 1_200),
        ],
        "threadkeep.compaction.model.calls": [(LABELS, 2)],
        "threadkeep.compaction.token.usage": [
            ({**LABELS, "gen_ai.token.type": "input"}, 8_000),
            ({**LABELS, "gen_ai.token.type": "output"}, 300),
        ],
        "threadkeep.compaction.token.cached": [(LABELS, 7_500)],
    }


async def test_without_a_model_nothing_of_one_is_said(backstage: Backstage) -> None:
    """A figure nobody counted is left out, not zero; a trial run is no compaction."""
    attempt = CompactionAttempt(
        attempt_id="2", thread_id="ship-it", trigger="manual", phase="standalone_turn", strategy="extractive"
    )
    with observe(backstage.observer, attempt) as watch:
        watch.report = replace(REPORT, fell_back_from=None, checkpoint=None, attempts=())
    (span,) = backstage.spans()
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.id": "ship-it",
        "threadkeep.compaction.trigger": "manual",
        "threadkeep.compaction.phase": "standalone_turn",
        "threadkeep.compaction.reason": "user_requested",
        "threadkeep.compaction.strategy": "extractive",
        "threadkeep.compaction.outcome": "tried_out",
        "threadkeep.compaction.tokens_before": 9_000,
        "threadkeep.compaction.tokens_after": 1_200,
        "threadkeep.compaction.model_calls": 0,
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NothingToCompact("ship-it", reason="two secret words"), "nothing_to_compact"),
        (asyncio.CancelledError("two secret words"), "cancelled"),
        (LookupError("two secret words"), "LookupError"),
    ],
)
async def test_a_failure_is_told_by_its_kind_and_goes_on_its_way(backstage: Backstage, error: BaseException, kind: str) -> None:
    """Its words stay here: they may quote the transcript."""
    with pytest.raises(type(error)), observe(backstage.observer, ATTEMPT):
        raise error
    (span,) = backstage.spans()
    assert (span.status.status_code, span.status.description, span.events) == (trace.StatusCode.ERROR, kind, ())
    labels = {**FAILURE, "error.type": kind, "threadkeep.compaction.outcome": "interrupted" if kind == "cancelled" else "failed"}
    assert dict(span.attributes or {}) == {**labels, "gen_ai.conversation.id": "ship-it"}
    assert backstage.points() == {"threadkeep.compaction.duration": [(labels, 1)]}
    assert "two secret words" not in span.to_json()


async def test_spans_made_meanwhile_are_the_attempts_children_and_later_ones_are_not(backstage: Backstage) -> None:
    """A provider library that is instrumented itself shows up where it belongs, in threads too."""
    tracer = backstage.tracers.get_tracer("provider")

    def ask(name: str) -> None:
        with tracer.start_as_current_span(name):
            pass

    with observe(backstage.observer, ATTEMPT) as watch:
        await asyncio.to_thread(ask, "during")
        watch.report = REPORT
    ask("later")
    parents = {span.name: span.parent for span in backstage.spans()}
    contexts = {span.name: span.context for span in backstage.spans()}
    assert parents["during"] is not None
    assert parents["during"].span_id == contexts["threadkeep.compact"].span_id
    assert parents["later"] is None


async def test_attempts_at_once_are_told_apart(backstage: Backstage) -> None:
    """Two threads of one process compact at the same time; each span has its own figures."""
    together = asyncio.Barrier(2)

    async def compact(name: str, tokens: int) -> None:
        attempt = CompactionAttempt(attempt_id=name, thread_id=name, trigger="auto", phase="mid_turn", strategy="session")
        with observe(backstage.observer, attempt) as watch:
            await together.wait()
            watch.report = replace(REPORT, tokens_before=tokens)

    await asyncio.gather(compact("a", 10), compact("b", 20))
    attributes = [dict(span.attributes or {}) for span in backstage.spans()]
    assert {told["gen_ai.conversation.id"]: told["threadkeep.compaction.tokens_before"] for told in attributes} == {
        "a": 10,
        "b": 20,
    }
    assert [span.parent for span in backstage.spans()] == [None, None]


async def test_an_attempt_that_ends_without_figures_is_a_mistake_of_ours(backstage: Backstage) -> None:
    """It is told as a failure, never as a compaction."""
    with pytest.raises(AssertionError), observe(backstage.observer, ATTEMPT):
        pass
    assert [span.status.status_code for span in backstage.spans()] == [trace.StatusCode.ERROR]


async def test_where_it_is_installed_it_reports_and_says_nothing_until_a_host_sets_up_an_sdk() -> None:
    """The API alone has nowhere to send anything."""
    observer = find_installed_observer()
    assert isinstance(observer, OpenTelemetryObserver)
    with observe(observer, ATTEMPT) as watch:
        watch.report = REPORT
    assert not trace.get_current_span().is_recording()


async def test_with_nobody_watching_an_attempt_is_as_it_was() -> None:
    """Errors pass, values stay."""
    with observe(CompactionObserver(), ATTEMPT) as watch:
        watch.report = REPORT
    with pytest.raises(LookupError), observe(CompactionObserver(), ATTEMPT):
        raise LookupError


async def test_a_real_compaction_is_told_with_the_figures_of_its_report(backstage: Backstage, tk: Threadkeep) -> None:
    """And one that found nothing to do, as a failure of that kind."""
    watched = await tk.for_tenant("watched", observer=backstage.observer)
    thread = await watched.thread("t")
    await thread.record(turns(1, 14))
    report = await thread.compact()
    with pytest.raises(NothingToCompact):
        await thread.compact()
    compacted, failed = (dict(span.attributes or {}) for span in backstage.spans())
    assert compacted == {
        "gen_ai.operation.name": "compact",
        "gen_ai.conversation.id": "t",
        "threadkeep.compaction.trigger": "manual",
        "threadkeep.compaction.phase": "standalone_turn",
        "threadkeep.compaction.reason": "user_requested",
        "threadkeep.compaction.strategy": report.strategy,
        "threadkeep.compaction.outcome": "compacted",
        "threadkeep.compaction.tokens_before": report.tokens_before,
        "threadkeep.compaction.tokens_after": report.tokens_after,
        "threadkeep.compaction.checkpoint": report.checkpoint,
        "threadkeep.compaction.turn": 14,
        "threadkeep.compaction.model_calls": 0,
    }
    assert (failed["threadkeep.compaction.outcome"], failed["error.type"]) == ("failed", "nothing_to_compact")


@pytest.mark.slow
def test_nothing_is_imported_before_the_first_attempt_and_without_the_extra_nobody_watches() -> None:
    """In a process that cannot import it, in one that has it but did not attempt anything, and in one that did."""
    absent = "import sys; sys.modules['opentelemetry'] = None\n"
    watching = "from threadkeep.compaction.telemetry import *; import sys; observer = find_installed_observer()\n"
    attempted = (
        "attempt = CompactionAttempt(attempt_id='1', thread_id='t', trigger='auto', phase='mid_turn', strategy='session')\n"
        "observer.started(attempt); observer.failed(attempt, LookupError(), duration_ms=1, cost=sum_attempts([]))\n"
    )
    told = "print(type(observer).__name__, 'opentelemetry.trace' in sys.modules)"
    printed = [
        subprocess.run([sys.executable, "-c", code + told], check=True, capture_output=True, text=True).stdout.strip()
        for code in (absent + watching, watching, watching + attempted)
    ]
    assert printed == ["CompactionObserver False", "OpenTelemetryObserver False", "OpenTelemetryObserver True"]
