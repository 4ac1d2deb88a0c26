"""How much of a context window something takes."""

from __future__ import annotations

from threadkeep.tokens.estimate import estimate_bytes, estimate_item, estimate_text, visible_bytes
from threadkeep.tokens.exact import exact_counter, why_inexact
from threadkeep.tokens.pressure import Budget, Calibration, Limits, Pressure, Scope, measure_pressure, uncharged_prefix
from threadkeep.tokens.scripts import Vocabulary, estimate_by_script

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
