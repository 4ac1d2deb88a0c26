"""Token estimates and the limits of a context window."""

from __future__ import annotations

from threadkeep.tokens.estimate import count_visible_bytes, estimate_bytes, estimate_item, estimate_text
from threadkeep.tokens.pressure import Budget, Calibration, Limits, Pressure, Scope, count_uncharged, measure_pressure

__all__ = [
    "Budget",
    "Calibration",
    "Limits",
    "Pressure",
    "Scope",
    "count_uncharged",
    "count_visible_bytes",
    "estimate_bytes",
    "estimate_item",
    "estimate_text",
    "measure_pressure",
]
