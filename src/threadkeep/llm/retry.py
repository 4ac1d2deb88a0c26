"""Ask a model again, if that may help and as often as it is worth it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from threadkeep.errors import ModelUnavailable

FIRST_WAIT_S: Final = 0.2
SPREAD: Final = 0.1
# A caller that is told to wait longer than this does better without the answer.
LONGEST_WAIT_S: Final = 60.0

Answer = TypeVar("Answer")


def _ignore_attempt(number: int) -> None:
    """Ignore the number of an attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a failed request is sent again, and the pauses between; `jitter` returns a random number from 0 up to 1."""

    attempts: int = 4
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    jitter: Callable[[], float] = random.random

    async def run(
        self, attempt: Callable[[], Awaitable[Answer]], *, on_attempt: Callable[[int], None] = _ignore_attempt
    ) -> Answer:
        """Ask until a whole answer comes, the attempts are used up, or asking again cannot help.

        `on_attempt` is called with the number of each attempt, from 1 on, right before it is made. Only `ModelUnavailable` is
        retried. The waits are 200 ms, 400 ms, 800 ms and so on, each plus or minus a tenth, or as long as the provider asks for;
        if it asks for more than `LONGEST_WAIT_S`, its error is raised at once. Cancelling ends the attempt or the wait under way.

        Raises:
            ModelOverflow, ModelRejected: As an attempt raised it.
            ModelUnavailable: From the last attempt.
        """
        number = 1
        while True:
            on_attempt(number)
            try:
                return await attempt()
            except ModelUnavailable as error:
                wait = self._choose_wait_s(number, asked_for_s=error.retry_after_s)
                if number >= self.attempts or wait is None:
                    raise
            await self.sleep(wait)
            number += 1

    def _choose_wait_s(self, number: int, *, asked_for_s: float | None) -> float | None:
        """Return how long to wait after the attempt of that number; None if waiting is not worth it."""
        if asked_for_s is not None:
            return asked_for_s if asked_for_s <= LONGEST_WAIT_S else None
        # Beyond 2**9 the wait is capped anyway.
        doubled: float = FIRST_WAIT_S * 2 ** min(number - 1, 9)
        return min(LONGEST_WAIT_S, doubled * (1 - SPREAD + 2 * SPREAD * self.jitter()))
