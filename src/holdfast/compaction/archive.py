"""What leaves the window when the state is over budget: oldest first, counted, and never a user's rule."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.state_text import render_state
from holdfast.tokens import estimate_text

INACTIVE_KEPT = 20


def archive(ledger: Ledger, *, budget_tokens: int | None = None) -> Ledger:
    """Return the ledger with what it need not show archived; it stays in earlier checkpoints and in the records.

    The oldest inactive entries always go. Over `budget_tokens` go, in this order and oldest first: evidence, inactive
    entries, handoff detail, then what no user said. A user's words never go: the state is then larger than the budget.
    """
    inactive = ledger.section(Section.INACTIVE)
    surplus = inactive[:-INACTIVE_KEPT] if len(inactive) > INACTIVE_KEPT else ()
    ledger = ledger.without(entry.id for entry in surplus) if surplus else ledger
    if budget_tokens is None:
        return ledger
    over = estimate_text(render_state(ledger)) - budget_tokens
    gone: list[str] = []
    for entry in _expendable(ledger):
        if over <= 0:
            break
        over -= _tokens(entry)
        gone.append(entry.id)
    return ledger.without(gone) if gone else ledger


def _expendable(ledger: Ledger) -> Iterator[LedgerEntry]:
    yield from (entry for entry in ledger.section(Section.EVIDENCE) if not entry.pinned)
    yield from (entry for entry in ledger.section(Section.INACTIVE) if not entry.pinned)
    yield from (entry for entry in ledger.section(Section.HANDOFF) if entry.speaker is not Speaker.USER and not entry.pinned)
    yield from (entry for entry in ledger.section(Section.ACTIVE) if entry.speaker is not Speaker.USER and not entry.pinned)


def _tokens(entry: LedgerEntry) -> int:
    claim = entry.claim.text if entry.claim else ""
    # The bullet, the id and the pointers cost about as much as a few words.
    return estimate_text(entry.text + claim) + 6
