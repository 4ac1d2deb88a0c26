"""How a state over its budget becomes smaller: in fewer words, then without what may leave it, never without a user's rule."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from threadkeep.compaction.extractive import PASTED
from threadkeep.compaction.hearing import normalised
from threadkeep.compaction.ledger import BINDING, Brevity, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.passing import only_tells
from threadkeep.compaction.state_text import render_state
from threadkeep.compaction.statements import statements
from threadkeep.thread import Pointer
from threadkeep.tokens import estimate_bytes, estimate_text

INACTIVE_KEPT = 20
# What a dialect's message costs around its text.
MESSAGE_BYTES = 48


def settled(ledger: Ledger, *, behind: frozenset[str] = frozenset()) -> Ledger:
    """Return the ledger as a window shows it in full, but for what messages `behind` its state tell: without the oldest
    inactive entries.
    """
    inactive = ledger.section(Section.INACTIVE)
    surplus = inactive[:-INACTIVE_KEPT] if len(inactive) > INACTIVE_KEPT else ()
    ledger = replace(ledger, brevity=None, behind=behind)
    return ledger.without(entry.id for entry in surplus) if surplus else ledger


def archive(ledger: Ledger, *, budget_tokens: int | None = None, in_view: Mapping[Pointer, str] | None = None) -> Ledger:
    """Return the ledger with what it need not show archived; it stays in earlier checkpoints and in the records.

    The oldest inactive entries always go. Over `budget_tokens` the state is told briefly, without repeating what `in_view`
    (the person's messages that the window keeps whole, by record) says already. If that is not enough there go, oldest first:
    evidence, then inactive entries. Then messages of the user that demand nothing are shown by their pointers alone, and
    the others without: all of them stay in the ledger. Then go handoff detail, and what no user said. What a user demanded
    never goes: the state is then larger than the budget.
    """
    ledger = settled(ledger)
    if budget_tokens is None or state_tokens(ledger) <= budget_tokens:
        return ledger
    ledger = _undisputed(ledger)
    ledger = replace(ledger, brevity=Brevity(in_view=_seen_elsewhere(ledger, in_view or {})))
    ledger = _without(ledger, list(_history(ledger)), budget_tokens=budget_tokens)
    ledger = _without_passing(ledger, over=state_tokens(ledger) - budget_tokens)
    if state_tokens(ledger) > budget_tokens:
        ledger = _barely_told(ledger)
    return _without(ledger, list(_work(ledger)), budget_tokens=budget_tokens)


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


def _without(ledger: Ledger, expendable: Sequence[LedgerEntry], *, budget_tokens: int) -> Ledger:
    """Return the ledger without as many of these as it takes, from the first on; measured anew where an estimate fell short."""
    left = list(reversed(expendable))
    while left and (over := state_tokens(ledger) - budget_tokens) > 0:
        gone: list[str] = []
        while left and over > 0:
            over -= _tokens(left[-1])
            gone.append(left.pop().id)
        ledger = ledger.without(gone)
    return ledger


def _history(ledger: Ledger) -> Iterator[LedgerEntry]:
    """Yield what was and can be found again: evidence, then what gave way."""
    for section in (Section.EVIDENCE, Section.INACTIVE):
        yield from (entry for entry in ledger.section(section) if not entry.pinned)


def _work(ledger: Ledger) -> Iterator[LedgerEntry]:
    """Yield what the work rests on and no user said: the handoff, then bindings, then what a model took for the objective."""
    yield from sorted(_handoff(ledger), key=_handoff_rank)
    for section in (Section.ACTIVE, Section.OBJECTIVE):
        yield from (entry for entry in ledger.section(section) if entry.speaker is not Speaker.USER and not entry.pinned)


def _undisputed(ledger: Ledger) -> Ledger:
    """Return the ledger without what only a summary says against a user's words."""
    for entry in ledger.entries:
        if entry.claim is not None and not entry.claim.proven and entry.section in BINDING:
            ledger = ledger.with_entry(replace(entry, claim=None))
    return ledger


def _handoff(ledger: Ledger) -> Iterator[LedgerEntry]:
    """Yield handoff entries, the last of those that were computed first: what is most needed is computed first."""
    free = [entry for entry in ledger.section(Section.HANDOFF) if entry.speaker is not Speaker.USER and not entry.pinned]
    yield from (entry for entry in free if entry.speaker is not Speaker.COMPUTED)
    yield from (entry for entry in reversed(free) if entry.speaker is Speaker.COMPUTED)


def _handoff_rank(entry: LedgerEntry) -> int:
    """Quotes of what is in the records anyway, then what a model made of it all, then the work itself."""
    if entry.speaker is Speaker.COMPUTED:
        return 0 if entry.text.startswith(PASTED) else 2
    return 1


def _without_passing(ledger: Ledger, *, over: int) -> Ledger:
    """Return the ledger with as many messages that only tell shown by pointers as it takes, the objective's never."""
    if over <= 0 or ledger.brevity is None:
        return ledger
    told: defaultdict[Pointer, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        if entry.speaker is Speaker.USER:
            for source in entry.sources:
                told[source].append(entry)
    binding = {entry.id for entries in told.values() if not only_tells(entry.text for entry in entries) for entry in entries}
    passing: set[str] = set()
    for entry in ledger.section(Section.ACTIVE):
        if over <= 0:
            break
        free = entry.speaker is Speaker.USER and entry.id not in binding and entry.claim is None and not entry.pinned
        if free and entry.id not in ledger.brevity.in_view:
            over -= estimate_text(entry.text)
            passing.add(entry.id)
    return replace(ledger, brevity=replace(ledger.brevity, passing=frozenset(passing))) if passing else ledger


def _barely_told(ledger: Ledger) -> Ledger:
    return replace(ledger, brevity=replace(ledger.brevity, bare=True)) if ledger.brevity else ledger


def _tokens(entry: LedgerEntry) -> int:
    claim = entry.claim.text if entry.claim else ""
    # The bullet and the pointer cost about as much as a few words.
    return estimate_text(entry.text + claim) + 3
