"""The journal: turns, findings and facts, folded forward as records come."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import Json, Rollout, answered, call, output, said, turns
from tests.strategies import histories

from threadkeep.compaction.facts.facts import ObservedItem, fold
from threadkeep.compaction.journal import ASKED_CHARS, FINDING_CHARS, FINDINGS_KEPT, TURNS_KEPT, Journal, Turn, advance
from threadkeep.compaction.message_judgement import is_acknowledgement
from threadkeep.dialects import find_dialect
from threadkeep.items import ItemKind
from threadkeep.threads import Pointer

CHAT = find_dialect("chat")
EDIT = '{"cmd":"sed -i s/a/b/ src/tides.py"}'


def observed(items: list[Json]) -> tuple[ObservedItem, ...]:
    return Rollout(items).plan(frontier_tokens=0).observed


def begins_turn(seen: ObservedItem) -> bool:
    return seen.view.kind is ItemKind.MESSAGE and seen.view.by_person and not is_acknowledgement(seen.view.said)


def test_a_turn_is_what_was_asked_and_what_came_of_it() -> None:
    """The agent's last words to it, the files it changed and the commands it ran."""
    items = observed(
        [
            said("Port the tide table."),
            call("a", EDIT),
            output("a", "Process exited with code 0"),
            answered("Looking at it."),
            call("b", '{"cmd":"pytest -q"}'),
            output("b", "1 failed\nProcess exited with code 1"),
            answered("Ported; one test still fails."),
        ]
    )
    [turn] = advance(Journal(), items).turns
    assert (turn.asked, turn.source) == ("Port the tide table.", "t#1")
    assert (turn.answer, turn.answered) == ("Ported; one test still fails.", str(items[-1].source))
    assert any("changed tides.py" in work for work in turn.work)
    assert any("pytest -q" in work and "failed" in work for work in turn.work)


def test_an_acknowledgement_goes_on_with_the_turn_before_it() -> None:
    """`go on` asks for nothing new: what comes of it belongs to the request."""
    half, whole = "Half of the parser is ported, and its tests pass.", "The other half of the parser is ported now, too."
    items = observed([said("Port it."), answered(half), said("ok, go on"), call("a"), output("a"), answered(whole)])
    [turn] = advance(Journal(), items).turns
    assert (turn.asked, turn.earlier, turn.answer, turn.answered) == ("Port it.", half, whole, "t#7")


def test_words_before_a_call_are_no_answer() -> None:
    """A turn has one when the agent's last words are the last thing it did."""
    items = observed([said("Port it."), answered("Looking at the parser of part 7."), call("a"), output("a")])
    [turn] = advance(Journal(), items).turns
    assert (turn.answer, turn.answered) == ("", None)


def test_what_is_said_beside_a_call_is_searched_for_findings() -> None:
    """Some clients send words and calls in one message; arguments are no words."""
    beside = {
        "role": "assistant",
        "content": "The output of run 7 changed from 344 to 345.",
        "tool_calls": [
            {
                "id": "a",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "The cause is lock_a in db-3."}'},
            }
        ],
    }
    view = CHAT.view(CHAT.parse(beside))
    seen = [*observed([said("Fix it.")]), ObservedItem(view=view, source=Pointer("t", 2))]
    assert [finding.text for finding in advance(Journal(), seen).findings] == ["The output of run 7 changed from 344 to 345."]


def test_the_newest_turns_stay_and_long_texts_are_cut() -> None:
    """A digest is a digest."""
    items = observed(
        [item for n in range(30) for item in (said(f"Do {n}. " + "why " * 90), answered(f"Did {n}. " + "how " * 300))]
    )
    journal = advance(Journal(), items)
    assert [turn.asked.split(".")[0] for turn in journal.turns] == [f"Do {n}" for n in range(30 - TURNS_KEPT, 30)]
    assert all(len(turn.asked) <= ASKED_CHARS and len(turn.answer) <= FINDING_CHARS for turn in journal.turns)


def test_a_finding_said_again_is_one_finding_at_its_newest_place() -> None:
    """And where there are too many, the most telling stay, in order."""
    same = answered("The cause is lock_a in db-3.")
    journal = advance(Journal(), observed([said("Why?"), same, said("Sure about it?"), same]))
    assert [(finding.text, finding.source) for finding in journal.findings] == [("The cause is lock_a in db-3.", "t#5")]
    many = [answered(f"Run_{n} of build-{n} failed because of errno {n}.") for n in range(1_000, 1_000 + FINDINGS_KEPT + 50)]
    texts = [finding.text for finding in advance(Journal(), observed([said("Try all."), *many])).findings]
    assert len(texts) == FINDINGS_KEPT
    assert texts == sorted(texts)


def test_the_journal_of_a_rewritten_history_has_no_open_calls() -> None:
    """Turns and findings stay."""
    items = observed([said("Port it."), answered("The cause is lock_a in db-3."), call("a")])
    carried = advance(Journal(), items).drop_open_calls()
    assert carried.facts.open_calls == ()
    assert [turn.asked for turn in carried.turns] == ["Port it."]
    assert [finding.text for finding in carried.findings] == ["The cause is lock_a in db-3."]


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_folding_turn_by_turn_in_any_split_gives_the_same_journal(items: list[Json], data: st.DataObject) -> None:
    """How often a thread was compacted between turns leaves no trace."""
    seen = observed(items)
    starts = [index for index, each in enumerate(seen) if begins_turn(each)]
    cuts = sorted(data.draw(st.sets(st.sampled_from(starts)) if starts else st.just(set[int]())))
    journal = Journal()
    for first, last in zip([0, *cuts], [*cuts, len(seen)], strict=True):
        journal = advance(journal, seen[first:last])
    assert journal == advance(Journal(), seen)


@settings(max_examples=60, deadline=None)
@given(histories(), st.data())
def test_folding_in_any_split_at_all_gives_the_same_facts_and_requests(items: list[Json], data: st.DataObject) -> None:
    """In the middle of a turn too; what is known already is passed over."""
    seen = observed(items)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(seen)), max_size=4)))
    journal = Journal()
    for last in [*cuts, len(seen)]:
        journal = advance(journal, seen[:last])
    whole = advance(Journal(), seen)
    assert journal.facts == whole.facts == fold(msgspec.structs.replace(whole.facts), seen)
    assert [(turn.asked, turn.source, turn.answer) for turn in journal.turns] == [
        (turn.asked, turn.source, turn.answer) for turn in whole.turns
    ]
    assert {finding.text for finding in whole.findings} <= {finding.text for finding in journal.findings}
    assert advance(journal, seen) == journal


def test_a_journal_is_stored_and_read_whole() -> None:
    """It stands in every checkpoint."""
    journal = advance(Journal(), observed(turns(1, 4)))
    assert msgspec.json.decode(msgspec.json.encode(journal), type=Journal) == journal
    assert all(isinstance(turn, Turn) for turn in journal.turns)
