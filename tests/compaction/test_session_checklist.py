"""What the session strategy of codex-session-compact-collapse can do, item by item, and where it is shown that threadkeep can.

Its features are numbered: block 1–5, frontier 6–13, sidecar 14, routing and lifecycle 15–23. `COVERED` names the tests of this
file; `ELSEWHERE` says why one is not shown here. Where its behaviour is a known weakness, the test shows ours.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec
import pytest
from tests.histories import RESPONSES, Rollout, answered, call, environment, output, reasoning, said, turns, views

from threadkeep.compaction import compact
from threadkeep.compaction.ledger import Claim, Ledger, LedgerEntry, Section, Speaker, dump_ledger, load_ledger
from threadkeep.compaction.plan import size_frontier
from threadkeep.compaction.state_text import HEADINGS, TAG, render_state
from threadkeep.compaction.strategies.reply import parse_state
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.items import ItemKind, find_open_calls, find_orphans
from threadkeep.threads import Checkpoint, EntryKind, Pointer, StateEntry
from threadkeep.tokens import Limits, estimate_item, estimate_text

COVERED: Final = {
    1: ("test_1_the_block_has_one_tag_five_headings_and_a_line_for_each_entry",),
    2: ("test_2_the_older_tag_is_read_and_never_written",),
    4: ("test_4_headings_prose_and_damage_are_read_for_what_they_are",),
    5: ("test_5_the_state_is_known_by_its_place_and_stands_once_after_any_number_of_compactions",),
    6: ("test_6_a_tail_begins_where_a_person_speaks_with_the_context_that_leads_up_to_it",),
    7: ("test_7_how_far_the_tail_reaches_is_decided_by_budget_and_structure_in_any_language",),
    8: ("test_8_the_budget_of_the_frontier",),
    9: ("test_9_what_is_kept_keeps_its_bytes",),
    10: ("test_10_large_outputs_become_lines_until_it_fits_and_arguments_stay_json",),
    11: ("test_11_four_bytes_to_a_token_pictures_and_sealed_content_apart",),
    12: ("test_12_no_output_is_orphaned_in_what_is_stored",),
    13: ("test_13_replaced_and_kept_are_the_whole_window",),
    14: ("test_14_at_most_four_pictures_are_named_and_none_is_sent_again",),
    17: ("test_17_limits_of_a_window",),
    20: ("test_20_the_layout_between_turns_and_within_one",),
    21: ("test_21_a_checkpoint_is_its_record_and_older_ones_are_read",),
    22: ("test_22_the_report_counts_what_the_window_holds",),
}
ELSEWHERE: Final = {
    3: "what a model is asked for needs the strategy that asks",
    15: "where a strategy is configured, and what outranks what, is configuration",
    16: "which strategy is taken, and what it falls back to, needs the strategies that ask models",
    18: "how a model is asked needs one",
    19: "asking again, giving up and going in stages needs a model that fails",
    23: "handing over to a model, and a provider's own compaction, need both",
}


def test_every_item_is_shown_or_says_why_not() -> None:
    """The first 23, each once."""
    assert sorted([*COVERED, *ELSEWHERE]) == list(range(1, 24))
    assert [name for names in COVERED.values() for name in names if name not in globals()] == []


def at(ordinal: int) -> Pointer:
    return Pointer("t", ordinal)


def entry(number: int, text: str, section: Section, *, claim: Claim | None = None) -> LedgerEntry:
    return LedgerEntry(
        id=str(number), section=section, text=text, sources=(at(number),), speaker=Speaker.USER, born=0, claim=claim
    )


def test_1_the_block_has_one_tag_five_headings_and_a_line_for_each_entry() -> None:
    """Exact bytes; what a section lacks is said."""
    claim = Claim(text="Use port 9090 instead of 8080.", source=at(9))
    ledger = Ledger(
        entries=(
            entry(1, "Port the parser.", Section.OBJECTIVE),
            entry(2, "Never push to main.", Section.ACTIVE),
            entry(3, "Use port 8080.", Section.INACTIVE, claim=claim),
        )
    )
    block = render_state(ledger).partition(f"<{TAG}>")[2]
    assert block == (
        "\nObjective:\n- Port the parser. (#1)\n\n"
        "Active Memory:\n- Never push to main. (#2)\n\n"
        "Inactive Changes:\n- supersede | Use port 8080. (#3) → #9: Use port 9090 instead of 8080.\n\n"
        "Current Handoff:\n- none\n\n"
        f"Evidence Pointers:\n- none\n</{TAG}>"
    )


def test_2_the_older_tag_is_read_and_never_written() -> None:
    """A block of an older version is a block."""
    old = f"<{TAG}_v1>\nActive Memory:\n- Never push to main.\n</{TAG}_v1>"
    assert [e.text for e in parse_state(old).sections[Section.ACTIVE]] == ["Never push to main."]
    assert "_v1" not in render_state(Ledger(entries=(entry(1, old, Section.ACTIVE),))).replace(f"‹{TAG}_v1", "").replace(
        f"‹/{TAG}_v1", ""
    )


@pytest.mark.parametrize(
    ("reply", "section", "text"),
    [
        (f"<{TAG}>\nACTIVE MEMORY:\n* Never push.\n</{TAG}>", Section.ACTIVE, "Never push."),
        ("## Active Memory\n- Never push.", Section.ACTIVE, "Never push."),
        (f"<{TAG}>\nObjective: Port the parser.\n", Section.OBJECTIVE, "Port the parser."),
        ("Current Handoff\nThe parser is half done.", Section.HANDOFF, "The parser is half done."),
    ],
)
def test_4_headings_prose_and_damage_are_read_for_what_they_are(reply: str, section: Section, text: str) -> None:
    """Any case, Markdown, text on the heading's line, an unclosed block; prose is about where the work stands."""
    assert [e.text for e in parse_state(reply).sections[section]] == [text]


