"""`--watch`: one step, repeated until a signal."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress


async def repeat_until_terminated(step: Callable[[], Awaitable[None]], *, every_s: float) -> None:
    """Await `step` every `every_s` seconds, until SIGTERM; a step under way is finished first.

    A shell starts background jobs with SIGINT ignored, so that Ctrl-C does not reach them. SIGTERM does.
    """
    terminated = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, terminated.set)
    try:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(terminated.wait(), every_s)
                return
            await step()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
