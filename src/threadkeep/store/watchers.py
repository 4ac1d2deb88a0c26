"""Who waits for word of what, inside one process; what every backend's `watch` is made of."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

# Where nobody is told of anything, one looks again, ever less often.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5


class Watchers:
    """Everyone who watches, by what they watch. Belongs to one event loop.

    `is_told` says whether word of what others write arrives here at present; while it does not, watchers look by themselves.
    """

    def __init__(self, *, is_told: bool = False) -> None:
        self.is_told = is_told
        self._waiting: defaultdict[Hashable, set[Watcher]] = defaultdict(set)

    @contextmanager
    def added(self, key: Hashable) -> Iterator[Watcher]:
        """Add somebody who watches `key` for the length of the block."""
        watcher = Watcher(self)
        self._waiting[key].add(watcher)
        try:
            yield watcher
        finally:
            self._waiting[key].discard(watcher)
            if not self._waiting[key]:
                del self._waiting[key]

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def tell(self, key: Hashable) -> None:
        """Wake those who watch `key`."""
        for watcher in self._waiting.get(key, ()):
            watcher.wake()

    def tell_everyone(self) -> None:
        """Wake all of them: what was written, or whether anything was, is not known."""
        for watchers in self._waiting.values():
            for watcher in watchers:
                watcher.wake()


class Watcher:
    """`Watch` of one waiter."""

    def __init__(self, watchers: Watchers) -> None:
        self._watchers = watchers
        self._told = asyncio.Event()
        self._pause = FIRST_PAUSE_S

    def wake(self) -> None:
        self._told.set()

    async def wait(self, *, within_s: float) -> bool:
        patience = within_s if self._watchers.is_told else min(within_s, self._pause)
        try:
            async with asyncio.timeout(patience):
                await self._told.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
            return False
        self._told.clear()
        self._pause = FIRST_PAUSE_S
        return True
