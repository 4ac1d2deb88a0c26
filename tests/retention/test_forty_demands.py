"""Forty things a user demanded early, over twenty compactions: all still in view, nothing stale in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.story.generator import generate_session
from benchmarks.story.session import Demand, build_context_items, render_turn
from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction import Section, Speaker
from threadkeep.compaction.message_shortener import shorten

pytestmark = pytest.mark.anyio

TURNS = 126
TURNS_BETWEEN = 6
COMPACTIONS = 20
BINDING = (Section.OBJECTIVE, Section.ACTIVE)


async def said_in_window(thread: Thread) -> list[str]:
    """Return what the window tells of people's messages, oldest first: lines of the state, and messages of their own."""
    ledger, history = await thread.state(), await thread.history()
    hidden = ledger.in_view | ledger.left_out | ledger.brief
    entries = [entry for entry in ledger.entries if entry.section in BINDING and entry.speaker is Speaker.USER]
    told = [(entry.sources[-1].ordinal, entry.text) for entry in entries if entry.id not in hidden]
    views = [(placed.source, thread.dialect.view(placed.item)) for placed in history.entries]
    kept = [(source.ordinal, view.said) for source, view in views if source is not None and view.by_person]
    return [text for _, text in sorted([*told, *kept])]


def reads_as_current(said: list[str], demand: Demand) -> bool:
    """Whether nothing says the value that was taken back after the last message that says what is demanded."""
    newest = max((at for at, text in enumerate(said) if demand.needle in text), default=-1)
    stale = max((at for at, text in enumerate(said) if demand.stale and demand.stale in text), default=-1)
    return newest >= stale


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_forty_demands_outlive_twenty_compactions(seed: int, tmp_path: Path) -> None:
    """Closed book, the window alone: every demand is told, and no value that was taken back is told after its correction."""
    session = generate_session(seed=seed, turns=TURNS, demands=40)
    left: list[int] = []
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work")
        await thread.record(build_context_items())
        for number, turn in enumerate(session.turns):
            await thread.record(render_turn(turn, number=number))
            if number and number % TURNS_BETWEEN == 0:
                report = await thread.compact()
                left.append(report.tokens_after)
                assert report.tokens_after < report.tokens_before
        said = await said_in_window(thread)
        verdict = await tk.verify()
    assert len(left) >= COMPACTIONS
    assert [demand.said for demand in session.demands if not any(demand.needle in text for text in said)] == []
    assert [demand.said for demand in session.demands if not reads_as_current(said, demand)] == []
    assert max(left) <= 20_000
    assert verdict.ok


async def test_what_was_demanded_can_be_recalled_from_before_the_first_compaction(tmp_path: Path) -> None:
    """The pointer beside a statement returns the very message it was said in."""
    session = generate_session(seed=1, turns=40, demands=20)
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work")
        for number, turn in enumerate(session.turns):
            await thread.record(render_turn(turn, number=number))
        await thread.compact()
        said_by_user = [entry for entry in (await thread.state()).section(Section.ACTIVE) if entry.speaker is Speaker.USER]
        for entry in said_by_user:
            [hit] = await thread.recall(str(entry.sources[-1]))
            assert shorten(hit.text) == entry.text
