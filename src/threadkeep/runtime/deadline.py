"""By when a model's draft must be there: a turn that needs the room sets it, also for a draft that is under way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Deadline:
    """The moment at which a compaction stops waiting for a model and goes on without one.

    There is none at first. Once set it can only come earlier.
    """

    def __init__(self) -> None:
        self._at: float | None = None
        self._timer: asyncio.Timeout | None = None

    def set(self, *, seconds: float) -> None:
        """Leave a draft so many seconds from now on, unless it has fewer already."""
        self._bring_forward(asyncio.get_running_loop().time() + seconds)

    def follow(self, other: Deadline) -> None:
        """Take over another deadline, if that is earlier."""
        if other._at is not None:
            self._bring_forward(other._at)

    @property
    def has_passed(self) -> bool:
        return self._at is not None and asyncio.get_running_loop().time() >= self._at

    @asynccontextmanager
    async def timed(self, timeout_s: float) -> AsyncIterator[None]:
        """Run a draft until the deadline, and for `timeout_s` at most.

        Raises:
            TimeoutError: It was not there by then.
        """
        until = asyncio.get_running_loop().time() + timeout_s
        async with asyncio.timeout_at(until if self._at is None else min(until, self._at)) as timer:
            self._timer = timer
            try:
                yield
            finally:
                self._timer = None

    def _bring_forward(self, at: float) -> None:
        if self._at is not None and self._at <= at:
            return
        self._at = at
        timer = self._timer
        if timer is not None and not timer.expired():
            timer.reschedule(min(at, timer.when() or at))
