"""One worker at a time for a piece of work: a lease that is renewed while its holder lives, and always given back."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from threadkeep.errors import StoreBusy, StoreClosed, StoreError
from threadkeep.threads.backend import ThreadBackend

LEASE_MS = 120_000
# Renewed well before it ends: a model may take longer to answer than a dead worker's lease should last.
RENEWAL_S = LEASE_MS / 4_000


class Lease:
    """The right to a piece of work. It keeps others away as long as it can, and what is committed must not depend on it.

    A store that is away for a moment is asked again; one that gave the work to another, because it heard nothing for a whole
    term, is not: from then on `is_lost`. What two workers may then both finish, an append that compares decides between.
    """

    def __init__(self, backend: ThreadBackend, key: str, *, term_ms: int = LEASE_MS, renewal_s: float | None = None) -> None:
        self.is_lost = False
        self._term_ms = term_ms
        self._renewal_s = RENEWAL_S if renewal_s is None else renewal_s
        self._held_until_ms = 0
        self._backend = backend
        self._key = key
        # Named per piece of work: two of one process must exclude each other as two processes do.
        self._holder = f"{backend.holder}-{secrets.token_hex(4)}"
        self._renewing: asyncio.Task[None] | None = None
        self._asking: set[asyncio.Task[bool]] = set()
        self._may_be_held = False

    async def take(self) -> bool:
        """Take it, and hold it until it is given back; False where another has it.

        Whoever asks gives it back, also where this raised or was cancelled: the store may have given it by then.
        """
        taken = await self._acquire()
        if taken:
            self._renewing = asyncio.create_task(self._renew())
        return taken

    async def is_held(self) -> bool:
        """Whether it is still ours. The store is asked only where it has run out: who was suspended may have lost it."""
        if not self.is_lost and self._backend.clock.now_ms() >= self._held_until_ms:
            self.is_lost = not await self._acquire()
        return not self.is_lost

    async def give_back(self) -> None:
        """Let another have it. Where the store cannot be told, it runs out; nothing that was done meanwhile fails for that."""
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
            self._renewing = None
        if self._asking:
            # What was asked is answered first: else the store might give it to us after we gave it back.
            await asyncio.wait(self._asking)
        if not self._may_be_held:
            return
        self._may_be_held = False
        with suppress(StoreError):
            await self._backend.store.release(self._key, holder=self._holder)

    async def _acquire(self) -> bool:
        """Ask the store. Shielded: who is cancelled meanwhile must still learn, to give it back, what the store did."""
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
            # Any other error may have come after the store had given it; who could not begin to write has changed nothing.
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
                # The work itself is told when it next reads or writes; until the term ends, trying again may still renew it.
                continue


@asynccontextmanager
async def hold_lease(backend: ThreadBackend, key: str) -> AsyncIterator[Lease | None]:
    """Hold one piece of work, or learn by None that another has it. It is given back however the block ends."""
    lease = Lease(backend, key)
    try:
        yield lease if await lease.take() else None
    finally:
        # Shielded: who is cancelled has no second chance to give it back, and the next would wait for a whole term.
        await asyncio.shield(lease.give_back())
