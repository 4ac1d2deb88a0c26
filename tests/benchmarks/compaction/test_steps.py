"""A bound on time is judged by the clock."""

from __future__ import annotations

from benchmarks.compaction.steps import Took, hold_by_clock
from benchmarks.result import Found, Target


def test_a_bound_is_judged_by_the_clock_with_the_processor_beside_it() -> None:
    """A wait that no processor works through is a wait; a run too short to tell is shown and not judged."""
    found = Found()
    waited = [Took(wall_ms=70.0, cpu_ms=1.0)]
    hold_by_clock(found, "it", waited, at_most_ms=60)
    hold_by_clock(found, "it", waited, at_most_ms=60, told=False)
    shown = "70.0 ms, processor 1.0 ms"
    assert found.targets == [
        Target(what="it", bound="≤ 60 ms", found=shown, met=False),
        Target(what="it", bound="≤ 60 ms", found=shown, met=None),
    ]
