"""How much of a context window something takes."""

from __future__ import annotations

from holdfast.tokens.estimate import estimate_bytes, estimate_item, estimate_text, visible_bytes
from holdfast.tokens.exact import exact_counter, why_inexact
from holdfast.tokens.pressure import Budget, Calibration, Limits, Pressure, Scope, measure_pressure, uncharged_prefix
from holdfast.tokens.scripts import Vocabulary, estimate_by_script

__all__ = [
    "Budget",
    "Calibration",
    "Limits",
    "Pressure",
    "Scope",
    "Vocabulary",
    "estimate_by_script",
    "estimate_bytes",
    "estimate_item",
    "estimate_text",
    "exact_counter",
    "measure_pressure",
    "uncharged_prefix",
    "visible_bytes",
    "why_inexact",
]
