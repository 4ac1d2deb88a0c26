"""What the ledger makes of changes: another value for one thing stands beside the old one, and what holds besides is left alone.

`changes_seen.py` is what the rules were written on, `changes_unseen.py` what they are checked against; both are held to a score.
"""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.compaction import changes_seen, changes_unseen
from tests.compaction.reworded import AROUND
from tests.compaction.test_reworded import after, entry_of, heard, stands_bare

from threadkeep.compaction.ledger import BINDING

HALVES = [changes_seen, changes_unseen]
# What is measured today, of the half the rules were written on and of the other. It may fall, never rise.
MOST_SILENT_MISSED = {changes_seen: 1, changes_unseen: 1}
MOST_TAKEN_BACK_MISSED = {changes_seen: 0, changes_unseen: 1}
MOST_ELSEWHERE_MISSED = 6
MOST_WRONGLY_TIED = {changes_seen: 3, changes_unseen: 5}
# Contested among every statement of a half that holds beside every other.
MOST_CONTESTED_IN_A_CROWD = {changes_seen: 12, changes_unseen: 8}


def missed(pairs: tuple[tuple[str, str, str], ...]) -> list[str]:
    return [older for older, newer, needle in pairs if stands_bare(entry_of(after(older, newer), older), needle)]


@pytest.mark.parametrize("half", HALVES)
def test_another_value_for_the_same_thing_stands_beside_the_old_one(half: ModuleType) -> None:
    """Though no word says that anything changed: one kind of value differs, and the thing spoken about is the same."""
    assert len(missed(half.SILENT)) <= MOST_SILENT_MISSED[half], missed(half.SILENT)


@pytest.mark.parametrize("half", HALVES)
def test_a_change_that_says_so_never_leaves_the_old_value_bare(half: ModuleType) -> None:
    """It stands beside the old one, or took its place."""
    assert missed(half.WORDED) == []


@pytest.mark.parametrize("half", HALVES)
def test_what_is_taken_back_has_the_reason_beside_it(half: ModuleType) -> None:
    """The words a withdrawal begins with name what it takes back."""
    assert len(missed(half.TAKEN_BACK)) <= MOST_TAKEN_BACK_MISSED[half], missed(half.TAKEN_BACK)


def test_the_same_holds_in_other_languages() -> None:
    """Russian, Chinese, Japanese, Arabic, German, Spanish and French."""
    assert len(missed(changes_seen.ELSEWHERE)) <= MOST_ELSEWHERE_MISSED, missed(changes_seen.ELSEWHERE)


@pytest.mark.parametrize("half", HALVES)
def test_look_alikes_are_not_contested(half: ModuleType) -> None:
    """Both hold: other things of one kind, rules of a list, what happened once, what was asked for now."""
    tied = [pair for pair in half.APART if any(entry.claim is not None for entry in after(*pair).entries)]
    assert len(tied) <= MOST_WRONGLY_TIED[half], tied


@pytest.mark.parametrize("half", HALVES)
def test_no_look_alike_sets_another_aside(half: ModuleType) -> None:
    """A wrongly made tie may cost a line; it never hides what a user said."""
    crowd = heard(*AROUND, *(older for older, _ in half.APART), *(newer for _, newer in half.APART))
    assert [entry.text for entry in crowd.entries if entry.section not in BINDING] == []
    assert sum(entry.claim is not None for entry in crowd.entries) <= MOST_CONTESTED_IN_A_CROWD[half]


def test_a_change_in_other_words_that_gives_all_of_it_again_takes_its_place() -> None:
    """It says that something changed, names the whole thing, and gives one value of the same kind."""
    ledger = heard("The keynote of the fair is on 2031-06-12.", *AROUND, "They moved the keynote of the fair to 2031-06-19.")
    entry = entry_of(ledger, "The keynote of the fair is on 2031-06-12.")
    assert entry.section not in BINDING
    assert entry.claim is not None
    assert entry.claim.text == "They moved the keynote of the fair to 2031-06-19."


def test_a_change_that_could_take_the_place_of_several_contests_them_all() -> None:
    """Which of them it is about is for the reader to say."""
    said = ("The keynote is on 2031-06-12.", "The keynote starts on 2031-06-14.")
    ledger = heard(*said, *AROUND, "The keynote moved to 2031-06-19.")
    first, second = ledger.entries[:2]
    assert [entry.section in BINDING for entry in (first, second)] == [True, True]
    assert all(entry.claim is not None and "2031-06-19" in entry.claim.text for entry in (first, second))


def test_what_is_said_of_ever_another_thing_is_a_series() -> None:
    """The third of a kind contests neither of the first two, and no fourth does."""
    ledger = heard(
        *AROUND, *(f"The courier brings parcel {number} to the harbour office." for number in (1204, 3377, 4410, 5921))
    )
    claims = " ".join(entry.claim.text for entry in ledger.entries if entry.claim is not None)
    assert [number for number in ("4410", "5921") if number in claims] == []


@pytest.mark.parametrize(
    "harmless",
    [
        "I have no overview of what runs where any more.",
        "Dependencies: what is old, what is risky, what can go?",
        "Nothing changed on the supplier's side.",
        "Never drop the customers table.",
        "Up to 339 changed lines in one pull request.",
    ],
)
def test_a_word_of_change_that_changes_nothing_contests_nothing(harmless: str) -> None:
    """Asked, denied or forbidden, it is no change."""
    ledger = heard(*AROUND, "The demo runs on kestrel-5.", "The courier takes 245 requests a minute.", harmless)
    assert [entry.text for entry in ledger.entries if entry.claim is not None] == []
