"""What a user said and a later message speaks against is shown as contested, with the claim beside it."""

from __future__ import annotations

import pytest

from threadkeep.compaction.ledger import Brevity, Claim, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.state_text import render_state
from threadkeep.thread import Pointer

RULE = LedgerEntry(
    id="1",
    section=Section.ACTIVE,
    text="The port is 8080.",
    sources=(Pointer("t", 1),),
    speaker=Speaker.USER,
    born=0,
    claim=Claim(text="Ports again: use 9090.", source=Pointer("t", 9)),
)


@pytest.mark.parametrize(
    ("brevity", "line"),
    [
        (None, "- [1] earlier, contested: The port is 8080. (#1) — latest #9: Ports again: use 9090."),
        (Brevity(), "- earlier, contested: The port is 8080. #1 — latest #9: Ports again: use 9090."),
    ],
    ids=["as a model that drafts is shown it", "as the window tells it"],
)
def test_a_contested_entry_is_told_as_contested_with_the_claim_beside_it(brevity: Brevity | None, line: str) -> None:
    """The older words, that they are contested, by which record, and its words, on one line; in both forms of the state."""
    assert line in render_state(Ledger(entries=(RULE,), next_number=2, brevity=brevity)).splitlines()
