"""The timed steps of a compaction, and the plain pass over the same bytes they are compared with."""

from __future__ import annotations

import json
import re
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.result import Found
from benchmarks.samples import summarise
from threadkeep.compaction import Ledger
from threadkeep.compaction.audit import Audited, audit
from threadkeep.compaction.merge import merge_observed
from threadkeep.compaction.plan import plan_cut, read_positions, size_frontier
from threadkeep.dialects import Dialect
from threadkeep.threads import History, Tip

_token = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Took:
    """How long something took: on the clock, and of a processor."""

    wall_ms: float
    cpu_ms: float


def timed(work: Callable[[], object]) -> Took:
    """Return how long `work` took."""
    wall, cpu = time.perf_counter_ns(), time.process_time_ns()
    work()
    return Took(wall_ms=(time.perf_counter_ns() - wall) / 1e6, cpu_ms=(time.process_time_ns() - cpu) / 1e6)


def hold_by_clock(found: Found, what: str, took: Sequence[Took], *, at_most_ms: float, told: bool = True) -> None:
    """Hold what people wait, which is the clock's time, against its bound, and show the processor's beside it.

    Args:
        told: Whether a run of this size can tell; else what was found is shown, and not judged.
    """
    wall, cpu = summarise([each.wall_ms for each in took]), summarise([each.cpu_ms for each in took])
    spread = f" ({wall.low:.1f}–{wall.high:.1f})" if wall.samples > 1 else ""
    shown = f"{wall.median:.1f} ms{spread}, processor {cpu.median:.1f} ms"
    found.hold(what, bound=f"≤ {at_most_ms:g} ms", found=shown, met=wall.median <= at_most_ms if told else None)


def plan_merge_audit(history: History, ledger: Ledger, *, dialect: Dialect, tip: Tip) -> Audited:
    """Return the audited ledger of a compaction without a model: every step of it but the writing of the checkpoint."""
    budget = size_frontier(history.tokens, window_tokens=None)
    plan = plan_cut(read_positions(history, view=dialect.view, tip=tip), frontier_tokens=budget)
    return audit(plan, merge_observed(ledger, plan.observed))


def plain_pass(bodies: Sequence[bytes]) -> int:
    """Decode each body and cut its text into words: the least that anyone does who reads a history at all."""
    words = 0
    for body in bodies:
        json.loads(body)
        words += len(_token.findall(body.decode("utf-8", "replace")))
    return words


def peak_bytes(make: Callable[[], History], work: Callable[[History], object]) -> int:
    """Return the most memory held while a history is made and worked on, of what was not held before."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work(make())
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak - before
