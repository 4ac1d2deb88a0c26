"""One host at a time runs a thread's turns: a lease, renewed while the turn goes on, by the port that guards compactions.

History needs no guard: an append compares the tip. What the lease prevents is that two hosts, woken by the same mail, both ask
the model and both run its tools.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from holdfast.errors import StoreClosed, StoreError, TurnRunning, TurnTakenOver
from holdfast.runtime.backend import Backend

# Long enough for a failover and for clocks that differ by seconds, short enough to wait for where a host was killed.
LEASE_MS = 20_000
RENEWAL_S = LEASE_MS / 4_000
# Who has not given it back by then, nor let it run out, is alive.
PATIENCE_S = LEASE_MS / 1_000
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


class TurnLease:
    """The right to run a thread's turns. A host that dies leaves it to run out."""

    def __init__(self, backend: Backend, thread_id: str) -> None:
        self._backend = backend
        self._thread_id = thread_id
        self._key = f"turn:{thread_id}"
        # Named per turn: two turns of one process must exclude each other as those of two processes do.
        self._holder = f"{backend.holder}-{secrets.token_hex(4)}"
        self._held_until_ms = 0
        self._renewing: asyncio.Task[None] | None = None
        self.is_lost = False

    async def take(self) -> None:
        """Take it, and hold it until it is given back.

        Waits for as long as the lease of a host that died would last.

        Raises:
            TurnRunning: Another host runs a turn.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
        while not await self._acquired():
            if loop.time() >= until:
                raise TurnRunning(self._thread_id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)
        self._renewing = asyncio.create_task(self._renew())

    async def check(self) -> None:
        """Return if it is still ours: nothing is asked where it has not run out yet.

        A host that was suspended, or cut off from the store, may find that another has gone on in its place.

        Raises:
            TurnTakenOver: Another host has it.
        """
        if not self.is_lost and self._backend.clock.now_ms() >= self._held_until_ms:
            self.is_lost = not await self._acquired()
        if self.is_lost:
            raise TurnTakenOver(self._thread_id)

    async def give_back(self) -> None:
        """Let another host have it. Where the store cannot be told, it runs out."""
        if self._renewing is not None:
            self._renewing.cancel()
            with suppress(asyncio.CancelledError):
                await self._renewing
            self._renewing = None
        with suppress(StoreError):
            await self._backend.store.release(self._key, holder=self._holder)

    async def _acquired(self) -> bool:
        now_ms = self._backend.clock.now_ms()
        if not await self._backend.store.acquire(self._key, holder=self._holder, now_ms=now_ms, ttl_ms=LEASE_MS):
            return False
        self._held_until_ms = now_ms + LEASE_MS
        return True

    async def _renew(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(RENEWAL_S)
            try:
                self.is_lost = not await self._acquired()
            except StoreClosed:
                return
            except StoreError:
                # The turn itself is told when it next records; here a store that is away is asked again.
                continue
