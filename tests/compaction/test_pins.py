"""Pins and notes in the ledger: what a person asked to keep, no draft and no budget takes away."""

from __future__ import annotations

from dataclasses import replace

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compaction.test_hostile_drafts import LATER, ledgers, operations, rollout_with_a_trap, spoken_messages
from tests.histories import RESPONSES

from threadkeep.compaction.archive import archive
from threadkeep.compaction.drafting import Draft
from threadkeep.compaction.engine import conclude, propose
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Operation, Refresh
from threadkeep.compaction.remarks import with_remarks, words_of
from threadkeep.thread import Checkpoint, PinBody, Pointer, Remark, RemarkBody, SaidBody, UnpinBody


def remark(body: RemarkBody, *, at: int = 500, seen: Checkpoint | None = None) -> Remark:
    return Remark(source=Pointer("t", at), body=body, seen=seen)


def pin(entry: LedgerEntry) -> Remark:
    return remark(PinBody(entry=entry.id, words=words_of(entry)))


def entry(number: str, text: str, *, section: Section = Section.ACTIVE, speaker: Speaker = Speaker.USER) -> LedgerEntry:
    return LedgerEntry(id=number, section=section, text=text, sources=(Pointer("t", 1),), speaker=speaker, born=0)


def as_told(ledger: Ledger) -> list[tuple[str, str, Section, bool]]:
    return [(each.id, each.text, each.section, each.pinned) for each in ledger.entries]


@settings(max_examples=300, deadline=None)
@given(st.data(), ledgers(), st.lists(operations, min_size=1, max_size=4), spoken_messages, st.integers(0, 2_000))
def test_a_pinned_entry_never_disappears(
    data: st.DataObject, ledger: Ledger, drafts: list[list[Operation]], said_at: dict[Pointer, str], budget: int
) -> None:
    """Whatever drafts say, in any number of compactions and within any budget: the same id, words, place and pin."""
    computed = (Refresh(section=Section.EVIDENCE, lines=(("file: a.py", Pointer("t", 2)), ("file: b.py", Pointer("t", 3)))),)
    ledger = merge(ledger, computed, spoken={})
    chosen = data.draw(st.lists(st.sampled_from(ledger.entries), min_size=1, max_size=3, unique_by=lambda each: each.id))
    state = with_remarks(ledger, [pin(each) for each in chosen])
    held = [each for each in state.entries if each.pinned]
    assert {each.id for each in chosen} <= {each.id for each in held}
    for draft in drafts:
        state = load_ledger(dump_ledger(archive(merge(state, draft, spoken=said_at), budget_tokens=budget)))
        found = [state.find(each.id) for each in held]
        assert [(e.text, e.speaker, e.section, e.pinned) for e in found if e is not None] == [
            (e.text, e.speaker, e.section, True) for e in held
        ]


@settings(max_examples=60, deadline=None)
@given(st.lists(operations, max_size=3), st.data())
def test_a_pinned_entry_is_in_every_checkpoint_that_any_draft_comes_to(
    stages: list[list[Operation]], data: st.DataObject
) -> None:
    """Through proposal, draft, merge, audit and archive, with a target nobody could meet."""
    rollout = rollout_with_a_trap()
    history = rollout.history()
    known = propose(history, thread_id="t", dialect=RESPONSES, tip=rollout.tip).brief.ledger
    chosen = data.draw(st.sampled_from(known.entries))
    noted = remark(SaidBody(text="Ask Ruth before the release.", pinned=True), at=rollout.tip.next)
    marked = replace(history, remarks=(pin(chosen), noted))
    proposal = propose(marked, thread_id="t", dialect=RESPONSES, tip=rollout.tip, target="1%")
    outcome = conclude(proposal, Draft(strategy="session", stages=tuple(map(tuple, stages))))
    pinned = {each.text for each in outcome.ledger.entries if each.pinned}
    assert pinned == {chosen.text, "Ask Ruth before the release."}
    assert outcome.checkpoint.remarks_to == rollout.tip.next
    assert load_ledger(bytes(outcome.checkpoint.state)) == outcome.ledger


@settings(max_examples=200, deadline=None)
@given(ledgers(), operations, spoken_messages)
def test_no_draft_pins_anything(ledger: Ledger, draft: list[Operation], said_at: dict[Pointer, str]) -> None:
    """What is pinned after a merge was pinned before it."""
    before = {each.id for each in ledger.entries if each.pinned}
    assert {each.id for each in merge(ledger, draft, spoken=said_at).entries if each.pinned} <= before


def test_a_note_is_a_users_statement_sentence_by_sentence() -> None:
    """Each sentence is an entry of its own, told once, with the note as its source."""
    ledger = Ledger(entries=(entry("1", "Never push to main."),), next_number=2)
    told = with_remarks(ledger, [remark(SaidBody(text="Never push to main. The release is on Friday."))])
    assert as_told(told) == [
        ("1", "Never push to main.", Section.ACTIVE, False),
        ("2", "The release is on Friday.", Section.ACTIVE, False),
    ]
    assert [each.sources for each in told.entries] == [(Pointer("t", 1), Pointer("t", 500)), (Pointer("t", 500),)]
    assert {each.speaker for each in told.entries} == {Speaker.USER}


