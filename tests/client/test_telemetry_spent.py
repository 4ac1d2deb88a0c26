"""What an attempt to compact cost, as OpenTelemetry's own SDK receives it: where it ended well, and where it did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import msgspec
import pytest
from tests.client.test_telemetry import ATTEMPT, FAILURE, LABELS, REPORT, TRIAL, Backstage
from tests.histories import turns

from threadkeep import Threadkeep
from threadkeep.compaction.telemetry import observe
from threadkeep.errors import StaleCheckpoint
from threadkeep.testing.scripted_model import ScriptedModel, refuses
from threadkeep.threads import Attempt

pytestmark = pytest.mark.anyio

STALE = {**FAILURE, "error.type": "stale_checkpoint"}


@pytest.fixture
def sdk() -> Iterator[Backstage]:
    opened = Backstage()
    yield opened
    opened.close()


def fail(sdk: Backstage, tried: Attempt) -> None:
    """Let an attempt fail after a strategy was tried."""
    with observe(sdk.observer, ATTEMPT) as watch:
        watch.add(tried)
        raise StaleCheckpoint("ship-it")


async def test_a_compaction_says_what_it_cost(sdk: Backstage) -> None:
    """In dollars, on the span and as a counter of its own."""
    with observe(sdk.observer, ATTEMPT) as watch:
        watch.report = replace(REPORT, attempts=(msgspec.structs.replace(TRIAL, cost_micro_usd=230_000),))
    (span,) = sdk.spans()
    assert (span.attributes or {})["threadkeep.compaction.cost_usd"] == 0.23
    assert sdk.points()["threadkeep.compaction.cost"] == [(LABELS, 0.23)]


async def test_an_attempt_that_failed_says_what_it_cost(sdk: Backstage) -> None:
    """Calls, tokens and dollars, beside the kind of the error."""
    with pytest.raises(StaleCheckpoint):
        fail(sdk, REFUSED)
    (span,) = sdk.spans()
    assert dict(span.attributes or {}) == {
        **STALE,
        "gen_ai.conversation.id": "ship-it",
        "gen_ai.usage.input_tokens": 8_000,
        "gen_ai.usage.output_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 7_500,
        "threadkeep.compaction.model_calls": 2,
        "threadkeep.compaction.cost_usd": 0.23,
    }
    assert sdk.points() == {
        "threadkeep.compaction.duration": [(STALE, 1)],
        "threadkeep.compaction.model.calls": [(STALE, 2)],
        "threadkeep.compaction.token.usage": [
            ({**STALE, "gen_ai.token.type": "input"}, 8_000),
            ({**STALE, "gen_ai.token.type": "output"}, 300),
        ],
        "threadkeep.compaction.token.cached": [(STALE, 7_500)],
        "threadkeep.compaction.cost": [(STALE, 0.23)],
    }


async def test_what_nobody_told_is_no_point(sdk: Backstage) -> None:
    """A zero would say that it was free."""
    with pytest.raises(StaleCheckpoint):
        fail(sdk, UNTOLD)
    assert sdk.points() == {
        "threadkeep.compaction.duration": [(STALE, 1)],
        "threadkeep.compaction.model.calls": [(STALE, 1)],
    }


REFUSED = Attempt(
    strategy="session",
    outcome="refused",
    model="openai:gpt-5",
    calls=2,
    input_tokens=8_000,
    output_tokens=300,
    cached_tokens=7_500,
    cost_micro_usd=230_000,
    took_ms=1_200,
)
UNTOLD = Attempt(strategy="handoff", outcome="timed_out", model="openai:gpt-5", calls=1, took_ms=600)
UNAIDED = Attempt(strategy="extractive", outcome="taken", took_ms=9)
TOLD: list[dict[str, object]] = [
    {
        "threadkeep.compaction.strategy": "session",
        "threadkeep.compaction.outcome": "refused",
        "threadkeep.compaction.duration_ms": 1_200,
        "threadkeep.compaction.model_calls": 2,
        "threadkeep.compaction.cost_usd": 0.23,
        "gen_ai.request.model": "openai:gpt-5",
        "gen_ai.usage.input_tokens": 8_000,
        "gen_ai.usage.output_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 7_500,
    },
    {
        "threadkeep.compaction.strategy": "handoff",
        "threadkeep.compaction.outcome": "timed_out",
        "threadkeep.compaction.duration_ms": 600,
        "threadkeep.compaction.model_calls": 1,
        "gen_ai.request.model": "openai:gpt-5",
    },
    {
        "threadkeep.compaction.strategy": "extractive",
        "threadkeep.compaction.outcome": "taken",
        "threadkeep.compaction.duration_ms": 9,
        "threadkeep.compaction.model_calls": 0,
    },
]


def events(sdk: Backstage) -> list[tuple[str, dict[str, object]]]:
    (span,) = sdk.spans()
    return [(event.name, dict(event.attributes or {})) for event in span.events]


async def test_every_strategy_that_was_tried_is_an_event_of_the_span(sdk: Backstage) -> None:
    """With its outcome, time, tokens, cache and cost; what nobody told is left out."""
    with observe(sdk.observer, ATTEMPT) as watch:
        for trial in (REFUSED, UNTOLD, UNAIDED):
            watch.add(trial)
        watch.report = REPORT
    assert events(sdk) == [("threadkeep.compaction.tried", told) for told in TOLD]


async def test_a_compaction_that_fails_has_the_events_of_what_it_tried(sdk: Backstage) -> None:
    """They are told as each ends, whatever comes after."""
    with pytest.raises(StaleCheckpoint):
        fail(sdk, REFUSED)
    assert events(sdk) == [("threadkeep.compaction.tried", TOLD[0])]


async def test_a_real_compaction_tells_each_of_its_attempts(sdk: Backstage, tk: Threadkeep) -> None:
    """As they are in its report, in their order."""
    watched = await tk.for_tenant("watched", observer=sdk.observer)
    thread = await watched.thread("t")
    await thread.record(turns(1, 14))
    async with ScriptedModel([refuses()], dialect=thread.dialect.name, window_tokens=200_000) as model:
        report = await thread.compact(strategy="handoff", model=model)
    told = [(each["threadkeep.compaction.strategy"], each["threadkeep.compaction.outcome"]) for _, each in events(sdk)]
    assert told == [("handoff", "refused"), ("extractive", "taken")]
    assert told == [(attempt.strategy, attempt.outcome) for attempt in report.attempts]
