"""Two ledgers side by side: every entry has one fate; a plan in figures: every token has one part."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.histories import RESPONSES, Rollout, environment, said, turns

from threadkeep.compaction import compact
from threadkeep.compaction.engine import Outcome
from threadkeep.compaction.ledger import Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.report import (
    WITHDRAWN,
    Change,
    Comparison,
    PlanPart,
    PlanSummary,
    compare,
    is_withdrawn,
)
from threadkeep.compaction.strategies import session
from threadkeep.compaction.strategies.strategy import Goal
from threadkeep.threads import EntryKind, Pointer


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def entry(
    number: str,
    text: str,
    *ordinals: int,
    section: Section = Section.ACTIVE,
    speaker: Speaker = Speaker.USER,
    claim: Claim | None = None,
) -> LedgerEntry:
    sources = tuple(at(ordinal) for ordinal in ordinals)
    return LedgerEntry(id=number, section=section, text=text, sources=sources, speaker=speaker, born=1, claim=claim)


def computed(number: str, text: str, ordinal: int, *, section: Section = Section.EVIDENCE) -> LedgerEntry:
    return entry(number, text, ordinal, section=section, speaker=Speaker.COMPUTED)


def compared(before: list[LedgerEntry], after: list[LedgerEntry]) -> Comparison:
    return compare(Ledger(entries=tuple(before)), Ledger(entries=tuple(after)))


PORT = entry("1", "Use port 8080.", 3)
RULE = entry("2", "Never push to main.", 4)
LATER = Claim(text="Use port 9090, not 8080.", source=at(9))


def test_from_nothing_everything_is_added() -> None:
    """The first checkpoint adds all it holds."""
    assert compared([], [PORT, RULE]) == Comparison(added=(PORT, RULE))


def test_what_stays_is_only_counted() -> None:
    """Being a compaction older changes nothing about an entry."""
    assert compare(Ledger(entries=(PORT, RULE), age=1), Ledger(entries=(PORT, RULE), age=2)) == Comparison(unchanged=2)


def test_a_replaced_entry_is_retired_with_what_replaced_it() -> None:
    """It is no longer among the active ones, and carries the later words."""
    aside = replace(PORT, section=Section.INACTIVE, claim=LATER)
    assert compared([PORT, RULE], [aside, RULE]) == Comparison(retired=(aside,), unchanged=1)
    assert not is_withdrawn(aside)


def test_what_was_said_and_replaced_in_between_is_retired_not_added() -> None:
    """An entry that was never seen active does not look as if it held."""
    aside = replace(PORT, section=Section.INACTIVE, claim=LATER)
    assert compared([], [aside]) == Comparison(retired=(aside,))


def test_what_was_retired_before_is_unchanged() -> None:
    """An old correction is told once."""
    aside = replace(PORT, section=Section.INACTIVE, claim=LATER)
    assert compared([aside], [aside]) == Comparison(unchanged=1)


def test_an_entry_told_again_is_changed() -> None:
    """Another source stands behind it."""
    again = replace(PORT, sources=(at(3), at(12)))
    assert compared([PORT], [again]) == Comparison(changed=(Change(before=PORT, after=again),))


@pytest.mark.parametrize("new", [replace(PORT, section=Section.OBJECTIVE), replace(PORT, pinned=True)])
def test_another_section_or_pin_is_a_change(new: LedgerEntry) -> None:
    """The words are the same, what they are worth is not."""
    assert compared([PORT], [new]) == Comparison(changed=(Change(before=PORT, after=new),))


def test_a_model_s_entry_written_anew_is_changed() -> None:
    """It keeps its number; words and sources are new."""
    old = entry("7", "Tests run in 4 s.", 5, speaker=Speaker.MODEL)
    new = entry("7", "Tests run in 3 s.", 20, speaker=Speaker.MODEL)
    assert compared([old], [new]) == Comparison(changed=(Change(before=old, after=new),))


def test_one_number_on_two_lines_names_two_things() -> None:
    """After an undo the same number may go to other words of a user: one is gone, the other new."""
    one, other = entry("5", "Use tabs.", 30), entry("5", "Write in German.", 44)
    assert compared([one], [other]) == Comparison(added=(other,), gone=(one,))


def test_one_thing_under_two_numbers_is_one_thing() -> None:
    """The same words from the same place are the same entry, however they are numbered."""
    assert compared([entry("5", "Use tabs.", 30)], [entry("6", "Use tabs.", 30)]) == Comparison(unchanged=1)


def test_computed_lines_are_known_by_their_text() -> None:
    """Another number and a newer record are no change; another text is another line."""
    before = [computed("e1", "changed a.py", 5), computed("e2", "changed b.py", 6)]
    after = [computed("e1", "changed b.py", 19), computed("e2", "changed c.py", 20)]
    assert compared(before, after) == Comparison(added=(after[1],), gone=(before[0],), unchanged=1)
    one, other = (entry(name, "It is lock_a.", place, speaker=Speaker.AGENT) for name, place in (("f1", 5), ("f2", 19)))
    assert compared([one], [other]) == Comparison(unchanged=1)


def test_the_one_last_error_of_a_handoff_changes() -> None:
    """A label that stands once on both sides names one thing with new words."""
    before = computed("h1", "last error: make: it burns", 5, section=Section.HANDOFF)
    after = computed("h2", "last error: pytest: 1 failed", 9, section=Section.HANDOFF)
    assert compared([before], [after]) == Comparison(changed=(Change(before=before, after=after),))


def test_several_lines_of_one_label_are_several_things() -> None:
    """Which open call or turn became which cannot be known, so none is said to have changed."""
    for label in ("open call", "asked", "todo"):
        before = computed("h1", f"{label}: make a", 5, section=Section.HANDOFF)
        after = computed("h8", f"{label}: make b", 8, section=Section.HANDOFF)
        assert compared([before], [after]) == Comparison(added=(after,), gone=(before,))


def test_what_gave_way_to_nothing_is_withdrawn() -> None:
    """A draft that names no successor leaves one word, and that word is no successor."""
    word = replace(PORT, section=Section.INACTIVE, claim=Claim(text=WITHDRAWN, source=at(9)))
    assert is_withdrawn(word)
    assert is_withdrawn(replace(PORT, section=Section.INACTIVE))
    assert session.WITHDRAWN == WITHDRAWN


ENTRIES = st.builds(
    entry,
    st.sampled_from("123"),
    st.sampled_from(["last error: a", "last error: b", "Use tabs."]),
    st.integers(1, 3),
    section=st.sampled_from(Section),
    speaker=st.sampled_from(Speaker),
    claim=st.none() | st.just(LATER),
)


@given(st.lists(ENTRIES, max_size=8), st.lists(ENTRIES, max_size=8))
def test_every_entry_has_one_fate(before: list[LedgerEntry], after: list[LedgerEntry]) -> None:
    """The groups make up the later ledger; what was paired and what is gone make up the earlier; a ledger is like itself."""
    found = compared(before, after)
    new = [*found.added, *(change.after for change in found.changed), *found.retired]
    assert len(new) + found.unchanged == len(after)
    assert all(each in after for each in new)
    assert all(each in before for each in (*found.gone, *(change.before for change in found.changed)))
    assert len(found.gone) <= len(before)
    assert compared(after, after) == Comparison(unchanged=len(after))


def planned(rollout: Rollout, *, target: str | None = None) -> Outcome:
    outcome = compact(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip, goal=Goal(target=target))
    rollout.checkpoint, rollout.compacted_at = outcome.checkpoint, rollout.tip.next - 1
    return outcome


def parts(plan: PlanSummary) -> list[PlanPart]:
    return [plan.replaced, plan.quoted, plan.context, plan.request, plan.frontier, plan.stubbed, plan.state]


def test_every_token_of_a_plan_has_one_part() -> None:
    """Before and after, over several compactions, the parts add up to the window."""
    rollout = Rollout([environment("/src"), *turns(1, 20, words=400)])
    for number in range(3):
        rollout.add(turns(20 * number + 21, 20 * number + 40, words=400))
        outcome = planned(rollout)
        assert sum(part.tokens_before for part in parts(outcome.plan)) == outcome.tokens_before
        assert sum(part.tokens_after for part in parts(outcome.plan)) == outcome.tokens_after


def test_what_is_kept_is_not_among_what_is_replaced() -> None:
    """Host context in the middle, and the request that waits for its answer."""
    items = [*turns(1, 4), environment("/src"), *turns(5, 9), said("Now do the last part, please.")]
    plan = planned(Rollout(items), target="1").plan
    assert [part.items for part in (plan.replaced, plan.context, plan.request, plan.frontier)] == [45, 1, 0, 1]


def test_outputs_that_become_a_line_are_counted_once() -> None:
    """What already is a line counts among what stays as it stands."""
    rollout = Rollout(turns(1, 20, words=120))
    first = planned(rollout).plan
    lines = {entry.source.ordinal for entry in rollout.history().entries if entry.kind is EntryKind.STUB and entry.source}
    assert first.stubbed.items == len(lines) > 0
    assert first.stubbed.tokens_after < first.stubbed.tokens_before
    rollout.add(turns(21, 26, words=120))
    second = planned(rollout).plan
    still = {entry.source.ordinal for entry in rollout.history().entries if entry.kind is EntryKind.STUB and entry.source}
    assert second.stubbed.items == len(still - lines) < len(still)
