"""One worker at a time for a piece of work on the memory: a lease that is renewed while its holder lives."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from holdfast.runtime.backend import Backend

LEASE_MS = 120_000
RENEWAL_S = 30.0


@asynccontextmanager
async def leased(backend: Backend, key: str) -> AsyncIterator[bool]:
    """Hold one piece of work, or learn that another has it. A holder that dies leaves it to run out."""
    store, clock = backend.store, backend.clock
    holder = f"{backend.holder}-{secrets.token_hex(4)}"
    if not await store.acquire(key, holder=holder, now_ms=clock.now_ms(), ttl_ms=LEASE_MS):
        yield False
        return

    async def renew() -> None:
        while True:
            await asyncio.sleep(RENEWAL_S)
            await store.acquire(key, holder=holder, now_ms=clock.now_ms(), ttl_ms=LEASE_MS)

    renewing = asyncio.create_task(renew())
    try:
        yield True
    finally:
        renewing.cancel()
        with suppress(asyncio.CancelledError):
            await renewing
        await store.release(key, holder=holder)
