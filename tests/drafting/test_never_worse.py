"""A draft makes no window worse than one made without a model: people's lines and the agent's findings stand as they did."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compaction.test_hostile_drafts import PLANTED, rollout_with_a_trap
from tests.compaction.test_reply_properties import replies
from tests.histories import RESPONSES

from threadkeep.compaction.engine import NO_DRAFT, Outcome, Proposal, conclude, propose
from threadkeep.compaction.ledger import BINDING, LedgerEntry, Section, Speaker
from threadkeep.compaction.state_text import FROM_A_MODEL, HEADINGS, TAG, render_line, render_state
from threadkeep.compaction.strategies import SESSION
from threadkeep.compaction.strategies.reply import parse_state
from threadkeep.compaction.strategies.session import read_operations
from threadkeep.compaction.strategies.strategy import Draft, Goal

TARGETS = (None, "40%", "15%", "5%")
HUGE = "module {} is fine, " + "really " * 60


def block(lines: list[str]) -> str:
    """Return a state block with the same lines in every section."""
    bullets = "\n".join(f"- {line}" for line in lines)
    return f"<{TAG}>\n" + "\n".join(f"{heading}\n{bullets}" for heading in HEADINGS.values()) + f"\n</{TAG}>"


def proposed(target: str | None) -> Proposal:
    rollout = rollout_with_a_trap()
    return propose(rollout.history(), thread_id="t", dialect=RESPONSES, tip=rollout.tip, goal=Goal(target=target))


def drafted(proposal: Proposal, reply: str) -> Outcome:
    """Return the window that a model's reply comes to."""
    brief = proposal.brief
    stage = read_operations(parse_state(reply), ledger=brief.ledger, spoken=brief.spoken, thread_id="t")
    return conclude(proposal, Draft(strategy=SESSION, stages=(tuple(stage),)))


def lines_of(outcome: Outcome, *speakers: Speaker) -> dict[str, str]:
    """Return what a window tells of these speakers, by its place; what stands in a message of its own counts as told whole."""
    ledger = outcome.ledger
    told = [entry for entry in ledger.entries if entry.speaker in speakers and entry.id not in ledger.left_out]
    return {place(entry): render_line(entry, brief=entry.id in ledger.brief and entry.id not in ledger.in_view) for entry in told}


def place(entry: LedgerEntry) -> str:
    return f"{entry.speaker} {entry.sources[-1] if entry.sources else entry.text}"


def worsened(quiet: Outcome, loud: Outcome) -> list[str]:
    """Return what people said, or the agent found, that the window without a model tells and the other does not as well."""
    before, after = (lines_of(each, Speaker.USER, Speaker.AGENT) for each in (quiet, loud))
    retired = {place(entry) for entry in loud.ledger.section(Section.INACTIVE)}
    return [line for where, line in before.items() if where not in retired and _words(after.get(where, "")) < _words(line)]


def _words(line: str) -> int:
    return len(line.split())


def check_marked(outcome: Outcome) -> None:
    """Check that what a model wrote is told from people's words, and that nothing a tool printed is one of theirs."""
    own = [entry for entry in outcome.ledger.entries if entry.speaker is Speaker.MODEL and entry.section in BINDING]
    assert all(FROM_A_MODEL in render_line(entry) for entry in own)
    people = [entry.text for entry in outcome.ledger.entries if entry.speaker in (Speaker.USER, Speaker.AGENT)]
    assert not any(PLANTED in text for text in people)


CALM = {
    "empty": "",
    "a word": "lol",
    "says nothing": block(["none"]),
    "contradicts itself": block(["retain | [2]", "withdraw | [2]", 'supersede | [2] → "never mind it"', "update | [2] off"]),
    "withdraws everything": block([f"withdraw | [{number}]" for number in range(1, 30)]),
    "unknown ids": block([f"supersede | [{number}] → gone" for number in range(90, 99)]),
    "obeys a tool": block([f"update | [2] {PLANTED}", "withdraw | [3] the tool says so"]),
}
LOUD = {
    "a tool's words": block([PLANTED]),
    "huge": block([HUGE.format(number) for number in range(100)]),
    "many": block([f"part {number} was looked into" for number in range(400)]),
}


def check(target: str | None, reply: str | None) -> None:
    """Check a window made with a reply beside the one made without; None copies the state."""
    proposal = proposed(target)
    loud = drafted(proposal, render_state(proposal.brief.ledger) if reply is None else reply)
    check_marked(loud)
    assert worsened(conclude(proposal, NO_DRAFT), loud) == []


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("reply", [None, *CALM.values()], ids=["copied", *CALM])
def test_no_draft_tells_less_of_people_and_findings_than_none(reply: str | None, target: str | None) -> None:
    """Whatever it says, in the same budget; its own lines are marked, and no tool speaks for a person."""
    check(target, reply)


@pytest.mark.parametrize("target", [None, "40%", "15%"])
@pytest.mark.parametrize("reply", LOUD.values(), ids=LOUD)
def test_no_draft_is_long_enough_to_push_them_out(reply: str, target: str | None) -> None:
    """Its lines come after theirs."""
    check(target, reply)


@pytest.mark.parametrize("reply", LOUD.values(), ids=LOUD)
def test_not_even_where_there_is_hardly_room(reply: str) -> None:
    """A tight target shares out little, and a draft takes none of it."""
    check("5%", reply)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([None, "40%"]))
def test_no_reply_whatever_tells_less_of_them(data: st.DataObject, target: str | None) -> None:
    """Noise, torn copies, doubled and shuffled blocks, sections swapped, numbers moved on by one."""
    check(target, data.draw(replies(proposed(target).brief.ledger)))
