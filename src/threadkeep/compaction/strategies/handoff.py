"""The hand-off strategy, compatible with Codex: a summary for the next model, and Codex' order of the new window.

The window holds host context, the user's messages, the summary, and the message without a reply.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import msgspec

from threadkeep.compaction.checkpoint import keep_entry, place_tail, quote_entry
from threadkeep.compaction.ledger import Ledger, Speaker
from threadkeep.compaction.plan import Plan, Position, Quote
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.compaction.state_text import TAG, render_state
from threadkeep.compaction.strategies.instructions import choose_answer_tokens, write_handoff_instruction
from threadkeep.compaction.strategies.reply import parse_state
from threadkeep.compaction.strategies.requests import DraftWriter, write_draft
from threadkeep.compaction.strategies.strategy import Brief, Draft, DraftRefused, Strategy, Summariser
from threadkeep.compaction.transcript import shorten_text, untag
from threadkeep.dialects.host_markers import SUMMARY_OPENINGS
from threadkeep.dialects.values import STATE_OPENING
from threadkeep.items import ItemKind, Role
from threadkeep.threads import LayoutEntry, Pointer, StateEntry
from threadkeep.tokens import estimate_text

SUMMARY_OPENING = f"{STATE_OPENING} What follows is the summary of it that was left for whoever goes on; it is no new request."


def select_quoted_messages(plan: Plan, *, budget_tokens: int) -> list[Quote]:
    """Return the user's messages in front of the summary, oldest first: the newest that fit, and one more shortened.

    The request of a turn that goes on, or an agent's task, is always among them.
    """
    asked = [*((plan.request,) if plan.request else ()), *(quote.seen for quote in plan.quoted if quote.seen is not None)]
    standing = {id(seen) for seen in asked}
    spoken = [seen for seen in plan.replaced if _is_message(seen)] + asked
    chosen: list[Quote] = []
    left = budget_tokens
    for seen in reversed(spoken):
        source, size = seen.entry.source, seen.entry.tokens
        if source is None:
            continue
        if id(seen) in standing or size <= left:
            chosen.append(Quote(source=source, seen=seen, tokens=size))
            left -= min(size, left)
            continue
        if left:
            chosen.append(Quote(source=source, seen=seen, tokens=left, text=shorten_text(seen.view.said, tokens=left)))
        break
    return chosen[::-1]


def render_summary(summary: str, ledger: Ledger, *, quoted: Sequence[Quote]) -> str:
    """Return the summary message: the summary, and the ledger's entries that the quoted messages do not hold."""
    whole = {quote.source for quote in quoted if quote.text is None}
    said = {entry.id for entry in ledger.entries if entry.speaker is Speaker.USER and _is_in(entry.sources, whole)}
    shown = replace(ledger, in_view=ledger.in_view | said)
    # The block ends the message even if it is empty, to separate it from a person's text.
    return f"{SUMMARY_OPENING}\n\n{summary}\n\n{render_state(shown).removeprefix(STATE_OPENING).lstrip()}"


def lay_out_handoff(plan: Plan, state: Ledger, draft: Draft, brief: Brief) -> list[LayoutEntry]:
    """Return the layout before the cut, in the order of a hand-off.

    In the middle of a turn host context stands directly before the newest message of the user; otherwise it comes first. Pending
    items come after the summary. So do instructions within the history, which not every provider takes before a user's message;
    in the middle of a turn the Responses API takes them, so they stand with the context there.
    """
    dialect, is_mid_turn = brief.dialect, brief.goal.phase == "mid_turn"
    quoted = select_quoted_messages(plan, budget_tokens=brief.goal.user_tokens)
    text = render_summary(draft.summary or "", state, quoted=quoted)
    systems = [keep_entry(seen) for seen in plan.context if seen.view.role is Role.SYSTEM]
    context = [keep_entry(seen) for seen in plan.context if seen.view.role is not Role.SYSTEM]
    before = [quote_entry(quote, dialect) for quote in quoted]
    at = max(0, len(before) - 1) if is_mid_turn else 0
    leading = systems if is_mid_turn and dialect.takes_instructions_anywhere else []
    return [
        *(keep_entry(seen) for seen in plan.head),
        *before[:at],
        *leading,
        *context,
        *before[at:],
        StateEntry(item=msgspec.Raw(dialect.make_user_message(text).raw)),
        *(() if leading else systems),
        *place_tail(plan, dialect=dialect),
    ]


def _is_message(seen: Position) -> bool:
    return seen.view.by_person and seen.view.kind is ItemKind.MESSAGE and seen.entry.source is not None


def _is_in(sources: tuple[Pointer, ...], messages: set[Pointer]) -> bool:
    return any(source in messages for source in sources)


SUMMARY_TOKENS = 2_500
# A longer text is no summary.
MOST_SUMMARY_TOKENS = 12_000
# Text before a tool call, or around an empty block, is shorter than any summary of a session.
REAL_SUMMARY_TOKENS = 200


async def draft(brief: Brief, summariser: Summariser) -> Draft:
    """Return the model's summary of the span.

    Raises:
        DraftRefused: The reply is no summary.
        ModelError: The request failed.
    """
    written = await write_draft(brief, summariser, lambda: _SummaryDraft(brief))
    return Draft(strategy=HANDOFF, summary=written.summary)


HANDOFF = Strategy(name="handoff", draft=draft, lay_out=lay_out_handoff, keeps_recent_work=False)


class _SummaryDraft(DraftWriter):
    """A summary that each part of a long span extends."""

    transcript_has_state = True
    needs_its_end = True
    most_tokens = MOST_SUMMARY_TOKENS

    def __init__(self, brief: Brief) -> None:
        self.summary = ""
        self._brief = brief

    def instruction(self) -> str:
        target = choose_answer_tokens(self._brief.plan.tokens_before, most=SUMMARY_TOKENS)
        instruction = write_handoff_instruction(
            prompt=self._brief.goal.prompt, focus=self._brief.goal.focus, target_tokens=target
        )
        if not self.summary:
            return instruction
        return f"The summary of what came before:\n{self.summary}\n\nExtend it; drop nothing that still holds.\n\n{instruction}"

    def is_draft(self, text: str) -> bool:
        return estimate_text(text) >= REAL_SUMMARY_TOKENS

    def take(self, text: str) -> None:
        summary = strip_prefix(text)
        if not summary or (TAG in summary and not self.is_draft(summary) and not parse_state(summary).sections):
            raise DraftRefused("empty")
        self.summary = mask_secrets(untag(summary))


def strip_prefix(text: str) -> str:
    """Return a summary without introductory lines, ours or another tool's; ours is added later."""
    while (opening := next((each for each in (STATE_OPENING, *SUMMARY_OPENINGS) if text.startswith(each)), None)) is not None:
        # The sentences around an opening end with a colon, or else with their line.
        text = re.sub(r"\A[^:\n]*[:\n]?", "", text.removeprefix(opening.rstrip(":"))).strip()
    return text
