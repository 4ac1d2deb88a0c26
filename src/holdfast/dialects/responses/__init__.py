"""OpenAI Responses."""

from __future__ import annotations

from holdfast.dialects.responses.dialect import RESPONSES

__all__ = ["RESPONSES"]
