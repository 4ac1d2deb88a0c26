"""What people said last, in messages of their own behind the state.

A later message decides over an earlier one without code having to know what it changes. The newest messages stand there whole, in
order, each a message of its own, all of them from some message on; the state tells what is older. They are taken from the ledger,
so a message that a tight window left out comes back where there is room.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.plan import Plan, Quoted, Seen
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.speech import CUT_MARK
from threadkeep.compaction.transcript import untag
from threadkeep.items import ItemKind
from threadkeep.threads import EntryKind, Pointer
from threadkeep.tokens import estimate_text

# What a dialect's message costs around its text.
AROUND_TOKENS = 12


def quote_newest(plan: Plan, ledger: Ledger, *, budget_tokens: int, repeated: frozenset[str] = frozenset()) -> tuple[Quoted, ...]:
    """Return the newest messages of people that the window does not keep anyway, oldest first, within `budget_tokens`.

    Those that say nothing of their own (`repeated`) are passed over.
    """
    standing = {seen.entry.source: seen for seen in plan.replaced if seen.entry.source is not None}
    kept = plan.kept_messages
    # A note stands in the state; what was said before it may not stand behind it, where it would read as later.
    since = max((_last_said(entry) for entry in ledger.entries if entry.noted and entry.speaker is Speaker.USER), default=-1)
    chosen: list[Quoted] = []
    for entry in sorted(_messages(ledger, kept), key=_last_said, reverse=True):
        if entry.sources[-1] in kept or entry.id in repeated:
            continue
        quote = _quote(entry, standing)
        budget_tokens -= quote.tokens
        if budget_tokens < 0 or entry.sources[-1].ordinal < since:
            break
        chosen.append(quote)
    return tuple(reversed(chosen))


def entries_in_view(plan: Plan, ledger: Ledger) -> frozenset[str]:
    """Return the entries that messages of the new window tell, whole."""
    shown = plan.kept_messages | {quote.source for quote in plan.quoted}
    return frozenset(
        entry.id
        for entry in ledger.entries
        if entry.speaker is Speaker.USER
        and not entry.pinned
        and entry.section is Section.ACTIVE
        and entry.sources
        and entry.sources[-1] in shown
    )


def _messages(ledger: Ledger, kept: Collection[Pointer]) -> list[LedgerEntry]:
    """Return what people said in this thread since they set its goal.

    The goal stands in the state, so an older message behind it would read as later; where the window keeps the goal's message,
    the order is plain. A thread that continues another counts anew, so no number tells which is later.
    """
    found: list[LedgerEntry] = []
    for entry in reversed(ledger.entries):
        if _is_goal(entry) and entry.sources[-1] not in kept:
            break
        if not _is_message(entry):
            continue
        if found and _last_said(entry) > _last_said(found[-1]) and entry.sources[-1].thread_id != found[-1].sources[-1].thread_id:
            break
        found.append(entry)
    return found


def _is_goal(entry: LedgerEntry) -> bool:
    return entry.section is Section.OBJECTIVE and entry.speaker is Speaker.USER and bool(entry.sources)


def _is_message(entry: LedgerEntry) -> bool:
    """Whether an entry is something a person said in the conversation and that still holds; pins and notes stand in the state."""
    holds = entry.speaker is Speaker.USER and entry.section is Section.ACTIVE
    return holds and not entry.pinned and not entry.noted and bool(entry.sources)


def _last_said(entry: LedgerEntry) -> int:
    return entry.sources[-1].ordinal if entry.sources else -1


def _quote(entry: LedgerEntry, standing: Mapping[Pointer, Seen]) -> Quoted:
    source = entry.sources[-1]
    seen = standing.get(source)
    if seen is not None and _may_stand_as_it_is(seen, entry.text):
        return Quoted(source=source, seen=seen, tokens=seen.entry.tokens)
    text = untag(masked(entry.text))
    if CUT_MARK in text:
        text = f"{text} (in full at #{source.ordinal})"
    return Quoted(source=source, seen=seen, text=text, tokens=estimate_text(text) + AROUND_TOKENS)


def _may_stand_as_it_is(seen: Seen, told: str) -> bool:
    """Whether a message is nothing but what the ledger tells of it: no paste, no secret, no picture, nothing of a host's."""
    view = seen.view
    plain = view.kind is ItemKind.MESSAGE and view.context is None and not view.images and seen.entry.kind is EntryKind.KEEP
    return plain and view.text.strip() == view.said.strip() == told.strip() and untag(masked(told)) == told
