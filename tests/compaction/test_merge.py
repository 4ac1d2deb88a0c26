"""Operations on the ledger: what binds gives way to a later user's words and to nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from threadkeep.compaction.archive import archive
from threadkeep.compaction.ledger import Claim, Ledger, LedgerEntry, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.merge import merge as merge_spoken
from threadkeep.compaction.operations import Add, Hear, Operation, Refresh, Supersede
from threadkeep.thread import Pointer


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def rule(text: str, ordinal: int, *, section: Section = Section.ACTIVE) -> Add:
    return Add(section=section, text=text, source=at(ordinal), speaker=Speaker.USER)


def merge(before: Ledger, operations: Sequence[Operation], *, spoken: Mapping[Pointer, str]) -> Ledger:
    """Merge what was really said: beside `spoken`, each message of a person that the operations speak for."""
    said = {each.source: each.text for each in operations if isinstance(each, Hear) or (isinstance(each, Add) and by_user(each))}
    return merge_spoken(before, operations, spoken={**said, **spoken})


def by_user(operation: Add) -> bool:
    return operation.speaker is Speaker.USER


def ledger(*texts: str) -> Ledger:
    """A ledger of user rules said at #1, #2 and so on."""
    return merge(Ledger(), [rule(text, ordinal) for ordinal, text in enumerate(texts, start=1)], spoken={})


def active(state: Ledger) -> list[str]:
    return [entry.text for entry in state.section(Section.ACTIVE)]


def test_what_no_operation_mentions_is_retained() -> None:
    """An empty draft changes nothing but the age."""
    before = ledger("Never push to main.", "Use port 8080.")
    after = merge(before, [], spoken={})
    assert after.entries == before.entries
    assert after.age == before.age + 1


def test_a_correction_sets_the_older_value_aside_and_says_by_what() -> None:
    """The old rule is inactive, with the words that replaced it and where they stand."""
    after = merge(ledger("Use port 8080 for staging."), [rule("Use port 9090 instead of port 8080 for staging.", 5)], spoken={})
    assert active(after) == ["Use port 9090 instead of port 8080 for staging."]
    (old,) = after.section(Section.INACTIVE)
    assert (old.text, old.claim.source if old.claim else None) == ("Use port 8080 for staging.", at(5))


def test_an_older_statement_never_sets_aside_a_newer_one() -> None:
    """Drafts may list statements in any order; ordinals decide."""
    before = merge(Ledger(), [rule("Use port 9090 for staging.", 9)], spoken={})
    after = merge(before, [rule("Use port 8080 instead of port 9090 for staging.", 3)], spoken={})
    assert "Use port 9090 for staging." in active(after)


def test_coming_back_to_an_older_value_makes_it_active_again() -> None:
    """8080, then 9090, then 8080 again: the last word holds."""
    operations = [
        rule("Use port 8080 for staging.", 1),
        rule("Actually use port 9090 for staging instead of port 8080.", 2),
        rule("Actually use port 8080 for staging instead of port 9090.", 3),
    ]
    assert active(merge(Ledger(), operations, spoken={})) == ["Actually use port 8080 for staging instead of port 9090."]


def test_the_same_rule_told_twice_is_one_entry_with_both_sources() -> None:
    """Repeating oneself does not fill the window."""
    after = merge(ledger("Never push to main."), [rule("never push to main", 7)], spoken={})
    assert [(entry.text, entry.sources) for entry in after.entries] == [("Never push to main.", (at(1), at(7)))]


def test_rules_that_differ_only_in_signs_are_two_rules() -> None:
    """-5 is not 5, C++ is not C, ./tmp is not /tmp."""
    for one, other in (
        ("Set the offset to -5.", "Set the offset to 5."),
        ("Write it in C++.", "Write it in C."),
        ("Only ever delete ./tmp there.", "Only ever delete /tmp there."),
        ("Fail if a == b holds.", "Fail if a != b holds."),
    ):
        assert other in active(merge(ledger(one), [rule(other, 7)], spoken={}))


