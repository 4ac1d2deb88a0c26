"""Event loops of commands that go on for long: one in a thread of its own, and one step repeated until a signal."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

# How long cancelled work may clean up. A second Ctrl-C does not wait.
CLEANUP_SECONDS = 10.0


class LoopThread:
    """An event loop in a thread of its own: background work goes on while the main thread waits for a person.

    Use it as a context manager; `run` carries out coroutines one after another.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what `work` returns, or raise what it raises.

        Raises:
            KeyboardInterrupt: A person interrupted it; `work` was cancelled and has cleaned up.
        """
        ended = threading.Event()

        async def run_and_signal() -> T:
            try:
                return await work
            finally:
                ended.set()

        running = asyncio.run_coroutine_threadsafe(run_and_signal(), self._loop)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.cancel()
            ended.wait(CLEANUP_SECONDS)
            raise


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
