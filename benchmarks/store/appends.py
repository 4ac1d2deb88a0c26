"""Times appends: one row at a time, one turn at a time, and sixty-four writers at once, with the same rows for everyone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

from benchmarks.result import Found
from benchmarks.samples import Summary, measure_ms, sample_interleaved, summarise, summarise_ratios
from benchmarks.store.peers import Contender
from benchmarks.store.workload import Row, Workload

THREADKEEP = "threadkeep"
RAW = "raw SQLite"
THREAD = "appended"
MOST_OVER_RAW = 1.3
# An fsync of three milliseconds or more is what sharing one is for; below, the bound is a rate.
SLOW_FSYNC_MS = 3.0
SHARING_GAIN = 20.0
SHARED_RATE = 5_000.0


async def measure_appends(
    open_ones: Mapping[str, Contender], found: Found, *, workload: Workload, rounds: int, rows: int, turns: int
) -> list[Row]:
    """Time appends of single rows, then of whole turns; return all rows that everyone now holds."""
    drawn = workload.row_turns()
    singles = [[row] for row in islice((row for turn in drawn for row in turn), rows * (rounds + 1))]
    groups = list(islice(drawn, turns * (rounds + 1)))
    for measure, batches, each in (("append 1 row", singles, rows), ("append 1 turn", groups, turns)):
        taken = {name: _appender(contender, batches, each=each) for name, contender in open_ones.items()}
        samples = await sample_interleaved(taken, rounds=rounds)
        for name, values in samples.items():
            found.add(measure, name, "ms", summarise(values))
        for name, values in samples.items():
            if name != THREADKEEP:
                _hold_beside(found, measure, name, summarise_ratios(samples[THREADKEEP], values))
    return [row for batch in (*singles, *groups) for row in batch]


def _appender(contender: Contender, batches: Sequence[Sequence[Row]], *, each: int) -> Callable[[], Awaitable[float]]:
    """Return a sampler: the mean of the next `each` appends, one after another."""
    pending = iter(batches)

    async def sample() -> float:
        async def work() -> None:
            for batch in islice(pending, each):
                await contender.append(THREAD, batch)

        return await measure_ms(work) / each

    return sample


def _hold_beside(found: Found, measure: str, name: str, ratio: Summary) -> None:
    """Hold ours over theirs: a little above SQLite itself, below anyone else."""
    found.hold_below(f"{measure} : {name}", at_most=MOST_OVER_RAW if name == RAW else 1.0, value=ratio, unit="×")


async def measure_sharing(
    open_ones: Mapping[str, Contender], found: Found, *, workload: Workload, rounds: int, writers: int, fsync_ms: float
) -> None:
    """Time one writer, then many at once, each waiting for its own append to be durable before it makes the next."""
    rows = list(islice(workload.rows(), writers * 8))
    crowds: dict[str, Callable[[], Awaitable[float]]] = {}
    for name, contender in open_ones.items():
        if contender.shares_commits:
            crowds[f"{name}/1"] = _crowd(contender, rows[: max(8, writers)], writers=1)
            crowds[f"{name}/{writers}"] = _crowd(contender, rows, writers=writers)
    samples = await sample_interleaved(crowds, rounds=rounds)
    for key, taken in samples.items():
        name, _, crowd = key.rpartition("/")
        found.add("1 writer" if crowd == "1" else f"{crowd} writers", name, "rows/s", summarise(taken))
    alone, together = (summarise(samples[f"{THREADKEEP}/{crowd}"]).median for crowd in (1, writers))
    if fsync_ms >= SLOW_FSYNC_MS:
        gain = together / alone
        found.hold(
            f"{writers} writers share commits", bound=f"≥ {SHARING_GAIN:g} ×", found=f"{gain:.1f} ×", met=gain >= SHARING_GAIN
        )
    else:
        told = f"{together:,.0f}/s"
        found.hold(f"{writers} writers share commits", bound=f"≥ {SHARED_RATE:,.0f}/s", found=told, met=together >= SHARED_RATE)


def _crowd(contender: Contender, rows: Sequence[Row], *, writers: int) -> Callable[[], Awaitable[float]]:
    """Return a sampler: rows a second of `writers` tasks, each on a thread of its own."""

    async def write(number: int) -> None:
        for row in rows[number::writers]:
            await contender.append(f"writer-{writers}-{number}", [row])

    async def sample() -> float:
        began = time.perf_counter()
        await asyncio.gather(*(write(number) for number in range(writers)))
        return len(rows) / (time.perf_counter() - began)

    return sample


def measure_sizes(folders: Mapping[str, Path], found: Found, *, rows: Sequence[Row]) -> None:
    """Put down how many bytes each closed store takes for the rows of `measure_appends`, beside their JSON."""
    plain = sum(len(row.body) for row in rows)
    for name, folder in folders.items():
        size = sum(file.stat().st_size for file in folder.iterdir())
        found.add("file of", name, "× JSON", summarise([size / plain]), size=len(rows))
