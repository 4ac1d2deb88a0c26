"""Forty demands over twenty compactions, in the dialects the demo does not speak by itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.across.long_work import translated
from tests.across.script import check_window
from tests.dialects.samples import ChatSamples, MessagesSamples

from threadkeep import Config, Threadkeep
from threadkeep.compaction import Section
from threadkeep.demo import context_items, long_session, turn_items
from threadkeep.testing.dialect_samples import DialectSamples
from threadkeep.thread import EntryKind

pytestmark = pytest.mark.anyio

TURNS = 126
TURNS_BETWEEN = 6
BINDING = (Section.OBJECTIVE, Section.ACTIVE)


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "seed"), [(ChatSamples(), 11), (MessagesSamples(), 12)], ids=["chat", "messages"])
async def test_forty_demands_outlive_twenty_compactions(samples: DialectSamples, seed: int, tmp_path: Path) -> None:
    """Closed book, the window alone: every demand is in force, no value that was taken back stands by itself."""
    session = long_session(seed=seed, turns=TURNS, demands=40)
    compactions = 0
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work", dialect=samples.dialect.name)
        await thread.record(translated(context_items(), samples))
        for number, turn in enumerate(session.turns):
            await thread.record(translated(turn_items(turn, number=number), samples))
            if number and number % TURNS_BETWEEN == 0:
                report = await thread.compact()
                compactions += 1
                assert report.tokens_after < report.tokens_before
                await check_window(thread, samples)
        history, ledger, window = await thread.history(), await thread.state(), await thread.window()
        verdict = await tk.verify()
    entries = [entry for entry in ledger.entries if entry.section in BINDING]
    beside = {entry.id: entry.text + (entry.claim.text if entry.claim else "") for entry in entries}
    kept = [samples.dialect.view(entry.item).text for entry in history.entries if entry.kind is not EntryKind.STATE]
    shown = [*beside.values(), *kept]
    assert compactions >= 20
    assert [demand.said for demand in session.demands if not any(demand.needle in text for text in shown)] == []
    stale = [(demand.stale, demand.needle) for demand in session.demands if demand.stale is not None]
    assert [(old, text) for old, new in stale for text in beside.values() if old in text and new not in text] == []
    assert window.tokens <= 20_000
    assert verdict.problems == ()
