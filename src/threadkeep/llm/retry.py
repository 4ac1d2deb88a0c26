"""Ask a model again, if that may help and as often as it is worth it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from threadkeep.dialects import Request
from threadkeep.errors import ModelUnavailable
from threadkeep.llm.base import Model, ModelReply, RemoteCompaction, RemoteCompactor

FIRST_WAIT_S: Final = 0.2
SPREAD: Final = 0.1
# A caller that is told to wait longer than this does better without the answer.
LONGEST_WAIT_S: Final = 60.0

Sleep = Callable[[float], Awaitable[None]]
Jitter = Callable[[], float]
OnAttempt = Callable[[int], None]
Answer = TypeVar("Answer")


def _ignore_attempt(number: int) -> None:
    """Ignore the number of an attempt."""


async def ask_with_retries(
    model: Model, request: Request, *, attempts: int, sleep: Sleep, jitter: Jitter, on_attempt: OnAttempt = _ignore_attempt
) -> ModelReply:
    """Ask until a whole answer comes, `attempts` are used up, or asking again cannot help.

    `sleep` waits that many seconds; `jitter` returns a random number from 0 up to 1; `on_attempt` is called with the number of
    each attempt, from 1 on, right before it is made.

    Only `ModelUnavailable` is retried. The waits are 200 ms, 400 ms, 800 ms and so on, each plus or minus a tenth, or as long as
    the provider asks for; if it asks for more than `LONGEST_WAIT_S`, its error is raised at once. Cancelling ends the attempt or
    the wait under way.

    Raises:
        ModelOverflow, ModelRejected: As an attempt raised it.
        ModelUnavailable: From the last attempt.
    """
    return await _retry(lambda: model.ask(request), attempts, sleep=sleep, jitter=jitter, on_attempt=on_attempt)


async def compact_with_retries(
    model: RemoteCompactor,
    request: Request,
    *,
    attempts: int,
    sleep: Sleep,
    jitter: Jitter,
    on_attempt: OnAttempt = _ignore_attempt,
) -> RemoteCompaction:
    """Have a provider compact a history; arguments and errors are those of `ask_with_retries`."""
    return await _retry(lambda: model.compact(request), attempts, sleep=sleep, jitter=jitter, on_attempt=on_attempt)


async def _retry(
    attempt: Callable[[], Awaitable[Answer]], attempts: int, *, sleep: Sleep, jitter: Jitter, on_attempt: OnAttempt
) -> Answer:
    number = 1
    while True:
        on_attempt(number)
        try:
            return await attempt()
        except ModelUnavailable as error:
            wait = _choose_wait_s(number, asked_for_s=error.retry_after_s, jitter=jitter)
            if number >= attempts or wait is None:
                raise
        await sleep(wait)
        number += 1


def _choose_wait_s(number: int, *, asked_for_s: float | None, jitter: Jitter) -> float | None:
    """Return how long to wait after the attempt of that number; None if waiting is not worth it."""
    if asked_for_s is not None:
        return asked_for_s if asked_for_s <= LONGEST_WAIT_S else None
    # Beyond 2**9 the wait is capped anyway.
    doubled: float = FIRST_WAIT_S * 2 ** min(number - 1, 9)
    return min(LONGEST_WAIT_S, doubled * (1 - SPREAD + 2 * SPREAD * jitter()))
