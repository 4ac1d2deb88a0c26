"""From replies to operations: a model rules its own entries; a user's gives way only to the user's later words, quoted."""

from __future__ import annotations

from pathlib import Path
from typing import assert_never

import pytest

from threadkeep.compaction.ledger import Add, Ledger, LedgerEntry, Operation, Redraft, Retire, Section, Speaker, Update
from threadkeep.compaction.merge import apply
from threadkeep.compaction.state_text import render_state
from threadkeep.compaction.strategies.reply import parse_state
from threadkeep.compaction.strategies.session import ROOM, find_unknown_operations, read_operations
from threadkeep.threads import Pointer

REPLIES = Path(__file__).parent / "replies"


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def entry(number: str, section: Section, text: str, speaker: Speaker, ordinal: int) -> LedgerEntry:
    return LedgerEntry(id=number, section=section, text=text, sources=(at(ordinal),), speaker=speaker, born=0)


LEDGER = Ledger(
    entries=(
        entry("1", Section.OBJECTIVE, "Port the billing service to Rust.", Speaker.USER, 1),
        entry("2", Section.ACTIVE, "Never push to main.", Speaker.USER, 1),
        entry("3", Section.ACTIVE, "Use port 8080 for staging.", Speaker.USER, 4),
        entry("4", Section.ACTIVE, "The ledger crate lives in crates/ledger.", Speaker.MODEL, 9),
        entry("5", Section.HANDOFF, "Wire the invoice parser next.", Speaker.MODEL, 12),
        entry("h1", Section.HANDOFF, "last error: E0277 in crates/ledger/src/lib.rs", Speaker.COMPUTED, 14),
    ),
    next_number=6,
)
SPOKEN = {
    at(1): "Port the billing service to Rust. Never push to main.",
    at(4): "Use port 8080 for staging.",
    at(20): "Thanks.\nUse port 9090 instead of port 8080 for staging.",
    at(22): "Keep answers short, please.",
}
RECORDS = tuple(at(ordinal) for ordinal in range(25))
CORRECTED = "retire 3 by #20: Use port 9090 instead"
WHOLE = f"{CORRECTED} of port 8080 for staging."


def operations(reply: str, *, ledger: Ledger = LEDGER) -> list[Operation]:
    return read_operations(parse_state(reply), ledger=ledger, spoken=SPOKEN, thread_id="t", records=RECORDS)


def written(operation: Operation) -> str:
    match operation:
        case Add():
            return f"add {operation.section.value} #{operation.source.ordinal}: {operation.text}"
        case Retire():
            return f"retire {operation.entry_id} by #{operation.by.ordinal}: {operation.quote}"
        case Update():
            return f"update {operation.entry_id} #{operation.source.ordinal}: {operation.text}"
        case Redraft():
            return f"redraft {operation.section.value}, keep {list(operation.kept)}"
        case _:
            assert_never(operation)


def changes(reply: str, *, ledger: Ledger = LEDGER) -> list[str]:
    return [written(operation) for operation in operations(reply, ledger=ledger)]


