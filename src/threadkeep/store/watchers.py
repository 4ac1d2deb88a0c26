"""The watchers of one process; what every backend's `watch` is made of."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Hashable, Iterator
from contextlib import contextmanager

# A watcher that nobody notifies looks again, ever less often.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.01, 0.5


class Watchers:
    """Every watcher, by what it watches. Belongs to one event loop.

    `are_notified` says whether the writes of other processes are noticed here at present; while they are not, watchers look by
    themselves.
    """

    def __init__(self, *, are_notified: bool = False) -> None:
        self.are_notified = are_notified
        self._by_key: defaultdict[Hashable, set[Watcher]] = defaultdict(set)

    @contextmanager
    def add(self, key: Hashable) -> Iterator[Watcher]:
        """Watch `key` for the length of the block."""
        watcher = Watcher(self)
        self._by_key[key].add(watcher)
        try:
            yield watcher
        finally:
            self._by_key[key].discard(watcher)
            if not self._by_key[key]:
                del self._by_key[key]

    def __bool__(self) -> bool:
        return bool(self._by_key)

    def notify(self, key: Hashable) -> None:
        """Wake the watchers of `key`."""
        for watcher in self._by_key.get(key, ()):
            watcher.wake()

    def notify_all(self) -> None:
        """Wake every watcher: what was written, or whether anything was, is not known."""
        for key in self._by_key:
            self.notify(key)


class Watcher:
    """One `Watch`."""

    def __init__(self, watchers: Watchers) -> None:
        self._watchers = watchers
        self._notified = asyncio.Event()
        self._pause = FIRST_PAUSE_S

    def wake(self) -> None:
        self._notified.set()

    async def wait(self, *, within_s: float) -> bool:
        patience = within_s if self._watchers.are_notified else min(within_s, self._pause)
        try:
            async with asyncio.timeout(patience):
                await self._notified.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
            return False
        self._notified.clear()
        self._pause = FIRST_PAUSE_S
        return True
