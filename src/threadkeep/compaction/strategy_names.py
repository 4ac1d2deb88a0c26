"""The strategy that asks no model. Every other one falls back to it."""

from __future__ import annotations

from typing import Final

EXTRACTIVE: Final = "extractive"
