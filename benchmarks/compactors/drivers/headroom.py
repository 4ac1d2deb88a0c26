"""headroom: compress(), which asks no model."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.compactors.driver import Message, Session


class Own:
    """compress(), whose target is the budget's share of what there is."""

    def __init__(self, session: Session) -> None:
        self._compress = import_module("headroom").compress

    def window(self, messages: list[Message], budget: int) -> list[Message]:
        size = sum(len(json.dumps(message, ensure_ascii=False)) for message in messages) // 4
        ratio = min(1.0, budget / size) if size else 1.0
        found: list[Message] = self._compress(messages, model="gpt-4o", target_ratio=ratio).messages
        return found
