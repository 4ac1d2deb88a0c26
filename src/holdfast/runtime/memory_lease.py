"""One worker at a time for a piece of work on the memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.runtime import lease
from holdfast.runtime.backend import Backend

LEASE_MS = lease.LEASE_MS


@asynccontextmanager
async def leased(backend: Backend, key: str) -> AsyncIterator[bool]:
    """Hold one piece of work, or learn that another has it. A holder that dies leaves it to run out."""
    async with lease.held(backend, key) as found:
        yield found is not None