def test_5_the_state_is_known_by_its_place_and_stands_once_after_any_number_of_compactions() -> None:
    """A person who quotes its first words is still heard; no compaction carries an older block along."""
    quoted = f"{STATE_OPENING} Is that sentence yours? Never push to main."
    rollout = Rollout([said(quoted), answered("Yes."), *turns(1, 6)])
    for number in range(3):
        rollout.compact(frontier_tokens=500)
        rollout.add(turns(10 * number + 10, 10 * number + 15))
    window = rollout.history()
    assert [e.kind for e in window.entries].count(EntryKind.STATE) == 1
    state = next(RESPONSES.view(e.item) for e in window.entries if e.kind is EntryKind.STATE)
    assert (state.by_person, state.text.count(f"<{TAG}>"), state.text.startswith(STATE_OPENING)) == (False, 1, True)
    assert "Never push to main." in state.text


def test_6_a_tail_begins_where_a_person_speaks_with_the_context_that_leads_up_to_it() -> None:
    """Host context, summaries and tool items are no beginnings."""
    rollout = Rollout([*turns(1, 3), environment("/src"), *turns(4, 4)])
    tail = [kept.seen.view for kept in rollout.plan(frontier_tokens=420).tail]
    assert (tail[0].context is not None, tail[1].said) == (True, "Please look into part 4 of the parser.")


@pytest.mark.parametrize("words", ["please look into it", "schau es dir an", "看一下这个"])
def test_7_how_far_the_tail_reaches_is_decided_by_budget_and_structure_in_any_language(words: str) -> None:
    """As many whole turns as fit, whatever words they use."""
    items = [item for number in range(6) for item in (said(f"{words} {number}"), answered("x" * 400))]
    plan = Rollout(items).plan(frontier_tokens=420)
    assert [kept.seen.view.said for kept in plan.tail if kept.seen.view.by_person] == [f"{words} 4", f"{words} 5"]


@pytest.mark.parametrize(
    ("full", "window", "budget"),
    [(200_000, 258_400, 20_000), (500_000, 258_400, 25_840), (20_000, 258_400, 2_000), (20_000, 30_000, 2_000)],
)
def test_8_the_budget_of_the_frontier(full: int, window: int, budget: int) -> None:
    """A tenth of what there is, at least 2,000, at most a tenth of the window."""
    assert size_frontier(full, window_tokens=window) == budget


def test_9_what_is_kept_keeps_its_bytes() -> None:
    """Its sanitiser flattens messages and drops their pictures; here the frontier is the client's own items."""
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    newest = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "This one?"}, picture], "x": 1}
    rollout = Rollout([*turns(1, 8), newest])
    rollout.compact(frontier_tokens=300)
    assert rollout.history().items[-1] == RESPONSES.parse(newest)


def test_10_large_outputs_become_lines_until_it_fits_and_arguments_stay_json() -> None:
    """The newest keeps most of itself, older ones a beginning and an end; the tail is within budget, no argument is cut."""
    rollout = Rollout(turns(1, 12, words=200))
    plan = rollout.plan(frontier_tokens=4_000)
    shown = [kept.tokens for kept in plan.tail if kept.seen.view.kind is ItemKind.OUTPUT]
    assert sum(kept.tokens for kept in plan.tail) <= 4_000
    assert (shown, shown[0] < 120, shown[-1] > 300) == (sorted(shown), True, True)
    rollout.compact(frontier_tokens=4_000)
    calls = [json.loads(item.raw) for item in rollout.history().items if b'"function_call"' in item.raw]
    assert all(json.loads(each["arguments"])["cmd"].startswith("cat part_") for each in calls)


