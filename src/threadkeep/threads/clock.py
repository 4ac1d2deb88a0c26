"""Time and names come in through the door."""

from __future__ import annotations

import secrets
import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def new_thread_id(now_ms: int) -> str:
    """Return an id that sorts by time and that nobody has to type in full."""
    return f"t{now_ms:011x}{secrets.token_hex(4)}"