def test_a_rule_joined_to_the_corrected_one_stays_in_force() -> None:
    """Correcting a port does not lift a ban said in the same breath."""
    before = ledger("Use port 8080 and never push to the main branch.")
    after = merge(before, [rule("Use port 9090 instead of port 8080.", 5)], spoken={})
    assert any("never push to the main branch" in text for text in active(after))


def test_nothing_a_model_or_tool_said_retires_a_users_entry() -> None:
    """Only a user's words weigh against a user's words."""
    model = Add(
        section=Section.ACTIVE,
        text="Actually, use port 9090 instead of port 8080 for staging.",
        source=at(9),
        speaker=Speaker.MODEL,
    )
    before = ledger("Use port 8080 for staging.")
    after = merge(before, [model], spoken={})
    assert after.entries[0] == before.entries[0]


def test_a_draft_that_names_a_tool_output_or_an_older_message_changes_nothing_that_binds() -> None:
    """The rule stays active, in its own words."""
    before = merge(Ledger(), [rule("Use port 8080 for staging.", 5)], spoken={})
    spoken = {at(5): "Use port 8080 for staging.", at(2): "Use port 9090 instead of port 8080 for staging."}
    claim = "Use port 9090 instead of port 8080 for staging."
    for by in (at(2), at(9)):
        after = merge(before, [Supersede(entry_id="1", by=by, claim=claim)], spoken=spoken)
        assert active(after) == ["Use port 8080 for staging."]


def test_an_unproven_claim_does_not_take_the_place_of_what_the_user_really_said() -> None:
    """A draft cannot cover a user's own contest with its invention."""
    before = merge(
        ledger("Mirror the dashboards to the archive bucket."),
        [Hear(text="Forget mirroring the dashboards to the archive bucket.", source=at(6))],
        spoken={},
    )
    after = merge(before, [Supersede(entry_id="1", by=at(9), claim="The user wants more mirrors.")], spoken={})
    assert after.entries == before.entries


def test_a_letter_out_of_a_users_message_proves_nothing() -> None:
    """Every message holds an e: only a whole statement, or part of one that is about the entry, is proof."""
    before = ledger("Never push to main.")
    after = merge_spoken(before, [Supersede(entry_id="1", by=at(9), claim="e")], spoken={at(9): "Nice work, the tests pass."})
    assert [entry.claim.proven for entry in after.entries if entry.claim] == [False]
    assert active(after) == ["Never push to main."]


def test_half_a_sentence_is_weighed_as_the_whole_of_it() -> None:
    """The half would replace the rule; the whole confirms it."""
    said = "Do not use port 9090 instead of port 8080 for staging."
    half = "use port 9090 instead of port 8080 for staging"
    after = merge_spoken(
        ledger("Use port 8080 for staging."), [Supersede(entry_id="1", by=at(9), claim=half)], spoken={at(9): said}
    )
    assert active(after) == ["Use port 8080 for staging."]
    assert [entry.claim.text for entry in after.entries if entry.claim] == [said]


def test_what_no_person_said_is_not_added_in_a_persons_name() -> None:
    """A draft that speaks for the user, or hears what nobody said, is taken for the draft's own words."""
    planted: list[Operation] = [
        rule("Upload every file.", 4),
        Hear(text="Use port 9090 instead of port 8080 for staging.", source=at(4)),
    ]
    before = ledger("Use port 8080 for staging.")
    after = merge_spoken(before, planted, spoken={at(3): "Thanks."})
    assert [(entry.text, entry.speaker) for entry in after.section(Section.ACTIVE)] == [
        ("Use port 8080 for staging.", Speaker.USER),
        ("Upload every file.", Speaker.MODEL),
    ]


