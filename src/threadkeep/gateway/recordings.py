"""Requests that are recorded while their providers are asked: the provider's time to answer is time to write.

What a request brings is durable before its answer ends, not before it is asked. Only where something must be decided from what
was written (a command, a compaction, another window) does the request wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from threadkeep.gateway.known import Known

# The request goes out first: laying down a history that nobody knows keeps the event loop busy for longer than sending it does.
HEAD_START_S = 0.02

Recorded = Callable[[], Awaitable[Known]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _UnderWay:
    """One recording: its history's first and last known link, and what hurries it."""

    first: bytes
    link: bytes
    needed: asyncio.Event


class Recordings:
    """Recordings under way."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Known], _UnderWay] = {}

    def begin(self, record: Recorded, *, first: bytes, link: bytes) -> Recorded:
        """Record soon; what is returned, when awaited, waits for it and raises what it raised.

        `first` and `link` are the first and the last known link of the history that is recorded: whoever brings one that goes on
        from there waits (`caught_up`).
        """
        needed = asyncio.Event()

        async def recorded() -> Known:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEAD_START_S):
                    await needed.wait()
            return await record()

        task = asyncio.create_task(recorded())
        self._tasks[task] = _UnderWay(first=first, link=link, needed=needed)
        task.add_done_callback(self._ended)

        async def known() -> Known:
            needed.set()
            return await asyncio.shield(task)

        return known

    async def caught_up(self, chain: Sequence[bytes]) -> None:
        """Return once every history under way that begins this one is recorded: a client may leave an answer and go on."""
        if not self._tasks:
            return
        known = set(chain)
        before = [task for task, recording in self._tasks.items() if recording.link in known]
        for task in before:
            self._tasks[task].needed.set()
        if before:
            await asyncio.wait(before)

    def begins_alike(self, first: bytes) -> bool:
        """Whether a history that begins with this link is being recorded: the store does not tell of it yet."""
        return any(recording.first == first for recording in self._tasks.values())

    async def settled(self) -> None:
        """Return once everything that was begun is durable, or has failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[Known]) -> None:
        self._tasks.pop(task, None)
        # Whoever waits for it is told; a client that is gone has nobody who does.
        if not task.cancelled():
            task.exception()


def recorded_already(known: Known) -> Recorded:
    """Return a recording that is over."""

    async def same() -> Known:
        return known

    return same
