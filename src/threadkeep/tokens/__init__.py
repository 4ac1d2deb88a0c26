"""Token estimates, exact counts, and the limits of a context window."""

from __future__ import annotations

from threadkeep.tokens.estimate import count_visible_bytes, estimate_bytes, estimate_item, estimate_text
from threadkeep.tokens.exact import explain_inexact, find_counter
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
    "explain_inexact",
    "find_counter",
    "measure_pressure",
]
