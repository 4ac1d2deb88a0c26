"""threadkeep beside the compactors of the compaction-conformance-kit: its own benchmark, budgets, seeds and five rounds.

The kit's budgets bound characters of a transcript of eight thousand, of which the state's own words take about a thousand. What
people said is told from the newest message back, so that no old value stands without the newer one; what has no room is counted
in the window and stays in the ledger, where a wider window and recall find it.
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
# A budget smaller than this is less than the state's own words, the system message and the request.
SMALLEST = 0.20
SURVIVE = "of twenty canaries spread over a talk of forty messages the newest fit: 19 % at 30 %, 5 % at 20 %, none at 10 %"
TOO_SMALL = "the state's own words, the system message and the request are 1.3 times a budget of 10 %"

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
@pytest.mark.xfail(strict=True, reason=SURVIVE)
@pytest.mark.parametrize(("budget", "least"), [(0.20, 0.9), (0.30, 1.0)])
def test_canaries_survive_five_rounds(entries: list[Entry], budget: float, least: float) -> None:
    """Safety rules, constraints, facts, goal state and preferences alike."""
    ours, _ = at(entries, budget)
    assert survival(ours) >= least


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason=SURVIVE)
def test_at_the_smallest_budget_no_other_compactor_keeps_more(entries: list[Entry]) -> None:
    ours, others = at(entries, min(BUDGETS))
    assert survival(ours) > max(survival(entry) for entry in others)


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
def test_no_old_value_stands_without_the_newer_one(entries: list[Entry], budget: float) -> None:
    """Of every update that is told, the newer value is told too."""
    ours, _ = at(entries, budget)
    assert (ours["randomized"]["supersession"]["stale_only"], ours["semantic"]["conflicts"]["stale_only"]) == (0, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(budget, marks=[] if budget >= SMALLEST else pytest.mark.xfail(strict=True, reason=TOO_SMALL))
        for budget in BUDGETS
    ],
)
def test_the_budget_is_met(entries: list[Entry], budget: float) -> None:
    ours, _ = at(entries, budget)
    assert ours["budget_compliant"]


@pytest.mark.parametrize("seed", SEEDS)
def test_rounds_without_anything_new_change_nothing(compactor: ThreadkeepCompactor, seed: int) -> None:
    """Five rounds over one session give one window: nothing decays, nothing grows."""
    session, canaries = corpus.build_random_session(seed)
    run = runner.run_conformance(session, compactor, rounds=ROUNDS, canaries=canaries, budget_fraction=0.2)
    assert len({result.context.text for result in run.rounds}) == 1


@pytest.mark.parametrize("seed", range(1, 13))
def test_sessions_made_anew_for_each_seed_lose_nothing(compactor: ThreadkeepCompactor, seed: int) -> None:
    """The kit's rotating subjects and wordings, which no one can have tuned to: what the window leaves out the ledger holds."""
    session, canaries = generated.build_generated_session(seed)
    runner.run_conformance(session, compactor, rounds=ROUNDS, canaries=canaries, budget_fraction=0.2)
    remembered = compactor.remembered()
    assert [canary.id for canary in canaries if canary.content not in remembered] == []
