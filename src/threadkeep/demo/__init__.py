"""The session `threadkeep demo` plays: hours of invented work, full of demands that must not be lost."""

from __future__ import annotations

from threadkeep.demo.session import Demand, DemandKind, Session, Step, Turn, approximate_tokens, context_items, turn_items
from threadkeep.demo.story import long_session

__all__ = [
    "Demand",
    "DemandKind",
    "Session",
    "Step",
    "Turn",
    "approximate_tokens",
    "context_items",
    "long_session",
    "turn_items",
]
