"""Pins and notes in the ledger: what a person asked to keep, no draft and no budget takes away."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compaction.test_hostile_drafts import LATER, ledgers, operations, rollout_with_a_trap, spoken_messages
from tests.histories import RESPONSES, Rollout, answered, said

from threadkeep.compaction.engine import conclude, propose
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Operation, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.merge import apply, merge_observed
from threadkeep.compaction.remarks import apply_remarks, get_words
from threadkeep.compaction.state_budget import StateBudget, StateFitter
from threadkeep.compaction.state_text import render_line, render_state
from threadkeep.compaction.strategies import SESSION
from threadkeep.compaction.strategies.strategy import Draft, Goal
from threadkeep.threads import Checkpoint, PinBody, Pointer, Remark, RemarkBody, SaidBody, UnpinBody


def remark(body: RemarkBody, *, at: int = 500, seen: Checkpoint | None = None) -> Remark:
    return Remark(source=Pointer("t", at), body=body, seen=seen)


def pin(entry: LedgerEntry) -> Remark:
    return remark(PinBody(entry=entry.id, words=get_words(entry)))


def entry(number: str, text: str, *, section: Section = Section.ACTIVE, speaker: Speaker = Speaker.USER) -> LedgerEntry:
    return LedgerEntry(id=number, section=section, text=text, sources=(Pointer("t", 1),), speaker=speaker, born=0)


def format_share(ledger: Ledger) -> list[tuple[str, str, Section, bool]]:
    return [(each.id, each.text, each.section, each.pinned) for each in ledger.entries]


WORK = Rollout([said("Fix it."), answered("The cause is lock_a in db-3.")]).plan(frontier_tokens=0).observed


@settings(max_examples=100, deadline=None)
@given(st.data(), ledgers(), st.lists(operations, min_size=1, max_size=4), spoken_messages, st.integers(0, 2_000))
def test_a_pinned_entry_never_disappears(
    data: st.DataObject, ledger: Ledger, drafts: list[list[Operation]], said_at: dict[Pointer, str], room: int
) -> None:
    """Whatever drafts say, in any number of compactions and within any room: the same id, words, place and pin, in the state."""
    ledger = merge_observed(ledger, WORK)
    chosen = data.draw(st.lists(st.sampled_from(ledger.entries), min_size=1, max_size=3, unique_by=lambda each: each.id))
    state = apply_remarks(ledger, [pin(each) for each in chosen])
    held = [each for each in state.entries if each.pinned]
    assert {each.id for each in chosen} <= {each.id for each in held}
    for draft in drafts:
        state = merge_observed(apply(state, draft, spoken=said_at), WORK)
        state = load_ledger(dump_ledger(StateFitter(state, budget=StateBudget()).fit(room_tokens=room)))
        assert [state.find(each.id) for each in held] == held
        lines = render_state(state).split("\n")
        assert [each.id for each in held if f"- {render_line(each)}" not in lines] == []


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(operations, max_size=3), st.data())
def test_a_pinned_entry_is_in_every_checkpoint_that_any_draft_comes_to(
    stages: list[list[Operation]], data: st.DataObject
) -> None:
    """Through proposal, draft, merge, audit and budget, with a target nobody could meet."""
    rollout = rollout_with_a_trap()
    history = rollout.history()
    known = propose(history, thread_id="t", dialect=RESPONSES, tip=rollout.tip).brief.ledger
    chosen = data.draw(st.sampled_from(known.entries))
    noted = remark(SaidBody(text="Ask Ruth before the release.", pinned=True), at=rollout.tip.next)
    marked = replace(history, remarks=(pin(chosen), noted))
    proposal = propose(marked, thread_id="t", dialect=RESPONSES, tip=rollout.tip, goal=Goal(target="1%"))
    outcome = conclude(proposal, Draft(strategy=SESSION, stages=tuple(map(tuple, stages))))
    pinned = [each for each in outcome.ledger.entries if each.pinned]
    assert {each.text for each in pinned} == {chosen.text, "Ask Ruth before the release."}
    assert outcome.checkpoint.remarks_to == rollout.tip.next
    assert load_ledger(bytes(outcome.checkpoint.state)) == outcome.ledger
    shown = render_state(outcome.ledger)
    assert [each.text for each in pinned if render_line(each) not in shown] == []


@settings(max_examples=200, deadline=None)
@given(ledgers(), operations, spoken_messages)
def test_no_draft_pins_anything(ledger: Ledger, draft: list[Operation], said_at: dict[Pointer, str]) -> None:
    """What is pinned after a draft was pinned before it."""
    before = {each.id for each in ledger.entries if each.pinned}
    assert {each.id for each in apply(ledger, draft, spoken=said_at).entries if each.pinned} == before


def test_a_note_is_a_users_statement_told_as_it_was_written() -> None:
    """One entry with the note as its source; the same note again is the same entry."""
    ledger = Ledger(entries=(entry("1", "Never push to main."),), next_number=2)
    note = SaidBody(text="Never push to main. The release is on Friday.")
    told = apply_remarks(ledger, [remark(note), remark(note, at=510)])
    assert format_share(told) == [
        ("1", "Never push to main.", Section.ACTIVE, False),
        ("2", "Never push to main. The release is on Friday.", Section.ACTIVE, False),
    ]
    assert [each.sources for each in told.entries] == [(Pointer("t", 1),), (Pointer("t", 500), Pointer("t", 510))]
    assert [(each.speaker, each.noted) for each in told.entries] == [(Speaker.USER, False), (Speaker.USER, True)]


def test_a_note_overrules_nothing_by_itself() -> None:
    """It stands beside what it may change, as the later words."""
    port = entry("1", "Use port 8080 for staging.")
    told = apply_remarks(Ledger(entries=(port,), next_number=2), [remark(SaidBody(text=LATER[0]))])
    assert told.entries[0] == port
    assert format_share(told)[1] == ("2", LATER[0], Section.ACTIVE, False)


def test_what_an_agent_notes_is_a_models_statement() -> None:
    """It speaks for nobody, changes nothing a user said, and cannot pin itself."""
    port = entry("1", "Use port 8080 for staging.")
    ledger = Ledger(entries=(port,), next_number=2)
    told = apply_remarks(ledger, [remark(SaidBody(text=LATER[0], pinned=True, by_agent=True))])
    assert told.entries[0] == port
    assert [(each.text, each.speaker, each.pinned) for each in told.entries[1:]] == [(LATER[0], Speaker.MODEL, False)]


def test_notes_are_weighed_the_same_together_and_one_by_one() -> None:
    """However they are read, the same ids and entries come of them."""
    texts = ("Use port 8080 for staging.", "The release is on Friday.", LATER[0], "Use port 8080 for staging.")
    remarks = [remark(SaidBody(text=text), at=500 + number) for number, text in enumerate(texts)]
    one_by_one = Ledger()
    for each in remarks:
        one_by_one = apply_remarks(one_by_one, [each])
    assert apply_remarks(Ledger(), remarks) == one_by_one
    assert len(one_by_one.entries) == 3


def test_a_noted_paste_is_kept_whole() -> None:
    """In a message pasted lines are shortened; who notes them down wants the lines."""
    config = "\n".join(f"    server_{number} = {{ host = '10.0.0.{number}', port = 80{number} }}" for number in range(6))
    told = apply_remarks(Ledger(), [remark(SaidBody(text=f"The fleet:\n{config}", pinned=True))])
    assert format_share(told) == [("1", f"The fleet:\n{config}", Section.ACTIVE, True)]


def test_a_pin_follows_the_words_where_numbers_mean_something_else() -> None:
    """Another line of checkpoints gives the number to another entry; the pin is about what was said."""
    meant = entry("7", "Never push to main.")
    ledger = Ledger(entries=(entry("7", "Use tabs."), entry("9", "Never push to main.")), next_number=10)
    assert [each.id for each in apply_remarks(ledger, [pin(meant)]).entries if each.pinned] == ["9"]


def test_a_pin_brings_back_what_only_an_undone_checkpoint_held() -> None:
    """What a person asked to keep outlasts the checkpoint it was seen in; without that checkpoint nothing is made up."""
    meant = entry("4", "Module_4 works.", speaker=Speaker.MODEL)
    state = msgspec.Raw(dump_ledger(Ledger(entries=(meant,), next_number=5)))
    seen = Checkpoint(strategy="session", cut=0, covers=0, layout=[], state=state, audit=msgspec.Raw(b"{}"), figures={})
    body = PinBody(entry="4", words=get_words(meant))
    told = apply_remarks(Ledger(age=3), [remark(body, seen=seen)])
    assert told.entries == (replace(meant, id="1", born=3, pinned=True),)
    assert apply_remarks(Ledger(), [remark(body)]) == Ledger()


def test_an_unpinned_entry_is_like_any_other() -> None:
    """A line about the work stays until the records no longer bear it out; nothing takes its id while it is pinned."""
    old = entry("h1", "last error: make: it burns", section=Section.HANDOFF, speaker=Speaker.COMPUTED)
    ledger = apply_remarks(Ledger(entries=(old,)), [pin(old)])
    held = merge_observed(ledger, WORK)
    assert [each.text for each in held.section(Section.HANDOFF)] == [
        old.text,
        "asked: Fix it. — answered: The cause is lock_a in db-3.",
    ]
    assert len({each.id for each in held.entries}) == len(held.entries)
    free = apply_remarks(held, [remark(UnpinBody(entry="h1", words=get_words(old)))])
    assert old.text not in [each.text for each in merge_observed(free, WORK).entries]
