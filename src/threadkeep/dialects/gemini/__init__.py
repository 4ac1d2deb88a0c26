"""Gemini's `generateContent`."""

from __future__ import annotations

from threadkeep.dialects.gemini.dialect import GEMINI

__all__ = ["GEMINI"]
