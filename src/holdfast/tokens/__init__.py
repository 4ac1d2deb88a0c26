"""How much of a context window something takes."""

from __future__ import annotations

from holdfast.tokens.estimate import estimate_bytes, estimate_item, estimate_text
from holdfast.tokens.pressure import Calibration, Limits, Pressure, measure_pressure

__all__ = [
    "Calibration",
    "Limits",
    "Pressure",
    "estimate_bytes",
    "estimate_item",
    "estimate_text",
    "measure_pressure",
]
