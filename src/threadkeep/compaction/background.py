"""Compactions made beside the conversations of an open store, so that nobody has to wait for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any

from threadkeep.compaction.fallback import Deadline, VainAttempts
from threadkeep.errors import CompactionStopped, NothingToCompact, ThreadkeepError

log = logging.getLogger(__name__)

Compaction = Callable[[], Coroutine[Any, Any, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _RunningCompaction:
    task: asyncio.Task[None]
    deadline: Deadline


class Upkeep:
    """At most one a thread. Each ends by itself, for every strategy has its time, and at the latest with the store.

    Whatever a compaction needs, a model with its credential too, is held by its task alone.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, _RunningCompaction] = {}
        self._futility = VainAttempts()
        self._is_closed = False

    def begin(self, thread: Hashable, compaction: Compaction, *, tokens: int, deadline: Deadline) -> None:
        """Begin a compaction of a thread whose window is under a pressure of `tokens`; no draft may be later than `deadline`.

        None is begun where one is under way, or where one gained nothing from about this window.
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
        """Return once no compaction of a thread is under way, and whether one was. No draft may be later than `deadline`."""
        running = self._running.get(thread)
        if running is None:
            return False
        if deadline is not None:
            running.deadline.follow(deadline)
        await asyncio.wait({running.task})
        return True

    async def break_off(self, thread: Hashable) -> None:
        """End the compaction of a thread that is under way, if one is: a draft is dropped, a checkpoint being written is kept."""
        running = self._running.get(thread)
        await _cancel_and_wait(*([running.task] if running else ()))

    async def close(self) -> None:
        """End every compaction as `break_off` does; none is begun any more."""
        self._is_closed = True
        await _cancel_and_wait(*(running.task for running in self._running.values()))

    async def _compact(self, thread: Hashable, compaction: Compaction, *, tokens: int) -> None:
        try:
            await compaction()
        except (NothingToCompact, CompactionStopped):
            self._futility.found(thread, tokens=tokens)
        except ThreadkeepError:
            # Observers were told. Nothing is lost with it: the turn that needs a compaction makes it, and hears what is wrong.
            return


async def _cancel_and_wait(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        # Takes effect where nothing is being written (`compact_thread`). Said twice it would not wait for that.
        if not task.cancelling():
            task.cancel()
    if tasks:
        await asyncio.wait(tasks)
