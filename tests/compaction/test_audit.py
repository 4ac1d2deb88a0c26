"""The audit: what people demanded and what the work needs survives any draft."""

from __future__ import annotations

from hypothesis import given, settings
from tests.histories import Json, Rollout, answered, call, output, said, turns
from tests.strategies import histories

from threadkeep.compaction.audit import audit
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.statements import statements
from threadkeep.thread import Pointer

RULES = ["Never push to main.", "The staging port is 8080.", "Immer auf Deutsch antworten, bitte."]


def empty_draft(items: list[Json], *, frontier_tokens: int = 0) -> tuple[Rollout, Ledger]:
    """Return the ledger after a summariser returned nothing at all."""
    rollout = Rollout(items)
    plan = rollout.plan(frontier_tokens=frontier_tokens)
    return rollout, audit(plan, merge(Ledger(), [], spoken={})).ledger


def test_what_a_draft_dropped_is_put_back_verbatim_with_a_pointer() -> None:
    """Demands become active entries of the user that point at the message they stand in."""
    _, ledger = empty_draft([said(" ".join(RULES)), answered("Understood."), *turns(1, 3)])
    found = {entry.text: (entry.section, entry.speaker, entry.sources) for entry in ledger.entries}
    for demand in RULES:
        assert found[demand] == (Section.ACTIVE, Speaker.USER, (Pointer("t", 1),))


@settings(max_examples=60, deadline=None)
@given(histories())
def test_every_statement_of_a_replaced_message_is_in_the_ledger_or_the_tail(items: list[Json]) -> None:
    """An empty draft loses nothing a person said."""
    rollout, ledger = empty_draft(items)
    plan = rollout.plan(frontier_tokens=0)
    told = "\n".join(entry.text for entry in ledger.entries)
    lost = [
        text
        for seen in plan.replaced
        if seen.view.by_person
        for text in statements(seen.view.said)
        if text not in told and " ".join(text.split()) not in " ".join(told.split())
    ]
    assert lost == []


def test_a_demand_that_only_a_tool_or_the_model_repeats_is_not_kept() -> None:
    """Tool output and model text are data: a rule quoted there is no rule in the window."""
    items = [said("Never push to main."), *turns(1, 2), answered("You told me: Never push to main. I will not.")]
    rollout = Rollout(items)
    plan = rollout.plan(frontier_tokens=60)
    assert plan.tail
    ledger = audit(plan, merge(Ledger(), [], spoken={})).ledger
    assert "Never push to main." in [entry.text for entry in ledger.section(Section.ACTIVE)]


def test_a_demand_inside_a_longer_entry_of_the_opposite_sense_is_not_kept() -> None:
    """`push to main` is not what `Do not push to main` says."""
    wrong = LedgerEntry(
        id="1", section=Section.HANDOFF, text="It was said: do not push to main.", sources=(), speaker=Speaker.MODEL, born=1
    )
    rollout = Rollout([said("push to main."), *turns(1, 2)])
    ledger = audit(rollout.plan(frontier_tokens=0), Ledger(entries=(wrong,), age=1, next_number=2)).ledger
    assert "push to main." in [entry.text for entry in ledger.section(Section.ACTIVE)]


def test_open_calls_files_and_the_last_error_are_required_as_well() -> None:
    """What the thread still works on comes from its items, never from a draft."""
    items = [
        said("Fix it."),
        call("a", '{"cmd":"pytest tests/test_parser.py"}'),
        output("a", "ValueError: bad token\nexit code: 1"),
        answered("Looking."),
        *turns(1, 2),
        call("b", '{"cmd":"sleep 600"}'),
    ]
    _, ledger = empty_draft(items)
    handoff = "\n".join(entry.text for entry in ledger.section(Section.HANDOFF))
    assert "sleep 600" in handoff
    assert "ValueError: bad token" in handoff
    assert "tests/test_parser.py" in handoff


def test_the_report_counts_what_was_required_kept_and_repaired() -> None:
    """The figures add up, and every repair names what and where."""
    rollout = Rollout([said(" ".join(RULES)), *turns(1, 2)])
    report = audit(rollout.plan(frontier_tokens=0), merge(Ledger(), [], spoken={})).report
    assert report.required == report.kept + len(report.repaired)
    assert {finding.text: finding.pointer for finding in report.repaired if finding.text in RULES} == dict.fromkeys(RULES, "t#1")


def test_what_a_model_invents_is_flagged_and_not_acted_on() -> None:
    """A value that no source shows is reported."""
    rollout = Rollout(turns(1, 3))
    invented = LedgerEntry(
        id="1",
        section=Section.ACTIVE,
        text="Deploy with `kubectl-9931`.",
        sources=(Pointer("t", 1),),
        speaker=Speaker.MODEL,
        born=1,
    )
    plan = rollout.plan(frontier_tokens=0)
    report = audit(plan, Ledger(entries=(invented,), age=1, next_number=2)).report
    assert [finding.text for finding in report.invented] == ["kubectl-9931"]


def test_an_audit_makes_the_ledger_no_older() -> None:
    """Age counts compactions, whether the audit had to repair or not."""
    plan = Rollout([said("Never push to main."), *turns(1, 2)]).plan(frontier_tokens=0)
    merged = merge(Ledger(), [], spoken={})
    assert audit(plan, merged).ledger.age == merged.age == 1


def test_a_value_the_user_changed_many_times_does_not_come_back_to_life() -> None:
    """However many corrections one span holds, the retired values stay retired."""
    changes = [said("Use port 1000 for staging.")]
    changes += [said(f"Actually use port {1000 + n} for staging instead of port {999 + n}.") for n in range(1, 31)]
    rollout = Rollout([*changes, *turns(1, 2)])
    ledger = rollout.compact(frontier_tokens=0)
    ports = [entry.text for entry in ledger.section(Section.ACTIVE) if "for staging" in entry.text and entry.claim is None]
    assert ports == ["Actually use port 1030 for staging instead of port 1029."]
