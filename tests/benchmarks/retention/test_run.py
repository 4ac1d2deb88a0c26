"""A whole run, tiny: its controls hold, its arms differ as they must, and a seed gives the same bytes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from benchmarks.retention.arms import EXTRACTIVE, FULL, LIBRARY, NONE, STATELESS, Moment, Stateless, arm_names
from benchmarks.retention.facts import USER_KINDS, FactKind
from benchmarks.retention.probes import make_probes
from benchmarks.retention.report import build_tables, list_facts
from benchmarks.retention.run import Plan, Retained, run_retention
from benchmarks.retention.sessions import planted_session
from benchmarks.retention.tally import Share, Tally, compute_wilson
from benchmarks.retention.windows import judge, open_book
from threadkeep.dialects import find_dialect

pytestmark = pytest.mark.slow

EVERY = frozenset(FactKind)


def share(result: Retained, arm: str, *, hop: int = 3) -> Share:
    return result.tally.share(arm=arm, hop=hop, kinds=USER_KINDS)


@pytest.mark.anyio
@pytest.mark.parametrize("hop", [1, 3])
async def test_the_controls_hold(tiny_run: Retained, frozen_run: Retained, hop: int) -> None:
    """Without history every kind scores exactly chance; the whole history tells every fact, and nothing stale."""
    for result in (tiny_run, frozen_run):
        for kind in FactKind:
            none = result.tally.share(arm=NONE, hop=hop, kinds={kind})
            full = result.tally.share(arm=FULL, hop=hop, kinds={kind})
            assert (none.kept, none.stale, none.credit) == (0, 0, 0.25 if none.asked else 0.0)
            assert (full.kept, full.stale, full.credit) == (none.asked, 0, 1.0 if none.asked else 0.0)


def test_an_arm_that_drops_everything_scores_at_chance() -> None:
    """A broken arm is not mistaken for one that knows something."""
    session = planted_session(seed=1, turns=20, hops=2)
    broken = Stateless(lambda moment: [])
    moment = Moment(history=[], begin=0, key=[], budget_tokens=10_000, dialect=find_dialect("chat"))
    book = open_book(broken.window(moment))
    credits = [judge(probe, book).credit for probe in make_probes(session.facts, seed=1)]
    assert sum(credits) / len(credits) == 0.25


@pytest.mark.anyio
async def test_a_liar_ruins_a_rewritten_block_and_not_the_ledger(tiny_run: Retained) -> None:
    """Whole-block rewrite loses what the liar turned round and tells stale values; extractive tells every fact."""
    lied = share(tiny_run, "whole-block rewrite, lying")
    ours = share(tiny_run, EXTRACTIVE)
    assert lied.stale > 0
    assert lied.kept < ours.kept == ours.asked
    assert ours.stale == 0


@pytest.mark.anyio
@pytest.mark.parametrize("harm", ["lying", "hostile"])
async def test_no_draft_takes_a_fact_of_the_user_away(tiny_run: Retained, harm: str) -> None:
    """A summariser that says everything otherwise costs nothing that the window tells without a model."""
    drafted, ours = share(tiny_run, f"session, {harm}"), share(tiny_run, EXTRACTIVE)
    assert (drafted.kept, drafted.stale) == (ours.kept, 0)


@pytest.mark.anyio
@pytest.mark.parametrize("harm", ["lossy", "paraphrasing", "empty", "prose", "lying", "hostile"])
async def test_every_harm_costs_a_rewritten_block_something(tiny_run: Retained, harm: str) -> None:
    """Only the faithful summariser keeps all; each of the others loses facts that it kept."""
    assert share(tiny_run, f"whole-block rewrite, {harm}").kept < share(tiny_run, "whole-block rewrite, faithful").kept


@pytest.mark.anyio
async def test_baselines_get_no_more_room_than_the_library(tiny_run: Retained) -> None:
    """After a hop no baseline's window is larger than extractive's, the control apart."""
    sizes = tiny_run.tally.sizes
    ours = {(size.dialect, size.seed, size.hop): size.window_tokens for size in sizes if size.arm == EXTRACTIVE}
    larger = {size.arm for size in sizes if size.window_tokens > ours[size.dialect, size.seed, size.hop]}
    assert larger - set(LIBRARY) == {FULL}


@pytest.mark.anyio
async def test_every_cell_is_published(tiny_run: Retained) -> None:
    """Every arm has a cell for every kind that was asked, in every session after every scored hop."""
    cells = {(cell.arm, cell.dialect, cell.seed, cell.hop, cell.kind) for cell in tiny_run.tally.cells}
    asked = {cell[1:] for cell in cells}
    assert cells == {(arm, *where) for arm in arm_names() for where in asked}
    assert {cell[1:4] for cell in cells} == {(d, s, h) for d in tiny_run.plan.dialects for s in (5,) for h in (1, 3)}


@pytest.mark.anyio
@pytest.mark.parametrize("family", ["story", "frozen"])
async def test_a_seed_gives_the_same_bytes(tmp_path: Path, family: str) -> None:
    """Two runs of one plan and seed agree in everything that is scored; another seed gives other facts."""
    plan = Plan(name="once", dialects=("chat",), seeds=1, turns=12, hops=2, scored=(2,))
    first, again, other = [
        msgspec.json.encode(
            (await run_retention(plan, family=family, seed=seed, say=lambda text: None, folder=tmp_path)).scored_json()
        )
        for seed in (3, 3, 4)
    ]
    assert first == again
    assert first != other


@pytest.mark.anyio
async def test_the_report_leaves_nothing_out(tiny_run: Retained, frozen_run: Retained) -> None:
    """Every arm stands in both tables, every kind that was asked in the third; a short run tells no target but the controls."""
    for result in (tiny_run, frozen_run):
        by_arm, by_hop, by_kind = build_tables(result)
        assert [row[0] for row in by_arm.rows] == [row[0] for row in by_hop.rows] == arm_names()
        asked = {cell.kind for cell in result.tally.cells if cell.hop == result.plan.hops}
        assert [row[0] for row in by_kind.rows] == [kind.value for kind in FactKind if kind in asked]
        assert any("no model is asked" in line for line in list_facts(result))
        assert [target.met for target in result.targets] == [True, True] + [None] * 8


def test_a_fact_asked_in_three_dialects_is_one_fact() -> None:
    """Asking the same in more dialects does not narrow the interval."""
    assert Share(asked=30, kept=24, stale=0, credit=0.8, repeats=3).interval == compute_wilson(8, 10)


def test_an_interval_is_wilsons() -> None:
    """Known values of the interval; nothing asked leaves everything open."""
    assert tuple(round(bound, 4) for bound in compute_wilson(8, 10)) == (0.4902, 0.9433)
    assert tuple(round(bound, 4) for bound in compute_wilson(10, 10)) == (0.7225, 1.0)
    assert compute_wilson(0, 0) == (0.0, 1.0)


def test_nothing_counted_is_nothing_kept() -> None:
    """An arm that was never asked has no share."""
    assert Tally().share(arm=next(iter(STATELESS)), hop=1, kinds=EVERY) == Share(asked=0, kept=0, stale=0, credit=0.0)
