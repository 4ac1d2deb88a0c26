"""Where records live: the port every backend keeps, and the backends."""

from __future__ import annotations

from holdfast.store.base import (
    Erasure,
    Found,
    Hit,
    Leases,
    NewRecord,
    NewThread,
    Record,
    RecordKind,
    Search,
    Span,
    Tenant,
    ThreadRow,
    ThreadStore,
)

__all__ = [
    "Erasure",
    "Found",
    "Hit",
    "Leases",
    "NewRecord",
    "NewThread",
    "Record",
    "RecordKind",
    "Search",
    "Span",
    "Tenant",
    "ThreadRow",
    "ThreadStore",
]
