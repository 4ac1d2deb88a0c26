"""What every operation on a thread needs: a store, a clock, limits, and what is to be kept."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from threadkeep.errors import OrdinalConflict
from threadkeep.store import NewRecord, NewThread
from threadkeep.store.base import FullStore
from threadkeep.threads.records import Persistence, reduce_records
from threadkeep.tokens import Limits, Scope


class Clock(Protocol):
    def now_ms(self) -> int: ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def new_thread_id(now_ms: int) -> str:
    """Return an id that sorts by time and that nobody has to type in full."""
    return f"t{now_ms:011x}{secrets.token_hex(4)}"


# Given an item's JSON, returns what may be written of it: the same bytes, or JSON of the same shape with less in it.
Redact = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadBackend:
    """The outside world of a thread, handed in once.

    Attributes:
        holder: This process, as leases name it.
        limits_by_model: Limits of models that differ from `limits`, by the beginning of their names.
        of_window: What the limits of a window are, as configured.
        listed: Limits of models as their providers list them; learnt on the way.
        scope: Whether the automatic limit counts the whole window or what came after its prefix.
    """

    store: FullStore
    clock: Clock
    limits: Limits
    holder: str
    persistence: Persistence = Persistence.EXTENDED
    redact: Redact | None = None
    limits_by_model: Mapping[str, Limits] = field(default_factory=dict)
    scope: Scope = "total"
    of_window: Callable[[int], Limits] = Limits.of_window
    listed: dict[str, Limits] = field(default_factory=dict)

    def find_limits(self, model: str | None) -> Limits:
        """Return the limits of a model.

        They are those of the longest name in `limits_by_model` that its own begins with, else as its provider lists it, else
        `limits`.
        """
        named = [name for name in self.limits_by_model if model is not None and model.startswith(name)]
        if named:
            return self.limits_by_model[max(named, key=len)]
        return self.listed.get(model, self.limits) if model is not None else self.limits

    def has_limits_for(self, model: str) -> bool:
        """Whether anybody said what a model's limits are."""
        return model in self.listed or any(model.startswith(name) for name in self.limits_by_model)

    def add_windows(self, windows: Mapping[str, int]) -> None:
        """Take note of context windows as a provider lists them, by its models' names."""
        self.listed.update({model: self.of_window(window) for model, window in windows.items()})

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> int:
        """Create a thread with what is to be kept of `records` and return its next ordinal; see `ThreadStore.create`."""
        kept = reduce_records(records, self.persistence)
        await self.store.create(thread, kept)
        return thread.start + len(kept)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        """Append what is to be kept of `records` and return the next ordinal; see `ThreadStore.append`."""
        kept = reduce_records(records, self.persistence)
        return await self.store.append(thread_id, kept, expected=expected) if kept else expected

    async def append_beside(self, thread_id: str, record: NewRecord, *, expected: int) -> int:
        """Append a record that stands beside the history, and return the next ordinal.

        Whatever came first, from `expected` on, it is as true after it.
        """
        while True:
            try:
                return await self.append(thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                expected = moved.actual
