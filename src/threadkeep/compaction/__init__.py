"""Compaction: decide, draft, merge, audit; never write."""

from __future__ import annotations

from threadkeep.compaction.audit import AuditReport, Fault
from threadkeep.compaction.engine import Outcome, compact, read_ledger
from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker, load_ledger
from threadkeep.compaction.state_text import render_state

__all__ = [
    "AuditReport",
    "Fault",
    "Ledger",
    "LedgerEntry",
    "Outcome",
    "Section",
    "Speaker",
    "compact",
    "load_ledger",
    "read_ledger",
    "render_state",
]
