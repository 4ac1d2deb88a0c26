"""Where records live: the port every backend keeps, and the backends."""

from __future__ import annotations

from threadkeep.store.base import (
    Erasure,
    Found,
    Hit,
    Leases,
    NewRecord,
    NewThread,
    Notify,
    Record,
    RecordKind,
    Search,
    Span,
    Tenant,
    ThreadRow,
    ThreadStore,
    Watch,
)

__all__ = [
    "Erasure",
    "Found",
    "Hit",
    "Leases",
    "NewRecord",
    "NewThread",
    "Notify",
    "Record",
    "RecordKind",
    "Search",
    "Span",
    "Tenant",
    "ThreadRow",
    "ThreadStore",
    "Watch",
]
