"""How a state over its budget becomes smaller: in fewer words first, then without what may leave it, and never without a user's rule."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from holdfast.compaction.ledger import Brevity, Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.merge import BINDING, normalised
from holdfast.compaction.passing import only_tells
from holdfast.compaction.state_text import render_state
from holdfast.compaction.statements import statements
from holdfast.thread import Pointer
from holdfast.tokens import estimate_bytes, estimate_text

INACTIVE_KEPT = 20
# What a dialect's message costs around its text.
MESSAGE_BYTES = 48


def archive(ledger: Ledger, *, budget_tokens: int | None = None, in_view: Mapping[Pointer, str] | None = None) -> Ledger:
    """Return the ledger with what it need not show archived; it stays in earlier checkpoints and in the records.

    The oldest inactive entries always go. Over `budget_tokens` the state is told briefly, without repeating what `in_view`
    (the person's messages that the window keeps whole, by record) says already. If that is not enough there go, in this
    order and oldest first: evidence, inactive entries, handoff detail, then what no user said. At last messages of the user
    that demand nothing are shown by their pointers alone, oldest first; they stay in the ledger. What a user demanded never
    goes: the state is then larger than the budget.
    """
    ledger = replace(ledger, brevity=None)
    inactive = ledger.section(Section.INACTIVE)
    surplus = inactive[:-INACTIVE_KEPT] if len(inactive) > INACTIVE_KEPT else ()
    ledger = ledger.without(entry.id for entry in surplus) if surplus else ledger
    if budget_tokens is None or state_tokens(ledger) <= budget_tokens:
        return ledger
    ledger = replace(ledger, brevity=Brevity(in_view=_seen_elsewhere(ledger, in_view or {})))
    ledger = _without_expendable(ledger, over=state_tokens(ledger) - budget_tokens)
    return _without_passing(ledger, over=state_tokens(ledger) - budget_tokens)


def state_tokens(ledger: Ledger) -> int:
    """Return what the message that carries this state costs in a window."""
    text = json.dumps(render_state(ledger), ensure_ascii=False)
    return estimate_bytes(len(text.encode("utf-8", "replace")) + MESSAGE_BYTES)


def _seen_elsewhere(ledger: Ledger, in_view: Mapping[Pointer, str]) -> frozenset[str]:
    """Return the entries that need no words here: a kept message says the same, or is what contests or replaced them."""
    said = {normalised(statement) for message in in_view.values() for statement in statements(message)}
    return frozenset(
        entry.id
        for entry in ledger.entries
        if (entry.claim.source in in_view if entry.claim else entry.speaker is Speaker.USER and normalised(entry.text) in said)
    )


def _without_expendable(ledger: Ledger, *, over: int) -> Ledger:
    """Return the ledger without as much of what may leave it as it takes; what only a summary disputes goes before that."""
    if over > 0:
        disputed = (entry for entry in ledger.entries if entry.claim is not None and not entry.claim.proven)
        for entry in list(disputed):
            if entry.section in BINDING:
                over -= _tokens(entry)
                ledger = ledger.with_entry(replace(entry, claim=None))
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
    for section in (Section.ACTIVE, Section.OBJECTIVE):
        yield from (entry for entry in ledger.section(section) if entry.speaker is not Speaker.USER and not entry.pinned)


def _without_passing(ledger: Ledger, *, over: int) -> Ledger:
    """Return the ledger with as many messages that only tell shown by pointers as it takes, the objective's never."""
    if over <= 0 or ledger.brevity is None:
        return ledger
    told: defaultdict[Pointer, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        if entry.speaker is Speaker.USER:
            for source in entry.sources:
                told[source].append(entry)
    binding = {
        entry.id
        for entries in told.values()
        if not only_tells(entry.text for entry in entries)
        for entry in entries
    }
    passing: set[str] = set()
    for entry in ledger.section(Section.ACTIVE):
        if over <= 0:
            break
        free = entry.speaker is Speaker.USER and entry.id not in binding and entry.claim is None and not entry.pinned
        if free and entry.id not in ledger.brevity.in_view:
            over -= estimate_text(entry.text)
            passing.add(entry.id)
    return replace(ledger, brevity=replace(ledger.brevity, passing=frozenset(passing))) if passing else ledger


def _tokens(entry: LedgerEntry) -> int:
    claim = entry.claim.text if entry.claim else ""
    # The bullet and the pointer cost about as much as a few words.
    return estimate_text(entry.text + claim) + 3
