"""OpenAI Responses."""

from __future__ import annotations

from threadkeep.dialects.responses.dialect import RESPONSES

__all__ = ["RESPONSES"]
