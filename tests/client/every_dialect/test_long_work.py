"""Forty demands over twenty compactions, in the dialects the demo does not speak by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.client.every_dialect.long_work import translated
from tests.client.every_dialect.script import check_window
from tests.dialects.samples import ChatSamples, GeminiSamples, MessagesSamples
from tests.retention.test_forty_demands import reads_as_current, said_in_window

from benchmarks.story.generator import generate_session
from benchmarks.story.session import build_context_items, render_turn
from threadkeep import Config, Threadkeep
from threadkeep.testing.dialect_checks import DialectSamples

pytestmark = pytest.mark.anyio

TURNS = 126
TURNS_BETWEEN = 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("samples", "seed"),
    [(ChatSamples(), 11), (MessagesSamples(), 12), (GeminiSamples(), 13)],
    ids=["chat", "messages", "gemini"],
)
async def test_forty_demands_outlive_twenty_compactions(samples: DialectSamples, seed: int, tmp_path: Path) -> None:
    """The last window has every demand, and no withdrawn value after its correction."""
    session = generate_session(seed=seed, turns=TURNS, demands=40)
    compactions = 0
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work", dialect=samples.dialect.name)
        await thread.record(translated(build_context_items(), samples))
        for number, turn in enumerate(session.turns):
            await thread.record(translated(render_turn(turn, number=number), samples))
            if number and number % TURNS_BETWEEN == 0:
                report = await thread.compact()
                compactions += 1
                assert report.tokens_after < report.tokens_before
                await check_window(thread, samples)
        said, window = await said_in_window(thread), await thread.window()
        verdict = await tk.verify()
    assert compactions >= 20
    assert [demand.said for demand in session.demands if not any(demand.needle in text for text in said)] == []
    assert [demand.said for demand in session.demands if not reads_as_current(said, demand)] == []
    assert window.tokens <= 20_000
    assert verdict.problems == ()