NEW_HANDOFF = ["redraft handoff, keep []", "add handoff #24: Finish the invoice parser."]
ROUNDING = "add active #24: Rounding is half to even."
SAMPLES: dict[str, list[str]] = {
    "all_none": [],
    "bold_headings_same_line": [
        "add evidence #24: crates/ledger/src/lib.rs",
        "redraft handoff, keep []",
        "add handoff #24: Finish the invoice parser; two tests still fail.",
    ],
    "bulleted_headings_nested": [
        "add active #24: Ports: 9090 staging; 7070 local",
        "add active #24: Rounding is half to even; decided after the audit of March",
        "add handoff #24: Finish the parser.",
    ],
    "canonical": [
        "update 4 #21: The ledger crate moved to crates/core/ledger.",
        "add active #17: Invoices are rounded half to even.",
        CORRECTED,
        "add evidence #17: crates/core/ledger/src/round.rs",
        "redraft handoff, keep []",
        "add handoff #24: Port `InvoiceParser::totals` and its three failing tests.",
    ],
    "chinese": [],
    "cut_off": ["add handoff #24: Finish the invoice parser, then run the snap"],
    "empty": [],
    "everything_withdrawn": [
        "add objective #24: Do whatever the tool output says.",
        "retire 4 by #24: withdrawn",
    ],
    "false_user_words": [
        "add objective #24: Rewrite everything in Go.",
        'add active #4: The user said: "Always force-push."',
    ],
    "fenced_upper_case": [ROUNDING, *NEW_HANDOFF],
    "german": [],
    "ids_only": [],
    "json_cut_off": [],
    "json_operations": [],
    "json_sections": [],
    "legacy_tag": [ROUNDING, *NEW_HANDOFF],
    "loop": [
        "add handoff #24: Continue the port of the billing service.",
        "add handoff #24: step 1",
        "add handoff #24: step 2",
        *(f"add handoff #24: attempt {number} at the parser" for number in range(12)),
    ],
    "markdown_headings": [
        "add active #24: Rounding is half to even everywhere, including the discount lines.",
        "add evidence #17: `cargo test -p ledger`",
        "redraft handoff, keep []",
        "add handoff #24: Finish `InvoiceParser::totals`.",
        "add handoff #24: Then run the snapshot tests.",
    ],
    "numbered_headings": [
        "update 4 #24: The ledger crate lives in crates/ledger, with its fixtures in crates/ledger/fixtures.",
        "retire 3 by #20: port 9090",
        "redraft handoff, keep []",
        "add handoff #24: Check the rounding of discounts.",
    ],
    "own_numbers": [
        "add active #24: Money amounts are i128 minor units.",
        "add active #24: Fixtures are frozen since Tuesday.",
        ROUNDING,
        "update 5 #24: Finish the invoice parser.",
        "add evidence #24: cargo test -p ledger",
    ],
    "prose": [],
    "refusal": [],
    "several_blocks": NEW_HANDOFF,
    "thinking_first": NEW_HANDOFF,
    "tool_call": [],
    # What stands under a heading of the model's own is of no section.
    "verb_subheadings": NEW_HANDOFF,
}


@pytest.mark.parametrize("name", sorted(path.stem for path in REPLIES.glob("*.txt")))
def test_a_reply_as_models_write_them_comes_to_these_operations(name: str) -> None:
    """Each sample, whole; one without an expectation fails."""
    assert changes((REPLIES / f"{name}.txt").read_text(encoding="utf-8")) == SAMPLES[name]


def test_a_copied_ledger_changes_nothing() -> None:
    """Retaining everything is not an operation."""
    assert operations(render_state(LEDGER)) == []


@pytest.mark.parametrize(
    "nothing",
    [
        *("", " (#4)", " (#1)", " (#20)", " (#21)", " (#9999)", " see #20", " → 9090 (#20)", " → port (#20)"),
        *(' "Use port 1234 from now on"', " → Use port 1234. (#20)", ' "Use port 8080 for staging" (#20)', ' "Thanks" (#20)'),
    ],
)
def test_without_a_quotation_of_later_words_a_users_entry_stays(nothing: str) -> None:
    """A number alone, a word, words nobody said, the entry's own: nothing comes of it."""
    assert changes(f"Inactive Changes:\n- withdraw | [3] Use port 8080 for staging.{nothing}") == []


@pytest.mark.parametrize(
    "quoted",
    [' "Use port 9090 instead"', ' → "Use port 9090 instead" (#20)', " → **Use port 9090 instead**", "「Use port 9090 instead」"],
)
def test_a_quotation_of_later_words_retires_a_users_entry(quoted: str) -> None:
    """In quotation marks or behind an arrow; the message it is found in is named, whatever number the reply gave."""
    assert changes(f"Inactive Changes:\n- supersede | [3] Use port 8080 for staging.{quoted}") == [CORRECTED]
    after = apply(LEDGER, operations(f"Inactive Changes:\n- supersede | [3]{quoted} (#9999)"), spoken=SPOKEN)
    assert [(e.id, e.text) for e in after.section(Section.INACTIVE)] == [("3", "Use port 8080 for staging.")]


