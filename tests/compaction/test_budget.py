"""What of a ledger a state has room for: within its budget, pins and the work under way always, messages before the rest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from threadkeep.compaction.journal import Finding, Journal
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.state_budget import StateBudget, StateFitter, estimate_state, must_be_told
from threadkeep.compaction.state_text import render_state
from threadkeep.threads import Pointer

WIDE = StateBudget(tokens=1_000_000)


def message(number: int, text: str, *, pinned: bool = False, section: Section = Section.ACTIVE) -> LedgerEntry:
    source = Pointer("t", number)
    return LedgerEntry(id=str(number), section=section, text=text, sources=(source,), speaker=Speaker.USER, born=0, pinned=pinned)


def finding(number: int, text: str) -> LedgerEntry:
    return replace(message(number, text), id=f"f{number}", speaker=Speaker.AGENT)


def work(number: int, text: str, *, section: Section = Section.HANDOFF) -> LedgerEntry:
    return replace(message(number, text, section=section), id=f"h{number}", speaker=Speaker.COMPUTED)


LONG = Ledger(
    entries=(
        message(1, "Build the tide table.", section=Section.OBJECTIVE),
        *(
            message(number, f"Keep port {number} free for the harbour of that number, and say so. " * 3)
            for number in range(2, 60)
        ),
        *(finding(number, f"The cause of failure {number} is lock_{number} in db-{number}.") for number in range(60, 120)),
        *(work(number, f"asked: Look at part {number}. — answered: It is fine.") for number in range(120, 132)),
        work(140, "open call: make deploy"),
        *(work(number, f"changed in src/: part_{number}.py #{number}", section=Section.EVIDENCE) for number in range(150, 170)),
    ),
    next_number=60,
)


def fit(ledger: Ledger, *, room_tokens: int, budget: StateBudget, in_view: frozenset[str] = frozenset()) -> Ledger:
    return StateFitter(ledger, budget=budget).fit(room_tokens=room_tokens, in_view=in_view)


def told(ledger: Ledger, speaker: Speaker) -> list[LedgerEntry]:
    return [entry for entry in ledger.entries if entry.speaker is speaker and entry.id not in ledger.left_out]


def test_with_room_for_all_nothing_is_left_out() -> None:
    """And the ledger is otherwise as it was."""
    assert fit(LONG, room_tokens=1_000_000, budget=WIDE) == LONG


@pytest.mark.parametrize("room", [400, 800, 1_500, 3_000])
def test_a_state_keeps_within_its_room_and_names_what_it_leaves_out(room: int) -> None:
    """The newest messages are whole, older ones cut to their beginning, the oldest named by their record; each appears once."""
    fitted = fit(LONG, room_tokens=room, budget=WIDE)
    assert estimate_state(fitted) <= room
    assert fitted.entries == LONG.entries
    people = [entry for entry in LONG.entries if entry.speaker is Speaker.USER]
    fate = ["out" if e.id in fitted.left_out else "brief" if e.id in fitted.brief else "whole" for e in people[1:]]
    assert fate == sorted(fate, key=["out", "brief", "whole"].index)
    state = render_state(fitted)
    out = [entry for entry in people if entry.id in fitted.left_out]
    assert f"left out for want of room: {len(out)} message" in state
    assert f"(#{out[0].id} to #{out[-1].id})" in state
    assert "open call: make deploy" in state
    assert "Build the tide table." in state


def test_the_budget_bounds_a_state_where_the_window_has_room() -> None:
    """Six thousand tokens by default."""
    many = Ledger(entries=tuple(message(number, "Never touch that part of the harbour. " * 9) for number in range(2_000)))
    fitted = fit(many, room_tokens=1_000_000, budget=StateBudget())
    assert 5_000 < estimate_state(fitted) <= 6_000


def test_each_part_has_its_share_and_what_one_leaves_goes_to_the_others() -> None:
    """Findings get theirs although people said more than fits; without findings people get it."""
    with_findings = fit(LONG, room_tokens=2_000, budget=WIDE)
    assert 3 < len(told(with_findings, Speaker.AGENT)) < 40
    without = replace(LONG, entries=tuple(entry for entry in LONG.entries if entry.speaker is not Speaker.AGENT))
    fitted = fit(without, room_tokens=2_000, budget=WIDE)
    assert len(told(fitted, Speaker.USER)) > len(told(with_findings, Speaker.USER))


def test_the_most_telling_findings_stay_longest() -> None:
    """Worth comes before age."""
    telling = Finding(text="The cause of failure 61 is lock_61 in db-61.", source="t#61", worth=6)
    ledger = replace(LONG, journal=Journal(findings=(telling,)))
    fitted = fit(ledger, room_tokens=1_000, budget=WIDE)
    texts = [entry.text for entry in told(fitted, Speaker.AGENT)]
    assert telling.text in texts
    assert len(texts) < 30


def test_what_messages_of_the_window_tell_is_not_told_again() -> None:
    """It is neither in the state nor counted as left out."""
    in_view = frozenset(str(number) for number in range(50, 60))
    fitted = fit(LONG, in_view=in_view, room_tokens=1_000_000, budget=WIDE)
    assert (fitted.in_view, fitted.left_out, fitted.brief) == (in_view, frozenset(), frozenset())
    assert "Keep port 55 " not in render_state(fitted)


entries = st.lists(
    st.builds(
        LedgerEntry,
        id=st.just(""),
        section=st.sampled_from(list(Section)),
        text=st.one_of(st.text(max_size=40), st.integers(1, 300).map(lambda size: "word " * size)),
        sources=st.integers(1, 99).map(lambda number: (Pointer("t", number),)),
        speaker=st.sampled_from(list(Speaker)),
        born=st.just(0),
        pinned=st.integers(0, 9).map(lambda number: number == 0),
    ),
    max_size=25,
).map(lambda found: tuple(replace(entry, id=str(number)) for number, entry in enumerate(found)))


def test_an_active_entry_that_nobody_said_is_weighed_like_a_message() -> None:
    """Also where there is too little room for all."""
    computed = work(1, "word " * 200, section=Section.ACTIVE)
    fitted = fit(
        Ledger(entries=(computed, *(message(number, "word " * 50) for number in range(2, 9)))), room_tokens=300, budget=WIDE
    )
    assert computed.id in fitted.left_out


@settings(max_examples=200, deadline=None)
@given(entries, st.integers(0, 4_000), st.sets(st.integers(0, 24).map(str)))
def test_any_ledger_fits_or_only_what_must_be_told_is_left(found: tuple[LedgerEntry, ...], room: int, seen: set[str]) -> None:
    """Larger than its room only where pins, the objective and the work under way do not fit; nothing leaves the ledger."""
    in_view = frozenset(entry.id for entry in found if entry.id in seen and not must_be_told(entry))
    fitted = fit(Ledger(entries=found), in_view=in_view, room_tokens=room, budget=StateBudget())
    assert fitted.entries == found
    kept = {entry.id for entry in found if must_be_told(entry)}
    assert kept.isdisjoint(fitted.left_out)
    # Where the room is tight, only what the session is for may be told by its beginning.
    objective = {entry.id for entry in found if entry.section is Section.OBJECTIVE and not entry.pinned}
    assert kept & fitted.brief <= objective
    assert fitted.left_out.isdisjoint(fitted.brief | in_view)
    if estimate_state(fitted) > min(room, StateBudget().tokens):
        assert {entry.id for entry in found} == kept | fitted.left_out | in_view


def test_what_a_model_wrote_takes_no_room_from_what_people_said() -> None:
    """The same messages of people are in the window with and without a model's text, however much it is."""
    flood = tuple(replace(message(number, "module works, " * 30), speaker=Speaker.MODEL) for number in range(200, 280))
    for room in (600, 1_500, 4_000):
        quiet = fit(LONG, room_tokens=room, budget=WIDE)
        loud = fit(replace(LONG, entries=(*LONG.entries, *flood)), room_tokens=room, budget=WIDE)
        people = {entry.id for entry in LONG.entries if entry.speaker is Speaker.USER}
        assert (loud.left_out & people, loud.brief & people) == (quiet.left_out & people, quiet.brief & people)
