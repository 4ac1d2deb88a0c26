"""What the figures rest on: the same rows for everyone, rounds in turns, threads that end alike."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from benchmarks.result import Competitor, Found, Result, describe_machine
from benchmarks.samples import Summary, sample_interleaved, summarise, summarise_ratios
from benchmarks.store.growth import THREAD, grow, make_real_checkpoint
from benchmarks.store.peers import Entrant, entrants
from benchmarks.store.workload import Workload
from benchmarks.tables import Table, build_tables, list_targets
from threadkeep import Config, Threadkeep


@pytest.mark.slow
def test_a_seed_gives_the_same_rows() -> None:
    """Two workloads of one seed draw the same bytes, another seed draws others."""
    first, again, other = ([row.body for row in islice(Workload(seed=seed).rows(), 40)] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_told_again_a_turn_is_new() -> None:
    """Where the sessions begin anew, their calls and answers are other bytes; only what users say comes twice."""
    turns = list(islice(Workload(seed=1).turns(), 801))
    once, again = turns[0], turns[800]
    assert [item for item in once if item in again] == once[:1]


@pytest.mark.anyio
async def test_rounds_take_turns() -> None:
    """Every contender is sampled once a round, every other round backwards, and the first round is dropped."""
    order: list[str] = []

    def sampler(name: str) -> float:
        order.append(name)
        return float(len(order))

    async def a() -> float:
        return sampler("a")

    async def b() -> float:
        return sampler("b")

    assert await sample_interleaved({"a": a, "b": b}, rounds=2) == {"a": [4.0, 5.0], "b": [3.0, 6.0]}
    assert order == ["a", "b", "b", "a", "a", "b"]


def test_a_ratio_is_taken_round_by_round() -> None:
    """A round that was slow for both changes nothing."""
    assert summarise_ratios([2.0, 20.0, 2.0], [1.0, 10.0, 1.0]) == Summary(median=2.0, low=2.0, high=2.0, samples=3)
    assert summarise([1.0, 2.0, 3.0, 4.0, 5.0]) == Summary(median=3.0, low=2.0, high=4.0, samples=5)


@pytest.mark.anyio
async def test_long_threads_end_in_the_same_window(tmp_path: Path) -> None:
    """A thread of a thousand records and one of three thousand have the same window, and both are sound."""
    workload = Workload(seed=1)
    model = await make_real_checkpoint(tmp_path, workload=workload)
    windows = []
    for size in (1_000, 3_000):
        grown = await grow(tmp_path / f"{size}.db", records=size, workload=workload, model=model)
        assert size - 50 < grown.records <= size
        async with Threadkeep(Config(store=str(grown.path))) as tk:
            thread = await tk.thread(THREAD)
            windows.append(list(await thread.window()))
            assert (await tk.backend.store.get(THREAD)).next == grown.records
            assert (await tk.verify()).problems == ()
    assert windows[0] == windows[1]


@pytest.mark.anyio
@pytest.mark.parametrize("entrant", entrants(), ids=lambda entrant: entrant.name)
async def test_a_contender_keeps_what_it_is_given(entrant: Entrant, tmp_path: Path) -> None:
    """Appended one by one and in batches, all items come back through a new handle, durably written."""
    if entrant.version is None:
        pytest.skip("not installed")
    rows = list(islice(Workload(seed=1).rows(), 12))
    contender = await entrant.open(tmp_path)
    try:
        await contender.append("a", rows[:1])
        await contender.append("b", rows[:3])
        await contender.append("a", rows[1:])
        assert (await contender.resume("a"), await contender.resume("b")) == (12, 3)
        assert contender.durability.startswith("WAL, synchronous FULL")
    finally:
        await contender.close()


def test_a_report_sets_figures_side_by_side() -> None:
    """What several did is shown by name, what threadkeep alone did by length, and a value nobody has is a dash."""
    found = Found()
    found.add("append 1 row", "threadkeep", "ms", Summary(median=0.5, low=0.4, high=0.8, samples=5))
    found.add("append 1 row", "raw SQLite", "ms", Summary(median=0.25, low=0.25, high=0.25, samples=1))
    found.add("fork", "threadkeep", "ms", Summary(median=12.0, low=10.0, high=14.0, samples=5), size=10)
    found.add("resume", "threadkeep", "ms", Summary(median=1234.5, low=1234.5, high=1234.5, samples=1), size=1_000)
    found.hold_below("fork", at_most=1.5, value=Summary(median=2.0, low=1.0, high=3.0, samples=5), unit="×")
    found.hold_below("resume", at_most=10, value=None, unit="ms")
    still = Summary(median=0.2, low=0.2, high=0.2, samples=1)
    result = Result(
        bench="store",
        plan="none",
        seed=1,
        seconds=1.0,
        machine=describe_machine(fsync_before=still, fsync_after=still),
        contenders=[
            Competitor(name="threadkeep", version="1", durability="WAL", note=""),
            Competitor(name="raw SQLite", version="3", durability="WAL", note=""),
            Competitor(name="someone else", version=None, durability=None, note=""),
        ],
        figures=found.figures,
        targets=found.targets,
    )
    beside, by_length = build_tables(result)
    assert (beside.columns, beside.rows) == (["", ">threadkeep", ">SQLite"], [["append 1 row, ms", "0.50±0.20", "0.25"]])
    assert by_length == Table(
        title="By the thread's length in records",
        aside="the same window at every length",
        columns=["", ">10", ">1,000"],
        rows=[["fork, ms", "12.0±2.00", "–"], ["resume, ms", "–", "1,234"]],
    )
    assert list_targets(result.targets) == [
        ("missed", "2.00 × (1.00–3.00)", "≤ 1.5 ×", "fork"),
        ("not told", "not measured", "≤ 10 ms", "resume"),
    ]
