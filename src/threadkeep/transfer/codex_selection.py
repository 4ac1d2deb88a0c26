"""What Codex kept of people's messages when it compacted, before its rollouts wrote that down.

Newest first under a budget: whole while they fit, then one with its middle left out, then none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUDGET_TOKENS = 20_000
TOKEN_BYTES = 4
NO_SUMMARY = "(no summary available)"


@dataclass(slots=True)
class Selection:
    """Takes messages newest first; `full` once no older one is looked at."""

    left_tokens: int = BUDGET_TOKENS
    full: bool = False

    def take(self, text: str) -> str:
        """Return what is kept of a message."""
        raw = text.encode("utf-8", "replace")
        tokens = -(-len(raw) // TOKEN_BYTES)
        if tokens <= self.left_tokens:
            self.left_tokens -= tokens
            self.full = self.left_tokens == 0
            return text
        self.full = True
        return shortened(raw, tokens=self.left_tokens)


def shortened(raw: bytes, *, tokens: int) -> str:
    """Return text with its middle left out so that the rest fits."""
    budget = tokens * TOKEN_BYTES
    left_out = -(-(len(raw) - budget) // TOKEN_BYTES)
    head = raw[: budget // 2].decode("utf-8", "ignore")
    tail = raw[len(raw) - (budget - budget // 2) :].decode("utf-8", "ignore") if budget else ""
    return f"{head}…{left_out} tokens truncated…{tail}"


def message(text: str) -> dict[str, Any]:
    """Return a message as Codex writes it into a compacted history."""
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
