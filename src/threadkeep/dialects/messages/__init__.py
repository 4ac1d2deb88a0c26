"""Anthropic Messages."""

from __future__ import annotations

from threadkeep.dialects.messages.dialect import MESSAGES

__all__ = ["MESSAGES"]
