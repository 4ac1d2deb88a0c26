"""An event loop in a thread of its own: while the main thread waits for a person, what was begun goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

T = TypeVar("T")

# What is cancelled tidies up within moments; whoever interrupts once more does not wait.
LONGEST_TIDYING_S = 10.0


class LoopThread:
    """Runs coroutines one after another, from outside the loop; use it as a context manager."""

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
            KeyboardInterrupt: A person interrupted it; by then it was cancelled and has tidied up.
        """
        ended = threading.Event()

        async def watched() -> T:
            try:
                return await work
            finally:
                ended.set()

        running = asyncio.run_coroutine_threadsafe(watched(), self._loop)
        try:
            return running.result()
        except KeyboardInterrupt:
            running.cancel()
            ended.wait(LONGEST_TIDYING_S)
            raise
