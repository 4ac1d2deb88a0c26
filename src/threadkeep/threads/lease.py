"""Leases: one worker at a time for a piece of work. A lease is renewed while its holder lives, and always given back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from threadkeep.errors import StoreBusy, StoreClosed, StoreError, TurnRunning, TurnTakenOver
from threadkeep.threads.backend import ThreadBackend

LEASE_MS = 120_000
# A model may take longer to answer than a dead worker's lease should last.
RENEWAL_S = LEASE_MS / 4_000


class Lease:
    """The right to a piece of work. It saves double work; correctness must not depend on it.

    If the store is unavailable for a moment, renewal is tried again. If another worker got the lease after a whole term without
    renewal, `is_lost` is set. If both finish, a compare-and-swap append decides between them.
    """

    def __init__(self, backend: ThreadBackend, key: str, *, term_ms: int = LEASE_MS, renewal_s: float | None = None) -> None:
        self.is_lost = False
        self._term_ms = term_ms
        self._renewal_s = RENEWAL_S if renewal_s is None else renewal_s
        self._held_until_ms = 0
        self._backend = backend
        self._key = key
        # Two pieces of work of one process must exclude each other too.
        self._holder = f"{backend.holder}-{secrets.token_hex(4)}"
        self._renewing: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[bool]] = set()
        self._may_be_held = False

    async def take(self) -> bool:
        """Take the lease and renew it until it is given back; False if another worker holds it.

        Call `give_back` even if this raised or was cancelled: the store may have granted the lease by then.
        """
        taken = await self._acquire()
        if taken:
            self._renewing = asyncio.create_task(self._renew())
        return taken

    async def is_held(self) -> bool:
        """Whether the lease is still ours. Asks the store only if the term has run out, as after a suspended process."""
        if not self.is_lost and self._backend.clock.now_ms() >= self._held_until_ms:
            self.is_lost = not await self._acquire()
        return not self.is_lost

    async def give_back(self) -> None:
        """Release the lease. If the store cannot be reached, the lease runs out by itself; this never fails."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
            self._renewing = None
        if self._asking:
            # Wait for pending requests, or the store might grant the lease after the release.
            await asyncio.wait(self._asking)
        if not self._may_be_held:
            return
        self._may_be_held = False
        with suppress(StoreError):
            await self._backend.store.release(self._key, holder=self._holder)

    async def _acquire(self) -> bool:
        """Ask the store. Shielded, because a cancelled caller must still learn the answer in order to release the lease."""
        asking = asyncio.create_task(self._ask())
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        return await asyncio.shield(asking)

    async def _ask(self) -> bool:
        now_ms = self._backend.clock.now_ms()
        before, self._may_be_held = self._may_be_held, True
        try:
            taken = await self._backend.store.acquire(self._key, holder=self._holder, now_ms=now_ms, ttl_ms=self._term_ms)
        except StoreBusy:
            # A busy store changed nothing; after any other error the lease may have been granted.
            self._may_be_held = before
            raise
        self._may_be_held = taken
        if taken:
            self._held_until_ms = now_ms + self._term_ms
        return taken

    async def _renew(self) -> None:
        while not self.is_lost:
            await asyncio.sleep(self._renewal_s)
            try:
                self.is_lost = not await self._acquire()
            except StoreClosed:
                return
            except StoreError:
                # Try again: renewal may still succeed before the term ends.
                continue


@asynccontextmanager
async def hold_lease(backend: ThreadBackend, key: str) -> AsyncIterator[Lease | None]:
    """Hold a lease for the block and release it at the end; yields None if another worker holds it."""
    lease = Lease(backend, key)
    try:
        yield lease if await lease.take() else None
    finally:
        # Shielded: otherwise a cancelled worker would block the next one for a whole term.
        await asyncio.shield(lease.give_back())


# Long enough for a failover and for clocks that differ by seconds, short enough to wait for where a host was killed.
TURN_LEASE_MS = 20_000
TURN_RENEWAL_S = TURN_LEASE_MS / 4_000
# Who has not given it back by then, nor let it run out, is alive.
TURN_PATIENCE_S = TURN_LEASE_MS / 1_000
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5


class TurnLease(Lease):
    """The right to run a thread's turns. If its host dies, the lease runs out."""

    def __init__(self, backend: ThreadBackend, thread_id: str) -> None:
        super().__init__(backend, f"turn:{thread_id}", term_ms=TURN_LEASE_MS, renewal_s=TURN_RENEWAL_S)
        self._thread_id = thread_id

    async def wait_for(self) -> None:
        """Take the lease, waiting for as long as a dead host's lease would last.

        Raises:
            TurnRunning: Another host runs a turn.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + TURN_PATIENCE_S, FIRST_PAUSE_S
        while not await self.take():
            if loop.time() >= until:
                raise TurnRunning(self._thread_id)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    async def check(self) -> None:
        """Return if the lease is still ours; a suspended or disconnected host may have lost it.

        Raises:
            TurnTakenOver: Another host has it.
        """
        if not await self.is_held():
            raise TurnTakenOver(self._thread_id)