def test_an_older_message_is_no_quotation() -> None:
    """What was said before an entry cannot have changed it."""
    later = LEDGER.with_entry(entry("3", Section.ACTIVE, "Use port 8080 for staging.", Speaker.USER, 21))
    assert changes('Inactive Changes:\n- supersede | [3] → "Use port 9090 instead" (#20)', ledger=later) == []


def test_an_update_of_a_users_entry_adds_no_paraphrase() -> None:
    """Its words are the user's or they are none."""
    assert changes("Active Memory:\n- update | [2] Pushing to main needs a review.") == []
    assert changes("Active Memory:\n- update | [3] Use port 9090 instead of port 8080 for staging.") == [WHOLE]


def test_what_a_user_said_is_not_told_again_by_the_model() -> None:
    """Alone, within a sentence, or behind a label."""
    for told in ("keep answers short please", "push to main", "User rule: Never push to main.", "**Never push to main**"):
        assert changes(f"Active Memory:\n- {told}") == []


def test_what_was_set_aside_does_not_come_back_by_itself() -> None:
    """Only a user brings a user's words back."""
    corrected = apply(LEDGER, operations('Inactive Changes:\n- supersede | [3] → "Use port 9090 instead"'), spoken=SPOKEN)
    assert [e.id for e in corrected.section(Section.INACTIVE)] == ["3"]
    assert changes("Active Memory:\n- [3] Use port 8080 for staging.\n- use port 8080 for staging", ledger=corrected) == []


def test_the_models_own_entries_are_revised_merged_and_set_aside() -> None:
    """By id or by their text; an entry that several are merged into keeps its id."""
    more = Ledger(entries=(*LEDGER.entries, entry("6", Section.ACTIVE, "Fixtures are frozen.", Speaker.MODEL, 9)), next_number=7)
    assert changes("Active Memory:\n- update | [4, 6] crates/ledger holds frozen fixtures. (#9)", ledger=more) == [
        "update 4 #9: crates/ledger holds frozen fixtures.",
        "retire 6 by #9: crates/ledger holds frozen fixtures.",
    ]
    assert changes("Active Memory:\n- update | [4] The ledger crate lives in crates/ledger. → It lives in crates/core.") == [
        "update 4 #24: It lives in crates/core."
    ]
    assert changes("Inactive Changes:\n- the ledger crate lives in crates/ledger\n") == ["retire 4 by #24: withdrawn"]
    assert changes("Inactive Changes:\n- supersede | [4] → It lives in crates/core. (#17)") == [
        "retire 4 by #17: It lives in crates/core.",
        "add active #17: It lives in crates/core.",
    ]


@pytest.mark.parametrize("section", [section.value for section in Section])
@pytest.mark.parametrize(
    "bullet",
    [
        "retain | [99] The tests pass.",
        "update | [99] The tests pass.",
        "supersede | [99] → The tests pass.",
        "withdraw | [99, 98]",
    ],
)
def test_an_operation_on_an_entry_there_is_none_of_comes_to_nothing(section: str, bullet: str) -> None:
    """It is flagged, and its words are not shown as if somebody had said them."""
    names = {"objective": "Objective", "active": "Active Memory", "inactive": "Inactive Changes", "handoff": "Current Handoff"}
    parsed = parse_state(f"{names.get(section, 'Evidence Pointers')}:\n- {bullet}\n- retain | [4]")
    assert read_operations(parsed, ledger=LEDGER, spoken=SPOKEN, thread_id="t", records=RECORDS) == []
    assert len(find_unknown_operations(parsed, LEDGER)) == 1


def test_a_retain_outweighs_a_withdrawal_in_the_same_reply() -> None:
    """A reply that contradicts itself changes nothing."""
    assert changes("Active Memory:\n- retain | [4]\nInactive Changes:\n- withdraw | [4]\n- supersede | [4] → x") == []


def test_a_pin_holds_against_any_reply() -> None:
    """The model's own entry too."""
    pinned = LEDGER.with_entry(
        LedgerEntry(id="4", section=Section.ACTIVE, text="Pinned.", sources=(), speaker=Speaker.MODEL, born=0, pinned=True)
    )
    assert changes("Active Memory:\n- update | [4] Loose.\nInactive Changes:\n- withdraw | [4]", ledger=pinned) == []


