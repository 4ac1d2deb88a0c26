"""What every operation of the runtime needs: a store, a clock, limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from holdfast.runtime.clock import Clock
from holdfast.store import Leases, Search, ThreadStore
from holdfast.tokens import Limits


class Backing(ThreadStore, Search, Leases, Protocol):
    """A backend with all its abilities."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The outside world of a thread, handed in once. `holder` names this process in leases."""

    store: Backing
    clock: Clock
    limits: Limits
    holder: str
