"""What every operation on a thread needs: store, clock, limits, and what is recorded."""

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
    """Return a new thread id that sorts by time."""
    return f"t{now_ms:011x}{secrets.token_hex(4)}"


# Takes an item's JSON and returns what may be written: the same bytes, or JSON of the same shape with less in it.
Redact = Callable[[bytes], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadBackend:
    """The services and settings that threads of a store share.

    Attributes:
        holder: The name of this process in leases.
        limits_by_model: Configured limits by the beginning of a model's name.
        of_window: Computes limits from the size of a context window.
        is_window_configured: Whether `limits` are a person's choice: then a client's word about its window does not count.
        listed: Context windows from providers' model lists, added at run time.
        scope: Whether the automatic limit counts the whole window or only what follows its prefix.
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
    is_window_configured: bool = False
    listed: dict[str, int] = field(default_factory=dict)

    def find_limits(self, model: str | None, *, told: int | None = None) -> Limits:
        """Return a model's limits: the configured ones with the longest matching name, else its window's, else the default.

        Its window is the larger of what its provider lists and what its client said (`told`).
        """
        named = [name for name in self.limits_by_model if model is not None and model.startswith(name)]
        if named:
            return self.limits_by_model[max(named, key=len)]
        window = self.find_window(model, told=told)
        return self.limits if window is None else self.of_window(window)

    def find_window(self, model: str | None, *, told: int | None = None) -> int | None:
        """Return a model's context window as its provider or client tells it; None if neither does."""
        said = 0 if told is None or self.is_window_configured else told
        return max(self.listed.get(model or "", 0), said) or None

    def has_limits_for(self, model: str) -> bool:
        """Whether a model's limits are configured or listed."""
        return model in self.listed or any(model.startswith(name) for name in self.limits_by_model)

    def add_windows(self, windows: Mapping[str, int]) -> None:
        """Add context windows from a provider's model list."""
        self.listed.update(windows)

    async def create(self, thread: NewThread, records: Sequence[NewRecord]) -> int:
        """Create a thread with the records that the persistence mode keeps; return its next ordinal."""
        kept = reduce_records(records, self.persistence)
        await self.store.create(thread, kept)
        return thread.start + len(kept)

    async def append(self, thread_id: str, records: Sequence[NewRecord], *, expected: int) -> int:
        """Append the records that the persistence mode keeps; return the next ordinal. See `ThreadStore.append`."""
        kept = reduce_records(records, self.persistence)
        return await self.store.append(thread_id, kept, expected=expected) if kept else expected

    async def append_beside(self, thread_id: str, record: NewRecord, *, expected: int) -> int:
        """Append a record outside the history, even after records of other writers; return the next ordinal."""
        while True:
            try:
                return await self.append(thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                expected = moved.actual