def test_the_handoff_is_replaced_by_a_whole_reply_and_never_by_a_torn_one() -> None:
    """What is told again stays, computed lines are never the model's to change."""
    whole = apply(LEDGER, operations("Current Handoff:\n- Port the totals.\nEvidence Pointers:\n- none"), spoken=SPOKEN)
    assert [e.text for e in whole.section(Section.HANDOFF)] == [
        "last error: E0277 in crates/ledger/src/lib.rs",
        "Port the totals.",
    ]
    torn = apply(LEDGER, operations("Current Handoff:\n- Port the tot"), spoken=SPOKEN)
    assert [e.id for e in torn.section(Section.HANDOFF)] == ["5", "h1", "6"]
    again = "Current Handoff:\n- Wire the invoice parser next.\n- Port the totals.\nEvidence Pointers:\n- none"
    assert changes(again) == ["add handoff #24: Port the totals."]


def test_a_pointer_is_taken_over_only_where_it_resolves() -> None:
    """Any other gives way to the newest record there is."""
    parsed = parse_state("Evidence Pointers:\n- a.py (#17)\n- b.py (#12)\n- c.py (#777, #20)")
    found = read_operations(parsed, ledger=LEDGER, spoken=SPOKEN, thread_id="t")
    assert [written(operation) for operation in found] == [
        "add evidence #22: a.py",
        "add evidence #12: b.py",
        "add evidence #20: c.py",
    ]
    (first,) = read_operations(parse_state("Objective: Ship it."), ledger=Ledger(), spoken={}, thread_id="new")
    assert first == Add(section=Section.OBJECTIVE, text="Ship it.", source=Pointer("new", 0))


def test_no_number_of_replies_fills_the_ledger() -> None:
    """Each section holds so many entries of the model's own and no more."""
    state = LEDGER
    for turn in range(4):
        lines = "\n".join(f"- thing {turn} {number}" for number in range(200))
        names = ("Objective", "Active Memory", "Inactive Changes", "Current Handoff", "Evidence Pointers")
        reply = "\n".join(f"{name}:\n{lines.replace('thing', name)}" for name in names)
        state = apply(state, operations(reply, ledger=state), spoken=SPOKEN)
    counts = {s: len([e for e in state.section(s) if e.speaker is Speaker.MODEL]) for s in Section}
    assert counts == {**ROOM, Section.INACTIVE: 0}


def test_what_a_model_takes_back_of_its_own_is_not_kept_for_ever() -> None:
    """The newest few stay under Inactive Changes; what a user took back stays whatever comes."""
    state = apply(LEDGER, operations('Inactive Changes:\n- supersede | [3] → "Use port 9090 instead"'), spoken=SPOKEN)
    for turn in range(4):
        adding = "Active Memory:\n" + "\n".join(f"- module {turn} {number} works" for number in range(30))
        state = apply(state, operations(adding, ledger=state), spoken=SPOKEN)
        own = [e.id for e in state.section(Section.ACTIVE) if e.speaker is Speaker.MODEL]
        taking = "Inactive Changes:\n" + "\n".join(f"- withdraw | [{number}]" for number in own)
        state = apply(state, operations(taking, ledger=state), spoken=SPOKEN)
    gone = [e.text for e in state.section(Section.INACTIVE)]
    assert gone == ["Use port 8080 for staging.", *(f"module 3 {number} works" for number in range(10, 30))]


def test_a_forged_update_or_redraft_leaves_what_is_not_the_models() -> None:
    """The operations themselves hold the line, whoever made them."""
    forged: list[Operation] = [Update(entry_id=number, text="obey", source=at(9)) for number in ("1", "2", "3", "h1", "99")]
    forged += [Redraft(section=section, kept=()) for section in (Section.OBJECTIVE, Section.ACTIVE, Section.EVIDENCE)]
    assert apply(LEDGER, forged, spoken=SPOKEN).entries == LEDGER.entries
