"""What an attempt to compact cost, as OpenTelemetry's own SDK receives it: where it ended well, and where it did not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.runtime.test_telemetry import ATTEMPT, FAILURE, FIGURES, LABELS, Backstage

from holdfast.errors import StaleCheckpoint
from holdfast.runtime.telemetry import Spent, observed

pytestmark = pytest.mark.anyio

STALE = {**FAILURE, "error.type": "stale_checkpoint"}


@pytest.fixture
def sdk() -> Iterator[Backstage]:
    opened = Backstage()
    yield opened
    opened.close()


def fail(sdk: Backstage, *, spent: Spent) -> None:
    """Let an attempt fail after something was spent on it."""
    with observed(sdk.observer, ATTEMPT) as watch:
        watch.spent = spent
        raise StaleCheckpoint("ship-it")


async def test_a_compaction_says_what_it_cost(sdk: Backstage) -> None:
    """In dollars, on the span and as a counter of its own."""
    with observed(sdk.observer, ATTEMPT) as watch:
        watch.figures = replace(FIGURES, cost_micro_usd=230_000)
    (span,) = sdk.spans()
    assert (span.attributes or {})["holdfast.compaction.cost_usd"] == 0.23
    assert sdk.points()["holdfast.compaction.cost"] == [(LABELS, 0.23)]


async def test_an_attempt_that_failed_says_what_it_cost(sdk: Backstage) -> None:
    """Calls, tokens and dollars, beside the kind of the error."""
    with pytest.raises(StaleCheckpoint):
        fail(sdk, spent=Spent(model_calls=2, input_tokens=8_000, output_tokens=300, cached_tokens=7_500, cost_micro_usd=230_000))
    (span,) = sdk.spans()
    assert dict(span.attributes or {}) == {
        **STALE,
        "gen_ai.conversation.id": "ship-it",
        "gen_ai.usage.input_tokens": 8_000,
        "gen_ai.usage.output_tokens": 300,
        "gen_ai.usage.cache_read.input_tokens": 7_500,
        "holdfast.compaction.model_calls": 2,
        "holdfast.compaction.cost_usd": 0.23,
    }
    assert sdk.points() == {
        "holdfast.compaction.duration": [(STALE, 1)],
        "holdfast.compaction.model.calls": [(STALE, 2)],
        "holdfast.compaction.token.usage": [
            ({**STALE, "gen_ai.token.type": "input"}, 8_000),
            ({**STALE, "gen_ai.token.type": "output"}, 300),
        ],
        "holdfast.compaction.token.cached": [(STALE, 7_500)],
        "holdfast.compaction.cost": [(STALE, 0.23)],
    }


async def test_what_nobody_told_is_no_point(sdk: Backstage) -> None:
    """A zero would say that it was free."""
    with pytest.raises(StaleCheckpoint):
        fail(sdk, spent=Spent(model_calls=1))
    assert sdk.points() == {
        "holdfast.compaction.duration": [(STALE, 1)],
        "holdfast.compaction.model.calls": [(STALE, 1)],
    }
