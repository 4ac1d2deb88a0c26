"""Limits, and how far an estimate is trusted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.tokens import Calibration, Limits, measure_pressure


def test_the_limits_of_a_window_are_codexs() -> None:
    """90 % is hard, 95 % is full, 75 % is where preparing begins."""
    assert Limits.of_window(272_000) == Limits(soft=204_000, hard=244_800, full=258_400)


@pytest.mark.parametrize(("auto", "hard", "soft"), [(100_000, 100_000, 83_333), (260_000, 244_800, 204_000), (1, 1, 0)])
def test_an_own_limit_moves_the_hard_one_down_and_never_above_its_ceiling(auto: int, hard: int, soft: int) -> None:
    """Soft is the same share of it, so that there is something to prepare in."""
    assert Limits.of_window(272_000, auto_limit=auto) == Limits(soft=soft, hard=hard, full=258_400)


@given(st.integers(1, 2_000_000), st.none() | st.integers(1, 2_000_000))
def test_limits_are_ordered(window: int, auto: int | None) -> None:
    """soft <= hard <= full, for any window and any wish."""
    limits = Limits.of_window(window, auto_limit=auto)
    assert limits.soft <= limits.hard <= limits.full


def test_pressure_says_what_is_due() -> None:
    """At the limit counts as over it."""
    limits = Limits(soft=10, hard=20, full=30)
    found = [measure_pressure(limits=limits, estimated=tokens) for tokens in (9, 10, 19, 20)]
    assert [(each.worth_preparing, each.must_compact) for each in found] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize(
    ("estimated", "counted", "corrected"),
    [(1_000, 1_500, 300), (1_000, 500, 100), (0, 500, 200), (1_000, 0, 200), (1, 1_000_000, 800), (1_000_000, 1, 50)],
)
def test_real_usage_corrects_the_estimate_within_a_factor_of_four(estimated: int, counted: int, corrected: int) -> None:
    """One odd report neither silences nor storms the trigger."""
    assert Calibration(estimated=estimated, counted=counted).apply(200) == corrected