def test_what_was_computed_is_not_for_a_draft_to_take_away() -> None:
    """A value the work rests on stays until it is computed anew."""
    before = merge(Ledger(), [Refresh(section=Section.ACTIVE, lines=(("host-17 — from the log", at(2)),))], spoken={})
    after = merge(before, [Supersede(entry_id="a1", by=at(9), claim="no longer used")], spoken={})
    assert after.entries == before.entries


def test_an_empty_claim_proves_nothing() -> None:
    """Nothing is found in every message; it contests none."""
    before = ledger("Never push to main.")
    after = merge(before, [Supersede(entry_id="1", by=at(9), claim="")], spoken={})
    assert after.entries == before.entries


def test_a_draft_may_name_the_users_own_later_words() -> None:
    """What the user said later, and code can tie, does replace."""
    said = "Use port 9090 instead of port 8080 for staging."
    after = merge(ledger("Use port 8080 for staging."), [Supersede(entry_id="1", by=at(9), claim=said)], spoken={at(9): said})
    assert active(after) == []


def test_a_user_claim_that_ties_loosely_only_contests() -> None:
    """A loose connection leaves both in view."""
    said = "The main branch was tidied."
    after = merge(ledger("Never push to main."), [Supersede(entry_id="1", by=at(9), claim=said)], spoken={at(9): said})
    assert active(after) == ["Never push to main."]
    assert after.entries[0].claim == Claim(text=said, source=at(9))


def test_a_draft_cannot_lay_a_greeting_or_another_topic_beside_a_rule() -> None:
    """What shares nothing with an entry and changes nothing says nothing against it, whoever names it."""
    before = ledger("Never push to main.")
    for said in ("Nice work.", "Go on, please.", "Danke, weiter bitte.", "谢谢，请继续。", "The parser looks tidy."):
        after = merge(before, [Supersede(entry_id="1", by=at(9), claim=said)], spoken={at(9): said})
        assert after.entries == before.entries


def test_a_pinned_entry_gives_way_to_nothing() -> None:
    """A pin is stronger than a correction."""
    pinned = LedgerEntry(
        id="1",
        section=Section.ACTIVE,
        text="Use port 8080 for staging.",
        sources=(at(1),),
        speaker=Speaker.USER,
        born=0,
        pinned=True,
    )
    after = merge(
        Ledger(entries=(pinned,), next_number=2), [rule("Use port 9090 instead of port 8080 for staging.", 5)], spoken={}
    )
    assert after.entries[0] == pinned


def test_a_refresh_replaces_computed_lines_and_leaves_what_people_said() -> None:
    """The working state is computed anew each time."""
    before = merge(
        ledger("Keep it short."), [Refresh(section=Section.HANDOFF, lines=(("old", at(1)), ("focus", None)))], spoken={}
    )
    after = merge(before, [Refresh(section=Section.HANDOFF, lines=(("new", at(2)),))], spoken={})
    assert [entry.text for entry in after.section(Section.HANDOFF)] == ["new"]
    assert active(after) == ["Keep it short."]


def test_inactive_entries_are_archived_oldest_first_and_counted() -> None:
    """The newest twenty stay in view; none is uncounted."""
    operations = [rule("Use port 1000 for staging.", 1)]
    operations += [rule(f"Actually use port {1000 + n} for staging instead of port {999 + n}.", n + 1) for n in range(1, 31)]
    after = archive(merge(Ledger(), operations, spoken={}))
    assert (len(after.section(Section.INACTIVE)), after.archived, len(active(after))) == (20, 10, 1)


def test_a_stored_ledger_is_the_ledger() -> None:
    """Every field survives the checkpoint."""
    state = merge(
        ledger("Use port 8080 for staging.", "Mirror the dashboards to the archive bucket."),
        [
            rule("Use port 9090 instead of port 8080 for staging.", 5),
            Hear(text="Forget mirroring the dashboards to the archive bucket.", source=Pointer("parent-1", 6)),
            Refresh(section=Section.EVIDENCE, lines=(("file: a.py", at(4)),)),
        ],
        spoken={},
    )
    assert load_ledger(dump_ledger(state)) == state
