"""Anthropic Messages."""

from __future__ import annotations

from threadkeep.dialects.messages.dialect import MESSAGES
from threadkeep.dialects.messages.markers import markers, with_marker, without_markers
from threadkeep.dialects.messages.thinking import has_thinking, without_thinking

__all__ = ["MESSAGES", "has_thinking", "markers", "with_marker", "without_markers", "without_thinking"]
