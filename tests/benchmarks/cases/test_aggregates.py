"""What many answers come to: shares of what was answered, and what is left of what the baseline knew."""

from __future__ import annotations

import pytest

from benchmarks.cases.aggregates import Outcome, Retained, build_tables, compute_aggregates, count_unanswered, outcome, retained
from benchmarks.cases.manifest import WORKING_STATE
from benchmarks.cases.progress import AnsweredCase
from benchmarks.cases.run import CasesRun


def answer(
    variant: str, case: str, score: float, *, category: str = "correction", hop: int = 1, error: str | None = None
) -> AnsweredCase:
    return AnsweredCase(
        variant=variant,
        session="ferry",
        hop=hop,
        case=case,
        category=category,
        priority="critical",
        form="working_state" if category == WORKING_STATE else "single_choice",
        reply="",
        score=score,
        verdict="run_error" if error else "pass" if score == 1 else "fail",
        hard_fail=False,
        error=error,
    )


def run_of(answers: list[AnsweredCase]) -> CasesRun:
    return CasesRun(terms={}, codes=(), prepared=(), answered=tuple(answers), seconds=0.0)


LOST = "model_unavailable"
# The control knows a, b and its work; session lost b, never heard of c, and has half of the work.
ANSWERS = [
    answer("chain_control", "a", 1),
    answer("chain_control", "b", 1, category="withdrawn"),
    answer("chain_control", "c", 0),
    answer("chain_control", "d", 1),
    answer("chain_control", "work-1", 1, category=WORKING_STATE),
    answer("session", "a", 1),
    answer("session", "b", 0, category="withdrawn"),
    answer("session", "c", 1),
    answer("session", "d", 0, error=LOST),
    answer("session", "work-1", 0.5, category=WORKING_STATE),
]


def test_what_nobody_answered_is_no_wrong_answer() -> None:
    """It is counted by itself, and takes no part in what the others come to."""
    own = [each for each in ANSWERS if each.variant == "session"]
    assert outcome(own) == Outcome(
        asked=5, unanswered=1, exact=2, mean=0.625, hard_fails=0, verdicts={"fail": 2, "pass": 2, "run_error": 1}
    )
    assert (outcome(own).rate, outcome([own[3]]).rate) == (0.5, 0.0)
    assert count_unanswered(run_of(ANSWERS)) == {LOST: 1}


def test_what_either_did_not_answer_is_not_compared() -> None:
    """A reader that was away tells nothing of what a window keeps, in the baseline as in the variant."""
    cases = [each for each in ANSWERS if each.category != WORKING_STATE]
    assert retained(cases, variant="session", baseline="chain_control") == Retained(
        compared=3, comparable=2, kept=1, baseline_rate=2 / 3, rate=2 / 3, baseline_mean=2 / 3, mean=2 / 3
    )
    away = [answer("chain_control", "a", 0, error=LOST), answer("session", "a", 1)]
    assert retained(away, variant="session", baseline="chain_control").share is None


def test_what_is_retained_is_told_of_every_category_and_of_work_apart() -> None:
    """After each hop and over all of them; the figure of the cases has no working state in it."""
    told = compute_aggregates(run_of(ANSWERS))["variants"]["session"]
    kept = {name: each["retained_vs_baseline"]["share"] for name, each in told["categories"].items()}
    assert kept == {"correction": 1.0, "withdrawn": 0.0, WORKING_STATE: 0.0}
    hop = told["hops"][1]
    assert {name: each["share"] for name, each in hop["retained_by_category"].items()} == kept
    assert hop["retained_vs_baseline"]["comparable"] == 2
    assert hop["working_state_vs_baseline"] == {
        "compared": 1,
        "comparable": 1,
        "kept": 0,
        "baseline_rate": 1.0,
        "rate": 0.0,
        "baseline_mean": 1.0,
        "mean": 0.5,
        "share": 0.0,
    }
    assert "retained_vs_baseline" not in compute_aggregates(run_of(ANSWERS))["variants"]["chain_control"]["hops"][1]


def test_tables_show_what_had_no_answer_and_what_each_category_kept() -> None:
    """People see the same figures; where one did not answer, also how many it is held against."""
    by_hop, kept_by_hop, right, kept = build_tables(run_of(ANSWERS))
    assert [dict(zip(by_hop.columns, row, strict=True)) for row in by_hop.rows if row[0] == "session"] == [
        {
            "variant": "session",
            ">hop": "1",
            ">right": "2 of 4",
            ">95 %": "15%–85%",
            ">score": "0.62",
            ">hard fails": "0",
            ">no answer": "1",
            ">window": "–",
        }
    ]
    assert kept_by_hop.columns == ["variant", ">hop", ">retained", ">work retained", ">work score"]
    assert kept_by_hop.rows == [["session", "1", "50% of 2", "0% of 1", "0.50 of 1.00"]]
    assert (right.columns, right.rows) == (
        ["category", ">asked", ">chain_control", ">session"],
        [["correction", "3", "2", "2 of 2"], ["withdrawn", "1", "1", "0"], [WORKING_STATE, "1", "1", "0"]],
    )
    assert (kept.columns, kept.rows) == (
        ["category", ">chain_control", ">session"],
        [["correction", "2", "1 of 1"], ["withdrawn", "1", "0"], [WORKING_STATE, "1", "0"]],
    )


@pytest.mark.parametrize("variant", ["chain_control", "session"])
def test_one_variant_alone_has_nothing_to_be_held_against(variant: str) -> None:
    """No table of what was kept is made up."""
    own = [each for each in ANSWERS if each.variant == variant]
    assert [table.title for table in build_tables(run_of(own))] == [
        "Variant by variant, hop by hop",
        "Right, category by category",
    ]
