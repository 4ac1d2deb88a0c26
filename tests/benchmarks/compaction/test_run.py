"""A whole run at a size that proves nothing about speed and everything about completeness."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest

from benchmarks.command import main as bench
from benchmarks.compaction import run as compaction_run
from benchmarks.compaction.growing_thread import Growing, session_turns
from benchmarks.compaction.run import PLAIN, Compacted, Plan, grown, run_compaction
from benchmarks.compaction.steps import plain_pass
from threadkeep.dialects import find_dialect
from threadkeep.errors import BadInput

pytestmark = pytest.mark.slow

TINY = Plan(name="tiny", span_tokens=30_000, new_tokens=6_000, rounds=2, row=3)
RESPONSES = find_dialect("responses")


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def tiny(said: list[str]) -> Compacted:
    return run_compaction(TINY, seed=2, say=said.append)


def test_every_measure_yields_a_figure_beside_the_plain_pass(tiny: Compacted, said: list[str]) -> None:
    """Both of what is compared in one run, the ratio of each round, and what stands alone."""
    assert [(figure.measure, figure.contender, figure.value.samples) for figure in tiny.figures] == [
        ("span at once, clock", "threadkeep", 2),
        ("span at once, processor", "threadkeep", 2),
        ("span at once, processor", PLAIN, 2),
        ("span at once : plain pass", "threadkeep", 2),
        ("new on a thread, clock", "threadkeep", 2),
        ("new on a thread, processor", "threadkeep", 2),
        ("new on a thread, processor", PLAIN, 2),
        ("new on a thread : plain pass", "threadkeep", 2),
        ("whole compaction there", "threadkeep", 1),
        ("memory, all of it", "threadkeep", 1),
        ("one of a row, early", "threadkeep", 1),
        ("one of a row, late", "threadkeep", 1),
        ("window, late", "threadkeep", 1),
    ]
    assert all(figure.value.median > 0 for figure in tiny.figures)
    assert len(said) == 4


def test_a_bound_for_a_million_tokens_is_not_told_by_fewer(tiny: Compacted) -> None:
    """Too short a run cannot meet a bound: what every run takes is no share of a short text."""
    assert [(target.bound, target.met) for target in tiny.targets] == [
        ("≤ 1000 ms", None),
        ("≤ 50 ms", None),
        ("≤ 5 ×", None),
    ]


def test_the_thread_that_a_little_is_added_to_was_compacted_on_the_way() -> None:
    """Its window holds a state, and at least as much as was to be added since."""
    thread = grown(RESPONSES, 30_000, seed=2, compact_every=6_000)
    history = thread.history()
    assert history.checkpoint is not None
    since = [e.tokens for e in history.entries if e.source is not None and e.source.ordinal > (history.checkpoint_ordinal or 0)]
    assert sum(since) >= 6_000


def test_the_same_seed_gives_the_same_bytes() -> None:
    """Two runs measure the same text."""

    def bodies(seed: int) -> list[bytes]:
        thread = Growing(RESPONSES)
        for items, _ in zip(session_turns(seed=seed), range(4), strict=False):
            thread.add(items)
        return [item.raw for item in thread.history().items]

    assert bodies(2) == bodies(2) != bodies(3)
    assert plain_pass([b'{"a":"two words"}']) == 10


def test_the_command_prints_figures_or_one_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """For people a table with verdicts, for machines the contract; the same object goes into a file."""
    monkeypatch.setattr(compaction_run, "QUICK", TINY)
    where = tmp_path / "figures.json"
    args = Namespace(what="compaction", full=False, seed=2, output=str(where), json=True)
    assert bench.run(args) == 0
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["bench", "plan", "seed", "seconds", "machine", "figures", "targets"]
    assert json.loads(where.read_bytes()) == printed
    assert bench.run(Namespace(what="compaction", full=False, seed=2, output=None, json=False)) == 0
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("span at once : plain pass", "Targets", "not told"))


def test_a_folder_that_is_not_there_is_refused_before_anything_is_measured(tmp_path: Path) -> None:
    """A run takes its time; where it would be written is looked at first."""
    with pytest.raises(BadInput):
        bench.run(Namespace(what="compaction", full=False, seed=2, output=str(tmp_path / "no" / "x.json"), json=False))
