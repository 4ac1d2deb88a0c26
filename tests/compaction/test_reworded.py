"""Changes in other words than what they change: what was said is never left standing as if nothing had been said since."""

from __future__ import annotations

import pytest
from tests.compaction.reworded import AROUND, AT_HAND, CORRECTED, WITHDRAWN

from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Add
from threadkeep.compaction.statements import statements
from threadkeep.thread import Pointer

HALF = len(AROUND) // 2
MOST_CONTESTED = 3


def heard(*messages: str) -> Ledger:
    """The ledger after these messages of one user, in order."""
    spoken = {Pointer("t", ordinal): message for ordinal, message in enumerate(messages, start=1)}
    told = [
        Add(section=Section.ACTIVE, text=text, source=source, speaker=Speaker.USER)
        for source, message in spoken.items()
        for text in statements(message)
    ]
    return merge(Ledger(), told, spoken=spoken)


def after(older: str, newer: str) -> Ledger:
    """The ledger of a session in which one thing was said early and changed late, among others that were not."""
    return heard(*AROUND[:HALF], older, *AROUND[HALF:], newer)


def stands_bare(entry: LedgerEntry, needle: str) -> bool:
    return entry.section in BINDING and needle not in (entry.claim.text if entry.claim else "")


def test_most_of_what_is_taken_back_in_other_words_stands_beside_it() -> None:
    """By kinds of values and families of words; where nothing tells, the message itself stays in view (`undecided`)."""
    bare = [older for older, newer, needle in WITHDRAWN if stands_bare(entry_of(after(older, newer), older), needle)]
    assert len(bare) <= len(WITHDRAWN) // 3, bare


def test_most_corrections_in_other_words_stand_beside_what_they_correct() -> None:
    """A date beside a date, an address beside an address, a wait beside a timeout."""
    bare = [older for older, newer, needle in CORRECTED if stands_bare(entry_of(after(older, newer), older), needle)]
    assert len(bare) <= len(CORRECTED) // 3, bare


@pytest.mark.parametrize(("older", "newer", "needle"), [*WITHDRAWN, *CORRECTED])
def test_nothing_gives_way_to_a_change_in_other_words(older: str, newer: str, needle: str) -> None:
    """Kinship proposes and never decides: what was said stays in force, a few statements at most with the change beside them."""
    ledger = after(older, newer)
    assert [entry.text for entry in ledger.entries if entry.section not in BINDING] == []
    assert sum(entry.claim is not None for entry in ledger.entries) <= MOST_CONTESTED


@pytest.mark.parametrize("order", AT_HAND)
def test_an_order_about_the_work_at_hand_contests_nearly_nothing(order: str) -> None:
    """Stopping a server is no change of mind about one."""
    ledger = heard(*AROUND, order)
    assert [entry.text for entry in ledger.entries if entry.section not in BINDING] == []
    assert sum(entry.claim is not None for entry in ledger.entries) <= 1


def entry_of(ledger: Ledger, text: str) -> LedgerEntry:
    return next(entry for entry in ledger.entries if entry.text == text)
