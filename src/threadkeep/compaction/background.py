"""Compactions in the background of an open store, so that turns need not wait for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from functools import partial

from threadkeep.compaction.fallback import Deadline, VainAttempts
from threadkeep.errors import CompactionStopped, NothingToCompact, ThreadkeepError

log = logging.getLogger(__name__)

Compaction = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningCompaction:
    task: asyncio.Task[None]
    deadline: Deadline


class Upkeep:
    """The background compactions of a store, at most one per thread. Each ends by its time limits, or with the store.

    Only the task of a compaction holds its model and credential.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, _RunningCompaction] = {}
        self._futility = VainAttempts()
        self._is_closed = False

    def begin(self, thread: Hashable, compaction: Compaction, *, tokens: int, deadline: Deadline) -> None:
        """Start a compaction of a thread under a pressure of `tokens`; its draft must end by `deadline`.

        Does nothing if one is running, or if the last one gained nothing from a window of about this size.
        """
        if self._is_closed or thread in self._running or self._futility.holds(thread, tokens=tokens):
            return
        task = asyncio.create_task(self._compact(thread, compaction, tokens=tokens))
        self._running[thread] = _RunningCompaction(task=task, deadline=deadline)
        task.add_done_callback(partial(self._forget, thread, tokens))

    def _forget(self, thread: Hashable, tokens: int, task: asyncio.Task[None]) -> None:
        del self._running[thread]
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._futility.found(thread, tokens=tokens)
            log.error("a compaction beside a thread's turns broke: %s", type(error).__name__)
            log.debug("how it broke", exc_info=error)

    async def over(self, thread: Hashable, *, deadline: Deadline | None = None) -> bool:
        """Wait for the running compaction of a thread, which must end by `deadline`; return whether there was one."""
        running = self._running.get(thread)
        if running is None:
            return False
        if deadline is not None:
            running.deadline.follow(deadline)
        await asyncio.wait({running.task})
        return True

    async def break_off(self, thread: Hashable) -> None:
        """Cancel the running compaction of a thread: a draft is dropped, a commit that has begun is finished."""
        running = self._running.get(thread)
        await _cancel_and_wait(*([running.task] if running else ()))

    async def close(self) -> None:
        """Cancel every compaction as `break_off` does, and start no more."""
        self._is_closed = True
        await _cancel_and_wait(*(running.task for running in self._running.values()))

    async def _compact(self, thread: Hashable, compaction: Compaction, *, tokens: int) -> None:
        try:
            await compaction()
        except (NothingToCompact, CompactionStopped):
            self._futility.found(thread, tokens=tokens)
        except ThreadkeepError:
            # The observer has the error. A turn that needs a compaction makes one itself and gets its error.
            return


async def _cancel_and_wait(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        # A first cancellation waits for a running commit (`compact_thread`); a second would not.
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)
