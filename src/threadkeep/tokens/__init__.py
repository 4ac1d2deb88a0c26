"""How much of a context window something takes."""

from __future__ import annotations

from threadkeep.tokens.estimate import estimate_bytes, estimate_item, estimate_text, visible_bytes
from threadkeep.tokens.exact import exact_counter, why_inexact
from threadkeep.tokens.pressure import Budget, Calibration, Limits, Pressure, Scope, measure_pressure, uncharged_prefix

__all__ = [
    "Budget",
    "Calibration",
    "Limits",
    "Pressure",
    "Scope",
    "estimate_bytes",
    "estimate_item",
    "estimate_text",
    "exact_counter",
    "measure_pressure",
    "uncharged_prefix",
    "visible_bytes",
    "why_inexact",
]
