"""How full a window is, against which limits, and how far the estimate is to be trusted."""

from __future__ import annotations

from dataclasses import dataclass

EFFECTIVE_PERCENT = 95
AUTO_PERCENT = 90
SOFT_PERCENT = 75


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Where a window gets tight, in tokens.

    soft: a compaction is worth preparing. hard: it must happen before the next request. full: the provider refuses.
    """

    soft: int
    hard: int
    full: int

    @classmethod
    def of_window(cls, window: int, *, auto_limit: int | None = None) -> Limits:
        """Return the limits of a model whose context window has `window` tokens.

        `auto_limit` moves the hard limit, but never above 90 % of the window.
        """
        ceiling = window * AUTO_PERCENT // 100
        hard = ceiling if auto_limit is None else min(auto_limit, ceiling)
        return cls(soft=min(window * SOFT_PERCENT // 100, hard), hard=hard, full=window * EFFECTIVE_PERCENT // 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """What a provider really counted for something we had estimated."""

    estimated: int
    counted: int

    def apply(self, tokens: int) -> int:
        """Return an estimate corrected by what the last real usage taught, within a factor of four.

        The bound keeps one odd report (a cached-only count, another model's tokens) from silencing or storming the trigger.
        """
        if self.estimated <= 0 or self.counted <= 0:
            return tokens
        ratio = min(4.0, max(0.25, self.counted / self.estimated))
        return round(tokens * ratio)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """How full the window is."""

    tokens: int
    limits: Limits

    @property
    def worth_preparing(self) -> bool:
        return self.tokens >= self.limits.soft

    @property
    def must_compact(self) -> bool:
        return self.tokens >= self.limits.hard


def measure_pressure(*, limits: Limits, estimated: int, calibration: Calibration | None = None) -> Pressure:
    """Return the pressure of a window whose items are estimated at `estimated` tokens."""
    return Pressure(tokens=calibration.apply(estimated) if calibration else estimated, limits=limits)
