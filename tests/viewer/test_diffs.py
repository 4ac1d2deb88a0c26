"""Groups of what a compaction did to the ledger, and the words that changed."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from threadkeep.compaction import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.ledger import Claim
from threadkeep.compaction.report import WITHDRAWN, compare
from threadkeep.threads import Pointer
from threadkeep.viewer.compaction_diff import Piece, group_changes, mark_words


def entry(name: str, text: str, **more: object) -> LedgerEntry:
    known = {"section": Section.ACTIVE, "speaker": Speaker.USER, "sources": (Pointer("t", 1),), "born": 1}
    return LedgerEntry(id=name, text=text, **{**known, **more})  # type: ignore[arg-type]


def test_every_fate_has_its_group_and_what_left_stands_first() -> None:
    """Withdrawn, superseded, updated, added, and what is only computed anew."""
    port, rule, plan, kept = (
        entry("m1", "Port 1."),
        entry("m2", "No tabs."),
        entry("m4", "Step one.", speaker=Speaker.MODEL),
        entry("m5", "Stays."),
    )
    computed = entry("m7", "file: a.py", speaker=Speaker.COMPUTED, section=Section.EVIDENCE)
    later = Pointer("t", 9)
    after = (
        replace(port, section=Section.INACTIVE, claim=Claim(text="Port 2.", source=later)),
        replace(rule, section=Section.INACTIVE, claim=Claim(text=WITHDRAWN, source=later)),
        replace(plan, text="Step two.", pinned=True),
        kept,
        entry("m8", "New."),
    )
    groups = group_changes(compare(Ledger(entries=(port, rule, plan, kept, computed)), Ledger(entries=after)))
    assert [(group.name, [shown.entry.id for shown in group.entries]) for group in groups] == [
        ("withdrawn", ["m2"]),
        ("superseded", ["m1"]),
        ("updated", ["m4"]),
        ("added", ["m8"]),
        ("anew", ["m7"]),
    ]
    (updated,) = next(group for group in groups if group.name == "updated").entries
    assert updated.pieces == [
        Piece(kind="same", text="Step "),
        Piece(kind="out", text="one"),
        Piece(kind="in", text="two"),
        Piece(kind="same", text="."),
    ]
    assert updated.remarks == ("pinned since",)


@given(st.text(), st.text())
def test_marked_words_hold_both_texts(before: str, after: str) -> None:
    """Without what came it is the text before, without what left the text after."""
    pieces = mark_words(before, after)
    assert "".join(piece.text for piece in pieces if piece.kind != "in") == before
    assert "".join(piece.text for piece in pieces if piece.kind != "out") == after


def test_long_texts_are_not_marked_word_by_word() -> None:
    """They stand one under the other."""
    before, after = "a " * 900, "b " * 900
    assert mark_words(before, after) == [Piece(kind="out", text=before), Piece(kind="in", text=after)]
