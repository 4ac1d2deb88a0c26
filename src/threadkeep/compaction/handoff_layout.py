"""The order of a hand-off: host context, the user's messages, the summary, and the message nobody has answered yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from threadkeep.compaction.checkpoint import kept_entry, placed_tail, quoted_entry
from threadkeep.compaction.ledger import Ledger, Speaker
from threadkeep.compaction.plan import Plan, Quoted, Seen
from threadkeep.compaction.state_text import render_state
from threadkeep.compaction.transcript import shortened
from threadkeep.dialects import Dialect
from threadkeep.dialects.base import STATE_OPENING
from threadkeep.items import ItemKind, Role
from threadkeep.threads import LayoutEntry, Pointer, StateEntry

USER_TOKENS = 20_000
LEAST_TOKENS = 16

SUMMARY_OPENING = f"{STATE_OPENING} What follows is the summary of it that was left for whoever goes on; it is no new request."


def quoted_messages(plan: Plan, *, budget_tokens: int) -> list[Quoted]:
    """Return the user's messages in front of the summary, oldest first: the newest that fit, and one more shortened.

    What the thread is working on, a person's request or an agent's task, is among them whatever it takes.
    """
    asked = [*((plan.request,) if plan.request else ()), *(quote.seen for quote in plan.quoted if quote.seen is not None)]
    standing = {id(seen) for seen in asked}
    spoken = [seen for seen in plan.replaced if _is_message(seen)] + asked
    chosen: list[Quoted] = []
    left = budget_tokens
    for seen in reversed(spoken):
        source, size = seen.entry.source, seen.entry.tokens
        if source is None:
            continue
        if id(seen) in standing or size <= left:
            chosen.append(Quoted(source=source, seen=seen, tokens=size))
            left -= min(size, left)
            continue
        if left >= LEAST_TOKENS:
            chosen.append(Quoted(source=source, seen=seen, tokens=left, text=shortened(seen.view.said, tokens=left)))
        break
    return chosen[::-1]


def summary_text(summary: str, ledger: Ledger, *, quoted: Sequence[Quoted]) -> str:
    """Return the summary message: the summary, and what the ledger holds that the messages in front do not say."""
    whole = {quote.source for quote in quoted if quote.text is None}
    said = {entry.id for entry in ledger.entries if entry.speaker is Speaker.USER and _stands_in(entry.sources, whole)}
    shown = replace(ledger, in_view=ledger.in_view | said)
    # The block closes the message even where it says nothing: what comes after its end is a person's again.
    return f"{SUMMARY_OPENING}\n\n{summary}\n\n{render_state(shown).removeprefix(STATE_OPENING).lstrip()}"


def lay_out_handoff(
    plan: Plan, *, quoted: Sequence[Quoted], summary: StateEntry, dialect: Dialect, mid_turn: bool
) -> list[LayoutEntry]:
    """Return what stands before the cut, in the order of a hand-off.

    In the middle of a turn host context stands directly before the newest message of the user; otherwise it comes first. What
    nobody has answered yet, and whatever is under way, comes after the summary. So do instructions within the history, which not
    every provider takes before a user's message; in the middle of a turn the Responses API does, and there they are context too.
    """
    systems = [kept_entry(seen) for seen in plan.context if seen.view.role is Role.SYSTEM]
    context = [kept_entry(seen) for seen in plan.context if seen.view.role is not Role.SYSTEM]
    before = [quoted_entry(quote, dialect) for quote in quoted]
    at = max(0, len(before) - 1) if mid_turn else 0
    leading = systems if mid_turn and dialect.takes_instructions_anywhere else []
    return [
        *(kept_entry(seen) for seen in plan.head),
        *before[:at],
        *leading,
        *context,
        *before[at:],
        summary,
        *(() if leading else systems),
        *placed_tail(plan, dialect=dialect),
    ]


def _is_message(seen: Seen) -> bool:
    return seen.view.by_person and seen.view.kind is ItemKind.MESSAGE and seen.entry.source is not None


def _stands_in(sources: tuple[Pointer, ...], messages: set[Pointer]) -> bool:
    return any(source in messages for source in sources)
