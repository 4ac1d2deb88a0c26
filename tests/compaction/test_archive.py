"""What leaves the state when it is over budget, in which order, and what never does."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from threadkeep.compaction.archive import archive, state_tokens
from threadkeep.compaction.ledger import Brevity, Claim, Ledger, LedgerEntry, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.state_text import render_state
from threadkeep.thread import Pointer


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
    size = state_tokens(replace(FULL, brevity=Brevity()))
    orders = [left(size - 45 * gone) for gone in range(6)]
    gone = [sorted(set(before) - set(after)) for before, after in pairwise(orders)]
    assert gone == [["file1"], ["file2"], ["old"], ["handoff"], ["binding"]]


def test_a_users_rule_and_a_pin_stay_whatever_the_budget() -> None:
    """The state is then larger than the budget, and says what it left out."""
    state = archive(FULL, budget_tokens=0)
    assert [each.id for each in state.entries] == ["rule", "goal", "pin"]
    assert "archived: 5" in render_state(state)


def test_nothing_goes_within_the_budget() -> None:
    """A budget is a bound, not a target."""
    assert archive(FULL, budget_tokens=10_000) == FULL


def said(number: int, text: str, *, claim: Claim | None = None) -> LedgerEntry:
    """A user's entry, said at the record of its own number."""
    where = (Pointer("t", number),)
    return LedgerEntry(
        id=str(number), section=Section.ACTIVE, text=text, sources=where, speaker=Speaker.USER, born=0, claim=claim
    )


TALK = Ledger(
    entries=(
        said(1, "Never push to main."),
        said(2, "Looked through the parser and the layout of its module."),
        said(3, "Ich habe die Berichte gelesen."),
        said(4, "The cache was cold and the first page was slow."),
        said(5, "Port 8080 was taken and the server moved."),
    )
)


def test_over_budget_what_demands_nothing_is_shown_by_its_pointer_and_stays_in_the_ledger() -> None:
    """Whatever names a value, forbids, or is not plain English keeps its words."""
    state = archive(TALK, budget_tokens=0)
    shown = render_state(state)
    assert state.entries == TALK.entries
    assert [entry.text for entry in TALK.entries if entry.text in shown] == [
        "Never push to main.",
        "Ich habe die Berichte gelesen.",
        "Port 8080 was taken and the server moved.",
    ]
    assert "said in passing: #2 #4" in shown


def test_words_that_are_whole_go_without_their_pointer_last_of_all() -> None:
    """Where that is enough the pointers stay; behind what was pasted or cut there is more to see."""
    pasted = said(6, "[14 pasted lines, 854 characters]")
    ledger = replace(TALK, entries=(*TALK.entries, pasted))
    shown = render_state(archive(ledger, budget_tokens=0))
    assert "- Never push to main.\n" in shown
    assert "- [14 pasted lines, 854 characters] #6\n" in shown
    enough = state_tokens(replace(ledger, brevity=Brevity(passing=frozenset({"2", "4"}))))
    assert "- Never push to main. #1\n" in render_state(archive(ledger, budget_tokens=enough))


def test_one_demand_keeps_every_sentence_of_its_message() -> None:
    """What is said around a rule may be what it means."""
    together = (said(1, "Looked through the parser and the layout of its module."), said(2, "Keep it that way."))
    same = tuple(replace(entry, sources=(Pointer("t", 9),)) for entry in together)
    assert "Looked through the parser" in render_state(archive(Ledger(entries=same), budget_tokens=0))


def test_a_larger_budget_brings_the_words_back() -> None:
    """How it is told is decided anew each time."""
    state = archive(TALK, budget_tokens=0)
    assert archive(state, budget_tokens=10_000) == TALK


def test_what_a_kept_message_says_is_not_said_twice() -> None:
    """Its words stand in the window, below the state; a claim made there is named by its record."""
    contested = said(6, "Mirror the boards.", claim=Claim(text="Forget mirroring the boards.", source=Pointer("t", 40)))
    ledger = Ledger(entries=(said(1, "Never push to main."), contested))
    kept = {Pointer("t", 40): "Forget mirroring the boards. Never push to main."}
    shown = render_state(archive(ledger, budget_tokens=0, in_view=kept))
    assert "Never push to main" not in shown
    assert "- earlier, contested: Mirror the boards. #6 — latest #40\n" in shown


def test_a_brief_state_tells_the_newer_value_beside_the_older_once() -> None:
    """An entry and what contests it stand on one line; what was replaced is a pointer to what holds and has its words there."""
    newer = said(5, "Use the port 9090 now.")
    claim = Claim(text=newer.text, source=Pointer("t", 5))
    older = said(2, "Use the port 8080 there.", claim=claim)
    gone = replace(said(1, "Use the port 7070."), section=Section.INACTIVE, claim=claim, pinned=True)
    shown = render_state(archive(Ledger(entries=(gone, older, newer)), budget_tokens=0))
    assert "- earlier, contested: Use the port 8080 there. #2 — latest #5: Use the port 9090 now.\n" in shown
    assert "- #1 → #5\n" in shown
    assert shown.count("Use the port 9090 now.") == 1
    assert "7070" not in shown


def test_how_it_is_told_is_stored_with_it() -> None:
    """A stored state gives the same bytes."""
    state = archive(TALK, budget_tokens=0, in_view={Pointer("t", 9): "Never push to main."})
    assert load_ledger(dump_ledger(state)) == state
    assert render_state(state, whole=True) == render_state(TALK)
