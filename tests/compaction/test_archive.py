"""What leaves the state when it is over budget, in which order, and what never does."""

from __future__ import annotations

from itertools import pairwise

from holdfast.compaction.archive import archive
from holdfast.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.state_text import render_state
from holdfast.thread import Pointer
from holdfast.tokens import estimate_text


def entry(name: str, section: Section, speaker: Speaker, *, pinned: bool = False) -> LedgerEntry:
    text = f"{name} " + "word " * 40
    return LedgerEntry(id=name, section=section, text=text, sources=(Pointer("t", 1),), speaker=speaker, born=0, pinned=pinned)


FULL = Ledger(
    entries=(
        entry("rule", Section.ACTIVE, Speaker.USER),
        entry("goal", Section.OBJECTIVE, Speaker.USER),
        entry("pin", Section.EVIDENCE, Speaker.COMPUTED, pinned=True),
        entry("binding", Section.ACTIVE, Speaker.COMPUTED),
        entry("old", Section.INACTIVE, Speaker.USER),
        entry("handoff", Section.HANDOFF, Speaker.COMPUTED),
        entry("file1", Section.EVIDENCE, Speaker.COMPUTED),
        entry("file2", Section.EVIDENCE, Speaker.COMPUTED),
    )
)


def left(budget_tokens: int) -> list[str]:
    return [each.id for each in archive(FULL, budget_tokens=budget_tokens).entries]


def test_evidence_goes_first_then_inactive_then_handoff_then_what_no_user_said() -> None:
    """Each step gives way before the next one is touched, oldest first."""
    size = estimate_text(render_state(FULL))
    orders = [left(size - 50 * gone) for gone in range(6)]
    gone = [sorted(set(before) - set(after)) for before, after in pairwise(orders)]
    assert gone == [["file1"], ["file2"], ["old"], ["handoff"], ["binding"]]


def test_a_users_rule_and_a_pin_stay_whatever_the_budget() -> None:
    """The state is then larger than the budget, and says what it left out."""
    state = archive(FULL, budget_tokens=0)
    assert [each.id for each in state.entries] == ["rule", "goal", "pin"]
    assert "older entries archived: 5" in render_state(state)


def test_nothing_goes_within_the_budget() -> None:
    """A budget is a bound, not a target."""
    assert archive(FULL, budget_tokens=10_000) == FULL