def test_a_note_may_set_aside_what_it_changes_but_not_what_is_pinned() -> None:
    """It has the weight of what a person says in the conversation."""
    port = entry("1", "Use port 8080 for staging.")
    ledger = Ledger(entries=(port,), next_number=2)
    note = remark(SaidBody(text=LATER[0]))
    assert as_told(with_remarks(ledger, [note]))[0][2] is Section.INACTIVE
    assert as_told(with_remarks(ledger, [pin(port), note]))[0] == ("1", port.text, Section.ACTIVE, True)


def test_what_an_agent_notes_is_a_models_statement() -> None:
    """It speaks for nobody, changes nothing a user said, and cannot pin itself."""
    port = entry("1", "Use port 8080 for staging.")
    ledger = Ledger(entries=(port,), next_number=2)
    told = with_remarks(ledger, [remark(SaidBody(text=LATER[0], pinned=True, by_agent=True))])
    assert told.entries[0] == port
    assert [(each.text, each.speaker, each.pinned) for each in told.entries[1:]] == [(LATER[0], Speaker.MODEL, False)]


def test_notes_are_weighed_the_same_together_and_one_by_one() -> None:
    """However they are read, the same ids and entries come of them."""
    texts = ("Use port 8080 for staging.", "The release is on Friday.", LATER[0], "Never push to main.")
    remarks = [remark(SaidBody(text=text), at=500 + number) for number, text in enumerate(texts)]
    one_by_one = Ledger()
    for each in remarks:
        one_by_one = with_remarks(one_by_one, [each])
    assert with_remarks(Ledger(), remarks) == one_by_one
    assert [each.section for each in one_by_one.entries] == [Section.INACTIVE, *[Section.ACTIVE] * 3]


def test_a_noted_paste_is_kept_whole() -> None:
    """In a message pasted lines are named by their size; who notes them down wants the lines."""
    config = "\n".join(f"    server_{number} = {{ host = '10.0.0.{number}', port = 80{number} }}" for number in range(6))
    told = with_remarks(Ledger(), [remark(SaidBody(text=f"The fleet:\n{config}", pinned=True))])
    assert as_told(told) == [("1", f"The fleet:\n{config}", Section.ACTIVE, True)]


def test_a_pin_follows_the_words_where_numbers_mean_something_else() -> None:
    """Another line of checkpoints gives the number to another entry; the pin is about what was said."""
    meant = entry("7", "Never push to main.")
    ledger = Ledger(entries=(entry("7", "Use tabs."), entry("9", "Never push to main.")), next_number=10)
    assert [each.id for each in with_remarks(ledger, [pin(meant)]).entries if each.pinned] == ["9"]


def test_a_pin_brings_back_what_only_an_undone_checkpoint_held() -> None:
    """What a person asked to keep outlasts the checkpoint it was seen in; without that checkpoint nothing is made up."""
    meant = entry("4", "Module_4 works.", speaker=Speaker.MODEL)
    state = msgspec.Raw(dump_ledger(Ledger(entries=(meant,), next_number=5)))
    seen = Checkpoint(strategy="session", cut=0, covers=0, layout=[], state=state, audit=msgspec.Raw(b"{}"), figures={})
    body = PinBody(entry="4", words=words_of(meant))
    told = with_remarks(Ledger(age=3), [remark(body, seen=seen)])
    assert told.entries == (replace(meant, id="1", born=3, pinned=True),)
    assert with_remarks(Ledger(), [remark(body)]) == Ledger()


def test_an_unpinned_entry_is_like_any_other() -> None:
    """It stays until something takes it away."""
    file = entry("e1", "file: a.py", section=Section.EVIDENCE, speaker=Speaker.COMPUTED)
    ledger = with_remarks(Ledger(entries=(file,)), [pin(file)])
    refresh = Refresh(section=Section.EVIDENCE, lines=(("file: b.py", None), ("file: a.py", None)))
    assert as_told(merge(ledger, [refresh], spoken={})) == [
        ("e1", "file: a.py", Section.EVIDENCE, True),
        ("e2", "file: b.py", Section.EVIDENCE, False),
    ]
    free = with_remarks(ledger, [remark(UnpinBody(entry="e1", words=words_of(file)))])
    assert free == Ledger(entries=(file,))
    assert archive(free, budget_tokens=0).entries == ()


def test_inactive_entries_beyond_the_bound_stay_if_they_are_pinned() -> None:
    """The oldest that gave way are archived without being over any budget; a pin holds there too."""
    gone = tuple(entry(str(number), f"Old rule {number}.", section=Section.INACTIVE) for number in range(1, 31))
    state = archive(with_remarks(Ledger(entries=gone, next_number=31), [pin(gone[0])]))
    assert [each.id for each in state.entries] == ["1", *map(str, range(11, 31))]
