"""Forty things a user demanded early, over twenty compactions: all still in view, nothing stale in force."""

from __future__ import annotations

from pathlib import Path

import pytest

from threadkeep import Config, Thread, Threadkeep
from threadkeep.compaction import LedgerEntry, Section, Speaker
from threadkeep.demo import Demand, context_items, long_session, turn_items
from threadkeep.thread import EntryKind

pytestmark = pytest.mark.anyio

TURNS = 126
TURNS_BETWEEN = 6
COMPACTIONS = 20
BINDING = (Section.OBJECTIVE, Section.ACTIVE)


async def in_force(thread: Thread) -> list[str]:
    """Return everything the window shows as binding: active entries with what contests them, and messages behind the state."""
    ledger = await thread.state()
    entries = [entry for entry in ledger.entries if entry.section in BINDING and entry.id not in ledger.behind]
    claims = [entry.claim.text for entry in entries if entry.claim]
    history = await thread.history()
    kept = [entry.item for entry in history.entries if entry.kind is not EntryKind.STATE]
    return [*(entry.text for entry in entries), *claims, *(thread.dialect.view(item).text for item in kept)]


def stands_alone(entry: LedgerEntry, demand: Demand) -> bool:
    """Whether an entry states a value that was taken back, with nothing beside it that says so."""
    if demand.stale is None or demand.stale not in entry.text:
        return False
    beside = entry.text + (entry.claim.text if entry.claim else "")
    return demand.needle not in beside


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3, 4])
async def test_forty_demands_outlive_twenty_compactions(seed: int, tmp_path: Path) -> None:
    """Closed book, the window alone: every demand is in force, every value taken back stands beside its correction."""
    session = long_session(seed=seed, turns=TURNS, demands=40)
    left: list[int] = []
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work")
        await thread.record(context_items())
        for number, turn in enumerate(session.turns):
            await thread.record(turn_items(turn, number=number))
            if number and number % TURNS_BETWEEN == 0:
                report = await thread.compact()
                left.append(report.tokens_after)
                assert report.tokens_after < report.tokens_before
        shown = await in_force(thread)
        ledger = await thread.state()
        verdict = await tk.verify()
    assert len(left) >= COMPACTIONS
    assert [demand.said for demand in session.demands if not any(demand.needle in text for text in shown)] == []
    active = [entry for entry in ledger.entries if entry.section in BINDING]
    assert [(entry.text, demand.needle) for entry in active for demand in session.demands if stands_alone(entry, demand)] == []
    assert max(left) <= 20_000
    assert verdict.ok


async def test_what_was_demanded_can_be_recalled_from_before_the_first_compaction(tmp_path: Path) -> None:
    """The pointer beside a statement returns the very message it was said in."""
    session = long_session(seed=1, turns=40, demands=20)
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work")
        for number, turn in enumerate(session.turns):
            await thread.record(turn_items(turn, number=number))
        await thread.compact()
        said_by_user = [entry for entry in (await thread.state()).section(Section.ACTIVE) if entry.speaker is Speaker.USER]
        for entry in said_by_user:
            hits = [await thread.recall(str(source)) for source in entry.sources]
            said = [hit[0].text for hit in hits]
            assert any(entry.text.split(" […")[0] in " ".join(text.split()) or "pasted lines" in entry.text for text in said)
