"""Asking again, when that may help and as often as it is worth it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from threadkeep.dialects import Request
from threadkeep.errors import ModelUnavailable
from threadkeep.llm.base import Model, ModelReply, RemoteCompaction, RemoteCompactor

FIRST_WAIT_S: Final = 0.2
SPREAD: Final = 0.1
# Whoever is told to wait longer than this does better without the answer.
LONGEST_WAIT_S: Final = 60.0

Sleep = Callable[[float], Awaitable[None]]
Jitter = Callable[[], float]
Attempted = Callable[[int], None]
Answer = TypeVar("Answer")


def _unheard(number: int) -> None:
    """Where nobody counts the attempts."""


async def ask_with_retries(
    model: Model, request: Request, *, attempts: int, sleep: Sleep, jitter: Jitter, attempted: Attempted = _unheard
) -> ModelReply:
    """Ask until a whole answer comes, `attempts` are used up, or asking again cannot help.

    `sleep` waits that many seconds; `jitter` is a number from 0 up to 1, each time another; `attempted` is told the number of
    each attempt, from 1 on, right before it is made.

    Only `ModelUnavailable` is worth another attempt. Between two lie 200 ms, 400 ms, 800 ms and so on, each give or take a tenth,
    or as long as the provider asks for; if it asks for more than `LONGEST_WAIT_S`, its error is raised at once. Cancelling ends
    the attempt or the wait it falls into, and nothing is asked any more.

    Raises:
        ModelOverflow, ModelRejected: As the attempt that met it raised it.
        ModelUnavailable: That of the last attempt.
    """
    return await _patiently(lambda: model.ask(request), attempts, sleep=sleep, jitter=jitter, attempted=attempted)


async def compact_with_retries(
    model: RemoteCompactor, request: Request, *, attempts: int, sleep: Sleep, jitter: Jitter, attempted: Attempted = _unheard
) -> RemoteCompaction:
    """Have a provider compact a history, with the arguments and the errors of `ask_with_retries`."""
    return await _patiently(lambda: model.compact(request), attempts, sleep=sleep, jitter=jitter, attempted=attempted)


async def _patiently(
    attempt: Callable[[], Awaitable[Answer]], attempts: int, *, sleep: Sleep, jitter: Jitter, attempted: Attempted
) -> Answer:
    number = 1
    while True:
        attempted(number)
        try:
            return await attempt()
        except ModelUnavailable as error:
            wait = _wait_s(number, asked_for_s=error.retry_after_s, jitter=jitter)
            if number >= attempts or wait is None:
                raise
        await sleep(wait)
        number += 1


def _wait_s(number: int, *, asked_for_s: float | None, jitter: Jitter) -> float | None:
    """Return how long to wait after the attempt of that number; None where waiting is not worth it."""
    if asked_for_s is not None:
        return asked_for_s if asked_for_s <= LONGEST_WAIT_S else None
    # Beyond 2**9 the wait is capped whatever the number is, which no power of two needs to find out.
    doubled: float = FIRST_WAIT_S * 2 ** min(number - 1, 9)
    return min(LONGEST_WAIT_S, doubled * (1 - SPREAD + 2 * SPREAD * jitter()))
