"""Takes samples in rounds and sums them up."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PROBE_BYTES = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A median and the middle half around it."""

    median: float
    low: float
    high: float
    samples: int


def summarise(samples: Sequence[float]) -> Summary:
    """Return the median of at least one sample, with its quartiles."""
    if len(samples) == 1:
        return Summary(median=samples[0], low=samples[0], high=samples[0], samples=1)
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Summary(median=median, low=low, high=high, samples=len(samples))


def summarise_ratios(samples: Sequence[float], others: Sequence[float]) -> Summary:
    """Return how many times the others' value ours is, round by round: what slows a whole round down cancels out."""
    return summarise([mine / theirs for mine, theirs in zip(samples, others, strict=True)])


async def measure_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return how long awaiting `work` took."""
    began = time.perf_counter_ns()
    await work()
    return (time.perf_counter_ns() - began) / 1e6


async def sample_interleaved(
    contenders: Mapping[str, Callable[[], Awaitable[float]]], *, rounds: int, warm_up: int = 1
) -> dict[str, list[float]]:
    """Sample every contender once a round, all of them before the next round begins, and drop the first rounds.

    A disk that changes its pace, or a neighbour that wakes up, then meets everyone alike. Every other round goes
    backwards, so that nobody always runs in another's wake.
    """
    samples: dict[str, list[float]] = {name: [] for name in contenders}
    for at in range(warm_up + rounds):
        order = list(contenders)
        for name in order if at % 2 == 0 else reversed(order):
            taken = await contenders[name]()
            if at >= warm_up:
                samples[name].append(taken)
    return samples


def measure_fsync(folder: Path, *, times: int) -> Summary:
    """Return what it costs to make one appended page durable in `folder`."""
    path = folder / "fsync.probe"
    taken: list[float] = []
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(times):
            os.write(descriptor, bytes(PROBE_BYTES))
            began = time.perf_counter_ns()
            os.fsync(descriptor)
            taken.append((time.perf_counter_ns() - began) / 1e6)
    finally:
        os.close(descriptor)
        path.unlink()
    return summarise(taken)
