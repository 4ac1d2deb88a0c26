"""What every operation of the runtime needs: a store, a clock, limits, and what is to be kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from holdfast.runtime.clock import Clock
from holdfast.store import Erasure, Leases, NewRecord, Search, ThreadStore
from holdfast.thread import Persistence, keep
from holdfast.tokens import Limits

# Given an item's JSON, returns what may be written of it: the same bytes, or JSON of the same shape with less in it.
Redact = Callable[[bytes], bytes]


class Backing(ThreadStore, Search, Leases, Erasure, Protocol):
    """A backend with all its abilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The outside world of a thread, handed in once. `holder` names this process in leases."""

    store: Backing
    clock: Clock
    limits: Limits
    holder: str
    persistence: Persistence = Persistence.EXTENDED
    redact: Redact | None = None

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        """Append what is to be kept of `records` and return the next ordinal; see `ThreadStore.append`."""
        kept = keep(records, self.persistence)
        return await self.store.append(thread_id, kept, expected=expected) if kept else expected
