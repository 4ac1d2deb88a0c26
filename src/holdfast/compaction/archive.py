"""What leaves the window when the ledger is over budget: oldest first, counted, and never a user's rule."""

from __future__ import annotations

from holdfast.compaction.ledger import Ledger, Section

INACTIVE_KEPT = 20


def archive(ledger: Ledger) -> Ledger:
    """Return the ledger with its oldest inactive entries archived; they stay in earlier checkpoints."""
    inactive = ledger.section(Section.INACTIVE)
    surplus = inactive[:-INACTIVE_KEPT] if len(inactive) > INACTIVE_KEPT else ()
    return ledger.without(entry.id for entry in surplus) if surplus else ledger
