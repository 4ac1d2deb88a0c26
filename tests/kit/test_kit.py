"""threadkeep beside the compactors of the compaction-conformance-kit: its own benchmark, budgets, seeds and five rounds.

The kit's budgets bound characters of a transcript of eight thousand. threadkeep gives up nothing a user demanded for a target: at
30 % all of it fits, at 20 % and 10 % the twenty canaries' own words, the system message and the request alone are more than the
budget, and the window is larger. What the kit calls stale is any old value still in the text, also one with the newer beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.adapter import NAME, ThreadkeepCompactor, compactors

benchmark = pytest.importorskip("compaction_kit.benchmark", reason="needs compaction-conformance-kit==0.8.0")
cli = pytest.importorskip("compaction_kit.cli", reason="needs compaction-conformance-kit==0.8.0")
corpus = pytest.importorskip("compaction_kit.corpus", reason="needs compaction-conformance-kit==0.8.0")
generated = pytest.importorskip("compaction_kit.generated", reason="needs compaction-conformance-kit==0.8.0")
runner = pytest.importorskip("compaction_kit.runner", reason="needs compaction-conformance-kit==0.8.0")

BUDGETS = (0.10, 0.20, 0.30)
SEEDS = (1, 2, 3, 4)
ROUNDS = 5
FITS = 0.30
# The window never holds more than this share of the transcript, whatever the budget.
LARGEST_SHARE = 0.30
OVER_BUDGET = "what the user demanded is never left out: the window is 1.4 times a budget of 20 %, 2.8 times one of 10 %"
REWORDED = "64 of 64 updates in other words without a denial of the old value leave it in view, the newer one in view as well"

Entry = dict[str, Any]


@pytest.fixture(scope="module")
def entries() -> list[Entry]:
    """One run of the kit's benchmark over threadkeep and every compactor it ships."""
    with compactors() as make:
        payload = benchmark.run_budget_benchmark({NAME: make, **cli.COMPACTORS}, budgets=BUDGETS, seeds=SEEDS, rounds=ROUNDS)
    found: list[Entry] = payload["entries"]
    return found


@pytest.fixture
def compactor() -> Iterator[ThreadkeepCompactor]:
    with compactors() as make:
        yield make()


def at(entries: list[Entry], budget: float) -> tuple[Entry, list[Entry]]:
    """Return threadkeep's entry at a budget, and everyone else's."""
    group = [entry for entry in entries if entry["budget_fraction"] == budget]
    ours = next(entry for entry in group if entry["compactor"] == NAME)
    return ours, [entry for entry in group if entry is not ours]


def survival(entry: Entry) -> float:
    kept: float = entry["randomized"]["overall_final_survival"]
    return kept


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_every_canary_of_every_type_survives_five_rounds(entries: list[Entry], budget: float) -> None:
    """Safety rules, constraints, facts, goal state and preferences alike, whatever target was asked for."""
    ours, others = at(entries, budget)
    assert ours["randomized"]["final_median_by_type"] == dict.fromkeys(
        ("fact", "goal_state", "hard_constraint", "safety_rule", "user_preference"), 1.0
    )
    assert survival(ours) == 1.0 >= max(survival(entry) for entry in others)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_latest_value_is_always_there_and_no_distinct_one_is_merged_away(entries: list[Entry], budget: float) -> None:
    """Of every update the newer value is in view, never the older alone; two things that look alike both stay."""
    ours, _ = at(entries, budget)
    restated, reworded = ours["randomized"]["supersession"], ours["semantic"]["conflicts"]
    assert (restated["latest"], restated["stale_only"]) == (restated["n"], 0)
    assert (reworded["latest"], reworded["stale_only"]) == (reworded["n"], 0)
    assert reworded["pairs_both_held"] == reworded["pairs"]


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_the_window_stays_below_its_share_of_the_transcript(entries: list[Entry], budget: float) -> None:
    """Below the largest budget even where a smaller one was asked for."""
    ours, _ = at(entries, budget)
    assert ours["max_output_to_budget"] * budget <= LARGEST_SHARE


@pytest.mark.slow
def test_all_of_it_fits_a_budget_of_30_percent(entries: list[Entry]) -> None:
    """Every canary, within the budget."""
    ours, _ = at(entries, FITS)
    assert (ours["budget_compliant"], survival(ours)) == (True, 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("budget", [budget for budget in BUDGETS if budget < FITS])
@pytest.mark.xfail(strict=True, reason=OVER_BUDGET)
def test_a_smaller_budget_is_met(entries: list[Entry], budget: float) -> None:
    """Where it is, the kit ranks it by what survives."""
    ours, _ = at(entries, budget)
    assert ours["budget_compliant"]


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_no_restated_value_leaves_the_old_one_in_the_text(entries: list[Entry], budget: float) -> None:
    """Said again with another value: the old one is a pointer, the new one its words."""
    ours, _ = at(entries, budget)
    assert ours["randomized"]["supersession"]["stale"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.xfail(strict=True, reason=REWORDED)
def test_no_reworded_update_leaves_the_old_value_in_the_text(entries: list[Entry], budget: float) -> None:
    """The kit's own count; none of them stands without the newer in view."""
    ours, _ = at(entries, budget)
    assert ours["semantic"]["conflicts"]["stale"] == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_without_anything_new_change_nothing(compactor: ThreadkeepCompactor, seed: int) -> None:
    """Five rounds over one session give one window: nothing decays, nothing grows."""
    session, canaries = corpus.build_random_session(seed)
    run = runner.run_conformance(session, compactor, rounds=ROUNDS, canaries=canaries, budget_fraction=0.2)
    assert len({result.context.text for result in run.rounds}) == 1


@pytest.mark.parametrize("seed", range(1, 13))
def test_sessions_made_anew_for_each_seed_lose_nothing(compactor: ThreadkeepCompactor, seed: int) -> None:
    """The kit's rotating subjects and wordings, with distractors and updates, which no one can have tuned to."""
    session, canaries = generated.build_generated_session(seed)
    run = runner.run_conformance(session, compactor, rounds=ROUNDS, canaries=canaries, budget_fraction=0.2)
    assert [name for name, survived in run.rounds[-1].survived.items() if not survived] == []
