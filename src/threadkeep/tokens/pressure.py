"""How full a window is, measured against its limits with an estimate corrected by real usage.

There are two budgets: the model's window in tokens, and the bytes a provider accepts in one request. Screenshots fill the second
long before the first. Real usage corrects the estimate (`Calibration`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EFFECTIVE_PERCENT = 95
AUTO_PERCENT = 90
SOFT_PERCENT = 75
# Tokenizers differ from four bytes a token by less than this factor, except on text made for it.
TRUST_FACTOR = 4

Scope = Literal["total", "body_after_prefix"]
Budget = Literal["tokens", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a window.

    In tokens: from `soft` on a compaction is worth preparing, from `hard` on it must happen before the next request, from `full`
    on the provider refuses. `body_bytes` is the largest request the provider accepts; the same shares of it are soft and hard.
    """

    soft: int
    hard: int
    full: int
    body_bytes: int | None = None

    @classmethod
    def of_window(
        cls,
        window: int,
        *,
        auto_limit: int | None = None,
        soft_limit: int | None = None,
        scope: Scope = "total",
        body_bytes: int | None = None,
    ) -> Limits:
        """Return the limits of a model whose context window has `window` tokens.

        `auto_limit` sets the hard limit, at most 90 % of the window; if only the body after the prefix is charged, it counts as
        given and the full window remains the cap. `soft_limit` sets the soft limit, at most the hard one; its default is five
        sixths of the hard limit.
        """
        ceiling = window * AUTO_PERCENT // 100
        hard = ceiling if auto_limit is None else auto_limit if scope == "body_after_prefix" else min(auto_limit, ceiling)
        share = min(window * SOFT_PERCENT // 100, hard * SOFT_PERCENT // AUTO_PERCENT)
        soft = share if soft_limit is None else min(soft_limit, hard)
        return cls(soft=soft, hard=hard, full=window * EFFECTIVE_PERCENT // 100, body_bytes=body_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A provider's count beside our estimate of the same request."""

    estimated: int
    counted: int

    def apply(self, tokens: int) -> int:
        """Return an estimate corrected by the last real usage, within a factor of four.

        The bound keeps one odd report (a cached-only count, another model's tokens) from suppressing or flooding compactions.
        """
        if self.estimated <= 0 or self.counted <= 0:
            return tokens
        return round(tokens * min(float(TRUST_FACTOR), max(1 / TRUST_FACTOR, self.counted / self.estimated)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full the window is.

    Attributes:
        tokens: The size of the next request.
        uncharged: How many of them do not count towards soft and hard (`count_uncharged`).
        body_bytes: The size of the next request on the wire.
    """

    tokens: int
    limits: Limits
    uncharged: int = 0
    body_bytes: int = 0

    @property
    def worth_preparing(self) -> bool:
        return self.must_compact or self._charged >= self.limits.soft or self._fills_body(SOFT_PERCENT)

    @property
    def must_compact(self) -> bool:
        return self._charged >= self.limits.hard or self.tokens >= self.limits.full or self._fills_body(AUTO_PERCENT)

    @property
    def binds(self) -> Budget:
        """The budget that is fuller relative to its hard limit; tokens on a tie."""
        if self.limits.body_bytes is None:
            return "tokens"
        # Whole numbers, so that a tie is a tie: charged / hard against bytes / (90 % of the body).
        of_window = max(self._charged * self.limits.full, self.tokens * self.limits.hard)
        return (
            "bytes"
            if self.body_bytes * 100 * self.limits.hard * self.limits.full > of_window * self.limits.body_bytes * AUTO_PERCENT
            else "tokens"
        )

    @property
    def _charged(self) -> int:
        return self.tokens - self.uncharged

    def _fills_body(self, percent: int) -> bool:
        limit = self.limits.body_bytes
        return limit is not None and self.body_bytes * 100 >= limit * percent


def count_uncharged(*, scope: Scope, active: int, baseline: int | None) -> int:
    """Return how many of a window's `active` tokens do not count towards its automatic limit.

    With scope `total` none. With `body_after_prefix` the window's prefix: `baseline`, the provider's first count in this
    window. Until there is one the whole window is prefix and nothing is charged; the full window remains the cap.
    """
    if scope == "total":
        return 0
    return active if baseline is None else min(max(baseline, 0), active)


def measure_pressure(
    *,
    limits: Limits,
    estimated: int,
    calibration: Calibration | None = None,
    scope: Scope = "total",
    baseline: int | None = None,
    body_bytes: int = 0,
) -> Pressure:
    """Return the pressure of a window whose items are estimated at `estimated` tokens."""
    tokens = estimated if calibration is None else calibration.apply(estimated)
    uncharged = count_uncharged(scope=scope, active=tokens, baseline=baseline)
    return Pressure(tokens=tokens, limits=limits, uncharged=uncharged, body_bytes=body_bytes)
