"""One host at a time runs a thread's turns: a lease, renewed while the turn goes on, by the port that guards compactions.

History needs no guard: an append compares the tip. What the lease prevents is that two hosts, woken by the same mail, both ask
the model and both run its tools.
"""

from __future__ import annotations

import asyncio

from threadkeep.errors import TurnRunning, TurnTakenOver
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.lease import Lease

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
        self._thread_id = thread_id
        self._lease = Lease(backend, f"turn:{thread_id}", term_ms=LEASE_MS, renewal_s=RENEWAL_S)

    @property
    def is_lost(self) -> bool:
        return self._lease.is_lost

    async def take(self) -> None:
        """Take it, and hold it until it is given back.

        Waits for as long as the lease of a host that died would last.

        Raises:
            TurnRunning: Another host runs a turn.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + PATIENCE_S, FIRST_PAUSE_S
        while not await self._lease.take():
            if loop.time() >= until:
                raise TurnRunning(self._thread_id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def check(self) -> None:
        """Return if it is still ours: a host that was suspended, or cut off from the store, may find another in its place.

        Raises:
            TurnTakenOver: Another host has it.
        """
        if not await self._lease.is_held():
            raise TurnTakenOver(self._thread_id)

    async def give_back(self) -> None:
        """Let another host have it. Where the store cannot be told, it runs out."""
        await self._lease.give_back()
