"""What a model writes never stands in for what a user said, and gives no other value for it."""

from __future__ import annotations

import pytest
from tests.histories import Rollout, answered, call, output, said, turns

from threadkeep.compaction.audit import Audited, audit
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import merge
from threadkeep.compaction.operations import Add, Operation, Supersede
from threadkeep.thread import Pointer

SAID = (
    "The staging port is 8080.",
    "Never push to the main branch.",
    "Write the handbook in English.",
    "Der Puffer fasst 512 Einträge.",
    "El informe semanal se envía a Rocío.",
    "缓存的有效期是 10 分钟。",
    "バックアップは毎日3時に実行します。",
    "Размер страницы — 50 записей.",
    "مهلة الاتصال هي 30 ثانية.",
)


def drafted(*claims: str, section: Section) -> Audited:
    """What the audit leaves of a ledger to which a model added these claims, after a session that said `SAID`."""
    items = [said("\n".join(SAID)), answered("Understood."), call("a", '{"cmd":"cat log"}'), output("a", "lexer ready in 12 s")]
    rollout = Rollout([*items, *turns(1, 3)])
    plan = rollout.plan(frontier_tokens=0)
    spoken = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    operations: list[Operation] = [
        Add(section=section, text=claim, source=Pointer("t", 1), speaker=Speaker.MODEL) for claim in claims
    ]
    return audit(plan, merge(Ledger(), operations, spoken=spoken))


def models(audited: Audited) -> list[str]:
    return [entry.text for entry in audited.ledger.entries if entry.speaker is Speaker.MODEL]


LIES = [
    "The staging port is 7443.",
    "Staging listens on port 7443.",
    "Pushing to the main branch is fine.",
    "The user wants the handbook in French.",
    "Der Puffer fasst 2048 Einträge.",
    "El informe semanal se envía a Lucas.",
    "缓存的有效期是 90 分钟。",
    "バックアップは毎日9時に実行します。",
    "Размер страницы — 75 записей.",
    "مهلة الاتصال هي 90 ثانية.",
]


@pytest.mark.parametrize("section", [Section.ACTIVE, Section.OBJECTIVE])
@pytest.mark.parametrize("lie", LIES)
def test_a_users_sentence_with_another_value_binds_nobody(lie: str, section: Section) -> None:
    """It leaves the state, and the report says so."""
    audited = drafted(lie, section=section)
    assert models(audited) == []
    assert [finding.text for finding in audited.report.invented if finding.kind in ("restated", "contradicted")] == [lie]
    assert set(SAID) <= {entry.text for entry in audited.ledger.entries if entry.speaker is Speaker.USER}


@pytest.mark.parametrize("section", [Section.HANDOFF, Section.EVIDENCE, Section.INACTIVE])
@pytest.mark.parametrize("lie", [LIES[0], LIES[1], LIES[4], LIES[6], LIES[7], LIES[8], LIES[9]])
def test_nowhere_does_a_model_give_another_value_for_what_a_user_fixed(lie: str, section: Section) -> None:
    """Not as something to hand over, not as evidence, not as what gave way."""
    assert models(drafted(lie, section=section)) == []


def test_a_paraphrase_of_a_users_rule_does_not_stand_beside_it() -> None:
    """The user's own words are there; a second version could only blur them."""
    assert models(drafted("User: no pushes to the main branch, ever.", section=Section.ACTIVE)) == []


@pytest.mark.parametrize("section", [Section.ACTIVE, Section.OBJECTIVE, Section.HANDOFF, Section.EVIDENCE])
def test_a_figure_or_an_id_that_nothing_shows_is_reported_and_not_shown(section: Section) -> None:
    """Nobody said it and no tool printed it."""
    audited = drafted("Deployments go through `kubectl-9931`.", section=section)
    assert models(audited) == []
    assert [(finding.kind, finding.text) for finding in audited.report.invented] == [("invented", "kubectl-9931")]


def test_a_new_name_may_be_handed_over_and_is_no_memory() -> None:
    """What is to be made has a name before anything shows it; it binds nobody."""
    claim = "Next: put the operators into `lexer_table`."
    assert models(drafted(claim, section=Section.HANDOFF)) == [claim]
    assert models(drafted(claim, section=Section.ACTIVE)) == []


OWN = [
    "The lexer is done and took 12 seconds.",
    "Next: look at how the parser treats comments.",
    "The tokenizer keeps a table of operators.",
]


@pytest.mark.parametrize("section", [Section.ACTIVE, Section.HANDOFF])
def test_what_a_model_found_out_itself_stands(section: Section) -> None:
    """Its own notes about the work are what it is asked for."""
    audited = drafted(*OWN, section=section)
    assert models(audited) == OWN
    assert audited.report.invented == ()


def test_a_dispute_that_names_another_value_is_reported_and_not_shown() -> None:
    """Beside a user's words stand a user's words."""
    rollout = Rollout([said(SAID[0]), answered("Understood."), *turns(1, 3)])
    plan = rollout.plan(frontier_tokens=0)
    spoken = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    own = Add(section=Section.ACTIVE, text=SAID[0], source=next(iter(spoken)), speaker=Speaker.USER)
    dispute = Supersede(entry_id="1", by=Pointer("t", 3), claim="The staging port is 7443.")
    audited = audit(plan, merge(Ledger(), [own, dispute], spoken=spoken))
    assert audited.ledger.entries[0].claim is None
    found = [(finding.kind, finding.text) for finding in audited.report.invented]
    assert found == [("contradicted", "The staging port is 7443.")]


def test_an_older_note_gives_way_when_a_user_speaks_about_it() -> None:
    """What was a model's finding yesterday is no second opinion on a user's word of today."""
    told = "The mirror runs on port 6001."
    note = LedgerEntry(id="1", section=Section.ACTIVE, text=told, sources=(Pointer("t", 1),), speaker=Speaker.MODEL, born=1)
    rollout = Rollout([said("The mirror runs on port 6002."), *turns(1, 2)])
    plan = rollout.plan(frontier_tokens=0)
    spoken = {seen.entry.source: seen.view.said for seen in plan.spoken if seen.entry.source is not None}
    ledger = Ledger(entries=(note,), age=1, next_number=2)
    word = Add(section=Section.ACTIVE, text="The mirror runs on port 6002.", source=next(iter(spoken)), speaker=Speaker.USER)
    assert models(audit(plan, merge(ledger, [word], spoken=spoken))) == []
