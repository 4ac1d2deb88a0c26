"""What is timed sees its text for the first time: no cache of the pure layers is warm when a sample begins."""

from __future__ import annotations

import functools
import gc

import pytest

from threadkeep.bench.compaction import run
from threadkeep.bench.compaction.forgetting import PURE, forget
from threadkeep.bench.compaction.run import Plan, run_compaction
from threadkeep.bench.compaction.steps import Took, hold_by_clock, plan_merge_audit
from threadkeep.bench.result import Found, Target
from threadkeep.compaction import Ledger
from threadkeep.compaction.audit import Audited
from threadkeep.dialects import Dialect
from threadkeep.thread import History, Tip

pytestmark = pytest.mark.slow

TINY = Plan(name="tiny", span_tokens=20_000, new_tokens=5_000, rounds=2, row=1)


def remembered() -> dict[str, int]:
    """How much each cache of the pure layers holds, found without the names that modules give them."""
    caches = [each for each in gc.get_objects() if isinstance(each, functools._lru_cache_wrapper)]
    return {
        f"{cache.__module__}.{cache.__qualname__}": cache.cache_info().currsize
        for cache in caches
        if (cache.__module__ or "").startswith(PURE)
    }


def test_every_cache_of_the_pure_layers_is_emptied() -> None:
    """Whatever a compaction fills, forgetting empties; caches are found by the collector, not by their names."""
    run_compaction(TINY, seed=3, say=lambda text: None)
    assert sum(size > 0 for size in remembered().values()) > 10
    assert forget() >= len(remembered())
    assert {name: size for name, size in remembered().items() if size} == {}


def test_a_span_that_is_seen_once_is_measured_with_empty_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its rounds forgets what the one before saw; where a thread goes on, the process remembers what it did."""
    began: list[bool] = []

    def watched(history: History, ledger: Ledger, *, dialect: Dialect, tip: Tip) -> Audited:
        began.append(not any(remembered().values()))
        return plan_merge_audit(history, ledger, dialect=dialect, tip=tip)

    monkeypatch.setattr(run, "plan_merge_audit", watched)
    run_compaction(TINY, seed=3, say=lambda text: None)
    # Two rounds of the span, cold and warm; two of a thread that goes on; the same as in a process that just began.
    assert began[:10] == [True, False, True, False, False, False, True, False, True, False]


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