def test_11_four_bytes_to_a_token_pictures_and_sealed_content_apart() -> None:
    """Rounded up; a picture costs its constant whatever its length, sealed reasoning what is inside the envelope."""
    assert [estimate_text(text) for text in ("", "a", "abcd", "abcde", "é" * 4)] == [0, 1, 1, 2, 2]
    part = {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 90_000}
    pictured = msgspec.json.encode({"role": "user", "content": [part]})
    assert estimate_item(pictured) == -(-(len(pictured) - 90_000 + 7_373) // 4)
    sealed = msgspec.json.encode(reasoning("A" * 4_000))
    assert estimate_item(sealed) == -(-(3_000 - 650) // 4)


def test_12_no_output_is_orphaned_in_what_is_stored() -> None:
    """Nothing needs to be repaired before sending: 150 calls in one turn, at a budget for a few."""
    items = [said("Port every module.")]
    for number in range(150):
        items += [reasoning(f"r{number}"), call(f"c{number}"), output(f"c{number}", "module\n" * 40)]
    rollout = Rollout(items)
    rollout.compact(frontier_tokens=4_000)
    window = views(rollout.history())
    assert (find_orphans(window), find_open_calls(window)) == ([], [])
    assert [view.said for view in window if view.by_person] == ["Port every module."]


def test_13_replaced_and_kept_are_the_whole_window() -> None:
    """Nothing is in neither part, nothing in both."""
    rollout = Rollout([environment("/src"), *turns(1, 9)])
    plan = rollout.plan(frontier_tokens=600)
    parts = [*plan.replaced, *plan.context, *([plan.request] if plan.request else []), *(kept.seen for kept in plan.tail)]
    assert sorted(seen.entry.source or at(0) for seen in parts) == [at(record.ordinal) for record in rollout.items]


def test_14_at_most_four_pictures_are_named_and_none_is_sent_again() -> None:
    """The newest, oldest first, with their words; what is absent is not mentioned."""
    part = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    asked = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"Picture {n}."}, part]} for n in range(6)
    ]
    rollout = Rollout([item for each in asked for item in (each, answered("I see."))] + turns(1, 4))
    ledger = rollout.compact(frontier_tokens=300)
    named = [e.text.partition("image: ")[2] for e in ledger.section(Section.EVIDENCE) if "image: " in e.text]
    assert named == [f"Picture {n}." for n in range(2, 6)]
    assert sum(view.images for view in views(rollout.history())) == 0
    without = Rollout(turns(1, 8)).compact(frontier_tokens=300)
    assert [e for e in without.entries if "image" in e.text] == []


def test_17_limits_of_a_window() -> None:
    """The hard limit is what is configured, never above 90 %; 95 % is the effective window."""
    assert Limits.of_window(272_000).full == 258_400
    assert (Limits.of_window(100_000).hard, Limits.of_window(100_000, auto_limit=95_000).hard) == (90_000, 90_000)
    assert Limits.of_window(100_000, auto_limit=24_000).hard == 24_000


def test_20_the_layout_between_turns_and_within_one() -> None:
    """Context, state, frontier, and the request last; within a turn the request is whole, behind the state, before its work."""
    between = Rollout([environment("/src"), *turns(1, 8), said("And now part 9.")])
    between.compact(frontier_tokens=300)
    shown = views(between.history())
    assert shown[0].context is not None
    assert shown[1].text.startswith(STATE_OPENING)
    assert shown[-1].said == "And now part 9."
    within = Rollout(
        [*turns(1, 4), said("Port all."), *[item for n in range(9) for item in (call(f"c{n}"), output(f"c{n}", "o" * 900))]]
    )
    within.compact(frontier_tokens=300)
    kinds = [(view.kind, view.said) for view in views(within.history())]
    assert kinds[1] == (ItemKind.MESSAGE, "Port all.")
    assert {kind for kind, _ in kinds[2:]} == {ItemKind.CALL, ItemKind.OUTPUT}


def test_21_a_checkpoint_is_its_record_and_older_ones_are_read() -> None:
    """What it stores gives the same state again; fields that came later may be missing."""
    rollout = Rollout(turns(1, 8))
    ledger = rollout.compact(frontier_tokens=300)
    assert load_ledger(dump_ledger(ledger)) == ledger
    oldest = b'{"entries":[{"id":"1","section":"active","text":"x","sources":["t#1"],"speaker":"user"}],"age":1,"next_number":2}'
    assert [e.text for e in load_ledger(oldest).entries] == ["x"]
    stored = msgspec.json.decode(msgspec.json.encode(rollout.checkpoint), type=Checkpoint)
    assert stored == rollout.checkpoint


def test_22_the_report_counts_what_the_window_holds() -> None:
    """Tokens after are those of the new window, and the state is one entry of its layout."""
    rollout = Rollout(turns(1, 30))
    outcome = compact(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip)
    rollout.checkpoint, rollout.compacted_at = outcome.checkpoint, rollout.tip.next - 1
    assert outcome.tokens_after == rollout.history().tokens < outcome.tokens_before
    assert sum(isinstance(each, StateEntry) for each in outcome.checkpoint.layout) == 1
    assert outcome.report.required == outcome.report.kept + len(outcome.report.repaired)
    assert list(HEADINGS.values()) == [line for line in render_state(outcome.ledger).split("\n") if line in HEADINGS.values()]
