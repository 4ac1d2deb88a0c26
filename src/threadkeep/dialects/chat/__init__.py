"""OpenAI Chat Completions, and the many servers that speak it."""

from __future__ import annotations

from threadkeep.dialects.chat.dialect import CHAT

__all__ = ["CHAT"]
