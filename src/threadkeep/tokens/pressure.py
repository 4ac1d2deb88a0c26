"""How full a window is, against which limits, and how far the estimate is to be trusted.

Two budgets: the model's window in tokens, and the bytes a provider takes in one request. Screenshots fill the second long
before the first. Real usage corrects the estimate by one of two rules (`Calibration`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

EFFECTIVE_PERCENT = 95
AUTO_PERCENT = 90
SOFT_PERCENT = 75
# Known tokenizers differ from four bytes to a token by less than this factor, on any text that is not made for it.
TRUST_FACTOR = 4

Scope = Literal["total", "body_after_prefix"]
Budget = Literal["tokens", "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a window gets tight.

    In tokens: `soft`, a compaction is worth preparing; `hard`, it must happen before the next request; `full`, the
    provider refuses. `body_bytes` is the largest request the provider takes; the same shares of it are soft and hard.
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

        `auto_limit` moves the hard limit, but never above 90 % of the window; unless only the body after the prefix is
        charged, where it holds as given and the full window remains the cap. `soft_limit` is where a compaction is worth
        preparing, without it five sixths of the way to the hard limit; never above that.
        """
        ceiling = window * AUTO_PERCENT // 100
        hard = ceiling if auto_limit is None else auto_limit if scope == "body_after_prefix" else min(auto_limit, ceiling)
        share = min(window * SOFT_PERCENT // 100, hard * SOFT_PERCENT // AUTO_PERCENT)
        soft = share if soft_limit is None else min(soft_limit, hard)
        return cls(soft=soft, hard=hard, full=window * EFFECTIVE_PERCENT // 100, body_bytes=body_bytes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a provider really counted for something we had estimated.

    Two rules use it. The ratio (`apply`) corrects any estimate of the same thread, a shorter window after a compaction
    included. The carry (`carry`) is Codex's rule and closer where nothing was taken away: the provider's own total for
    what it saw, and the plain estimate only for what came after.
    """

    estimated: int
    counted: int

    @classmethod
    def pick_median(cls, reports: Sequence[Calibration]) -> Calibration | None:
        """Return the report whose ratio is the median of `reports`, the higher of two in the middle; None without any.

        A single odd report among three changes nothing. Reports without a count are no reports.
        """
        usable = sorted((each for each in reports if each.estimated > 0 and each.counted > 0), key=cls._ratio)
        return usable[len(usable) // 2] if usable else None

    def apply(self, tokens: int) -> int:
        """Return an estimate corrected by what the last real usage taught, within a factor of four.

        The bound keeps one odd report (a cached-only count, another model's tokens) from silencing or storming the trigger.
        """
        if self.estimated <= 0 or self.counted <= 0:
            return tokens
        return round(tokens * min(float(TRUST_FACTOR), max(1 / TRUST_FACTOR, self._ratio())))

    def carry(self, later: int) -> int:
        """Return the tokens of what was counted and of what came after, estimated at `later`.

        For this rule `estimated` and `counted` stand for the last request with its answer; the same bound holds.
        """
        return self.apply(self.estimated) + later

    def _ratio(self) -> float:
        return self.counted / self.estimated


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full the window is.

    Attributes:
        tokens: What the next request holds.
        uncharged: How many of them soft and hard do not count (`uncharged_prefix`).
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
        """Which budget is fuller, each measured by its hard limit; tokens if neither is."""
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


def uncharged_prefix(*, scope: Scope, active: int, baseline: int | None) -> int:
    """Return how many of a window's `active` tokens its automatic limit does not count.

    With scope `total` none. With `body_after_prefix` the window's prefix: `baseline`, the provider's first count in this
    window. Until there is one the whole window is prefix, so that nothing is charged; the full window caps it all the same.
    """
    if scope == "total":
        return 0
    return active if baseline is None else min(max(baseline, 0), active)


def measure_pressure(
    *,
    limits: Limits,
    estimated: int,
    calibration: Calibration | None = None,
    later: int | None = None,
    scope: Scope = "total",
    baseline: int | None = None,
    body_bytes: int = 0,
) -> Pressure:
    """Return the pressure of a window whose items are estimated at `estimated` tokens.

    Where `calibration` covers the last request and its answer, and what came after is estimated at `later`, Codex's rule
    gives the tokens; without `later`, the ratio does.
    """
    tokens = estimated
    if calibration is not None:
        tokens = calibration.apply(estimated) if later is None else calibration.carry(later)
    uncharged = uncharged_prefix(scope=scope, active=tokens, baseline=baseline)
    return Pressure(tokens=tokens, limits=limits, uncharged=uncharged, body_bytes=body_bytes)
