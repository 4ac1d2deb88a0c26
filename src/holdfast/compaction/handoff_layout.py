"""The order of a hand-off: host context, the user's messages, the summary, and the message nobody has answered yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from holdfast.compaction.checkpoint import kept_entry, placed_tail
from holdfast.compaction.ledger import Ledger, Speaker
from holdfast.compaction.plan import Plan, Seen
from holdfast.compaction.state_text import render_state
from holdfast.compaction.transcript import shortened
from holdfast.dialects import Dialect
from holdfast.dialects.base import STATE_OPENING
from holdfast.items import ItemKind, Role
from holdfast.thread import LayoutEntry, Pointer, StateEntry, StubEntry

USER_TOKENS = 20_000
LEAST_TOKENS = 16

SUMMARY_OPENING = f"{STATE_OPENING} What follows is the summary of it that was left for whoever goes on; it is no new request."


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """A user's message of the hand-off: whole, or as much of it as there was room for."""

    seen: Seen
    text: str | None = None


def quoted_messages(plan: Plan, *, budget_tokens: int) -> list[Quoted]:
    """Return the user's messages in front of the summary, oldest first: the newest that fit, and one more shortened."""
    spoken = [seen for seen in (*plan.replaced, *((plan.request,) if plan.request else ())) if _is_message(seen)]
    chosen: list[Quoted] = []
    left = budget_tokens
    for seen in reversed(spoken):
        size = seen.entry.tokens
        if seen is plan.request or size <= left:
            chosen.append(Quoted(seen=seen))
            left -= min(size, left)
            continue
        if left >= LEAST_TOKENS:
            chosen.append(Quoted(seen=seen, text=shortened(seen.view.said, tokens=left)))
        break
    return chosen[::-1]


def summary_text(summary: str, ledger: Ledger, *, quoted: Sequence[Quoted]) -> str:
    """Return the summary message: the summary, and what the ledger holds that the messages in front do not say."""
    whole = {quote.seen.entry.source for quote in quoted if quote.text is None}
    said = {entry.id for entry in ledger.entries if entry.speaker is Speaker.USER and _stands_in(entry.sources, whole)}
    shown = replace(ledger, entries=tuple(entry for entry in ledger.entries if entry.id not in said or entry.claim))
    # The block closes the message even where it says nothing: what comes after its end is a person's again.
    return f"{SUMMARY_OPENING}\n\n{summary}\n\n{render_state(shown).removeprefix(STATE_OPENING).lstrip()}"


def lay_out_handoff(
    plan: Plan, *, quoted: Sequence[Quoted], summary: StateEntry, dialect: Dialect, mid_turn: bool
) -> list[LayoutEntry]:
    """Return what stands before the cut, in the order of a hand-off.

    In the middle of a turn host context stands directly before the newest message of the user; otherwise it comes first. What
    nobody has answered yet, and whatever is under way, comes after the summary.
    """
    systems = [kept_entry(seen) for seen in plan.context if seen.view.role is Role.SYSTEM]
    context = [kept_entry(seen) for seen in plan.context if seen.view.role is not Role.SYSTEM]
    before = [_entry(quote, dialect) for quote in quoted]
    at = max(0, len(before) - 1) if mid_turn else 0
    return [
        *before[:at],
        *context,
        *before[at:],
        summary,
        *systems,
        *placed_tail(plan, dialect=dialect),
    ]


def _entry(quote: Quoted, dialect: Dialect) -> LayoutEntry:
    source = quote.seen.entry.source
    if quote.text is None or source is None:
        return kept_entry(quote.seen)
    item = msgspec.Raw(dialect.state_item(quote.text).raw)
    return StubEntry(thread=source.thread_id, ordinal=source.ordinal, depth=quote.seen.entry.depth, item=item)


def _is_message(seen: Seen) -> bool:
    return seen.view.by_person and seen.view.kind is ItemKind.MESSAGE and seen.entry.source is not None


def _stands_in(sources: tuple[Pointer, ...], messages: set[Pointer | None]) -> bool:
    return any(source in messages for source in sources)
