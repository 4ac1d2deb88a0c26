"""Two budgets and two scopes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadkeep.tokens import Limits, Pressure, Scope, count_uncharged, measure_pressure

LIMITS = Limits(soft=75, hard=90, full=95, body_bytes=1_000)


def due(pressure: Pressure) -> tuple[bool, bool, str]:
    return pressure.worth_preparing, pressure.must_compact, pressure.binds


@pytest.mark.parametrize(
    ("tokens", "body_bytes", "expected"),
    [
        (10, 0, (False, False, "tokens")),
        (10, 749, (False, False, "bytes")),
        (10, 750, (True, False, "bytes")),
        (10, 899, (True, False, "bytes")),
        (10, 900, (True, True, "bytes")),
        (90, 900, (True, True, "tokens")),
        (80, 500, (True, False, "tokens")),
        (95, 2_000, (True, True, "bytes")),
    ],
)
def test_the_fuller_budget_binds_and_either_one_can_be_due(
    tokens: int, body_bytes: int, expected: tuple[bool, bool, str]
) -> None:
    """Screenshots fill the request long before the window; at the limit counts as over it, and a tie is the window's."""
    assert due(measure_pressure(limits=LIMITS, estimated=tokens, body_bytes=body_bytes)) == expected


def test_without_a_body_limit_bytes_never_bind() -> None:
    """A provider that says nothing about its bodies is asked about tokens alone."""
    limits = Limits.of_window(100)
    assert due(measure_pressure(limits=limits, estimated=10, body_bytes=10**12)) == (False, False, "tokens")


def test_the_body_limit_stands_beside_the_windows() -> None:
    """It moves none of them."""
    assert Limits.of_window(272_000, body_bytes=32_000_000) == Limits(
        soft=204_000, hard=244_800, full=258_400, body_bytes=32_000_000
    )


@given(st.integers(0, 200), st.integers(0, 2_000))
def test_what_must_happen_was_worth_preparing(tokens: int, body_bytes: int) -> None:
    """In either budget."""
    pressure = measure_pressure(limits=LIMITS, estimated=tokens, body_bytes=body_bytes)
    assert pressure.worth_preparing or not pressure.must_compact


@pytest.mark.parametrize(
    ("scope", "baseline", "uncharged"),
    [
        ("total", None, 0),
        ("total", 400, 0),
        ("body_after_prefix", 400, 400),
        ("body_after_prefix", None, 1_000),
        ("body_after_prefix", 5_000, 1_000),
        ("body_after_prefix", -3, 0),
    ],
)
def test_the_prefix_of_a_window_is_charged_or_not(scope: Scope, baseline: int | None, uncharged: int) -> None:
    """Until a provider has counted the prefix, all of the window is prefix."""
    assert count_uncharged(scope=scope, active=1_000, baseline=baseline) == uncharged


def test_a_limit_on_the_body_is_not_clamped_and_the_full_window_still_caps() -> None:
    """After a prefix of 80,000 tokens a limit of 100,000 is reached at 180,000, and 190,000 are too many in any scope."""
    limits = Limits.of_window(200_000, auto_limit=100_000, scope="body_after_prefix")
    assert Limits.of_window(200_000, auto_limit=300_000, scope="body_after_prefix").hard == 300_000
    reached = [
        measure_pressure(limits=limits, estimated=tokens, scope="body_after_prefix", baseline=baseline).must_compact
        for tokens, baseline in ((179_999, 80_000), (180_000, 80_000), (189_999, None), (190_000, None))
    ]
    assert reached == [False, True, False, True]
