"""A whole run at a size that proves nothing about speed and everything about completeness."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import pytest
from tests.benchmarks.conftest import TINY

from benchmarks.command import main as bench
from benchmarks.result import Result
from benchmarks.store.peers import entrants
from benchmarks.tables import build_tables, list_facts
from threadkeep.errors import BadInput

pytestmark = pytest.mark.slow

PRESENT = [entrant.name for entrant in entrants() if entrant.version is not None]
SIZES = (10, 1_000)


@pytest.mark.anyio
async def test_every_measure_yields_a_figure(tiny_run: Result) -> None:
    """Everyone installed has a figure for what all can do; threadkeep has one at every length for what it alone can."""
    found = [(figure.measure, figure.contender, figure.size) for figure in tiny_run.figures]
    beside = [(measure, name) for measure in ("append 1 row", "append 1 turn", "file of", "load all") for name in PRESENT]
    by_length = ("peak memory", "lookup, known", "lookup, unknown", "append", "fork in the middle", "rollback, one turn")
    assert [(measure, name) for measure, name, _ in found if (measure, name) in beside] == beside
    assert [each for each in found if each[0] in by_length] == [
        (measure, "threadkeep", size) for measure in by_length for size in SIZES
    ]
    assert [each for each in found if each[0] in ("resume, from closed", "window, store open")] == [
        ("resume, from closed", "threadkeep", 1_000),
        ("window, store open", "threadkeep", 1_000),
    ]
    assert all(figure.value.median > 0 for figure in tiny_run.figures)


@pytest.mark.anyio
async def test_every_target_of_the_store_is_held(tiny_run: Result) -> None:
    """Each bound the design sets for the store is among the targets, with its verdict; what was not measured says so."""
    held = {target.what: target.met for target in tiny_run.targets}
    assert [what for what in held if "agents" not in what and "langgraph" not in what] == [
        "append 1 row : raw SQLite",
        "append 1 turn : raw SQLite",
        "4 writers share commits",
        "file without search, over 2 checkpoints",
        "file with search, over 2 checkpoints",
        "resume at 10,000 records",
        "append, 1,000 : 10",
        "fork in the middle, 1,000 : 10",
        "rollback, one turn, 1,000 : 10",
    ]
    assert held["resume at 10,000 records"] is None
    assert [what for what, met in held.items() if met is None] == ["resume at 10,000 records"]


@pytest.mark.anyio
async def test_who_is_missing_is_said(tiny_run: Result) -> None:
    """A framework that is not installed stands in the facts as such, and in no table."""
    missing = [each.name for each in tiny_run.contenders if each.version is None]
    assert [line for line in list_facts(tiny_run) if "not installed" in line] == [
        line for line in list_facts(tiny_run) if line.split(":")[0] in missing
    ]
    assert {figure.contender for figure in tiny_run.figures} == set(PRESENT)
    assert build_tables(tiny_run)[0].columns == ["", *(f">{name.split()[-1]}" for name in PRESENT)]


@pytest.mark.anyio
async def test_progress_is_said_on_the_way(tiny_run: Result, said: list[str]) -> None:
    """Each phase is named before it begins, the long ones with their length."""
    assert tiny_run.plan == "tiny"
    assert (said[0], said[-1]) == ("timing fsync", "appending, forking and rolling back at every length")
    assert [line for line in said if "building" in line] == [
        f"building a thread of {size:,} records, in batches" for size in SIZES
    ]


def test_the_command_prints_and_writes_one_object(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """`--json` prints the object with the documented keys, `-o` writes the same bytes."""
    monkeypatch.setattr("benchmarks.command.measures.QUICK", TINY)
    written = tmp_path / "store.json"
    assert bench.run(Namespace(what="store", full=False, seed=3, json=True, output=str(written))) == 0
    printed = capfdbinary.readouterr().out
    told = json.loads(printed)
    assert written.read_bytes() == printed
    assert list(told) == ["bench", "plan", "seed", "seconds", "machine", "contenders", "figures", "targets"]
    assert list(told["figures"][0]) == ["measure", "contender", "unit", "value", "size"]
    assert list(told["figures"][0]["value"]) == ["median", "low", "high", "samples"]
    assert list(told["targets"][0]) == ["what", "bound", "found", "met"]
    assert list(told["contenders"][0]) == ["name", "version", "durability", "note"]


def test_an_output_that_cannot_be_written_is_refused_at_once(tmp_path: Path) -> None:
    """A folder that is not there is named before minutes are spent measuring."""
    nowhere = str(tmp_path / "nowhere" / "store.json")
    with pytest.raises(BadInput, match="there is no folder"):
        bench.run(Namespace(what="store", full=False, seed=3, json=True, output=nowhere))
