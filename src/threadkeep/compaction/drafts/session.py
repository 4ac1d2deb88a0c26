"""The session strategy: a model updates the ledger, and code checks the changes.

The model gets the state with its ids and the user's messages by number, on the thread's own prefix or as a transcript. Its answer
becomes operations (`reply`); people's messages stay in the ledger whatever it answers.
"""

from __future__ import annotations

from threadkeep.compaction.drafts.draft import Brief, Draft, DraftRefused, Summariser
from threadkeep.compaction.drafts.instructions import choose_answer_tokens, write_session_instruction
from threadkeep.compaction.drafts.operations import read_operations
from threadkeep.compaction.drafts.reply import ParsedState, parse_state
from threadkeep.compaction.drafts.requests import DraftWriter, write_draft
from threadkeep.compaction.ledger import Ledger, Operation, Speaker
from threadkeep.compaction.merge import apply, normalise_text

NAME = "session"
BLOCK_TOKENS = 4_000
# A longer block is no state: unchanged entries need not be written.
MOST_BLOCK_TOKENS = 20_000


async def draft(brief: Brief, summariser: Summariser) -> Draft:
    """Return the model's operations for the span.

    Raises:
        DraftRefused: The reply is no draft.
        ModelError: The request failed.
    """
    written = await write_draft(brief, summariser, lambda: _LedgerDraft(brief))
    return Draft(strategy=NAME, stages=tuple(written.stages), ignored=written.ignored)


def find_unknown_operations(parsed: ParsedState, ledger: Ledger) -> list[str]:
    """Return the operations of a reply that name no entry of the ledger, as written; they are ignored."""
    known = {entry.id for entry in ledger.entries} | {normalise_text(entry.text) for entry in ledger.entries}
    operations = [entry for entries in parsed.sections.values() for entry in entries if entry.verb]
    return [
        f"{entry.verb} {', '.join(entry.ids) or entry.text}"
        for entry in operations
        if not known & {*entry.ids, normalise_text(entry.text)}
    ]


class _LedgerDraft(DraftWriter):
    """A ledger that each reply updates."""

    transcript_has_state = False
    needs_its_end = False
    most_tokens = MOST_BLOCK_TOKENS

    def __init__(self, brief: Brief) -> None:
        self.stages: list[tuple[Operation, ...]] = []
        self.ignored = 0
        self._brief = brief
        self._ledger: Ledger = brief.ledger
        plan = brief.plan
        self._spoken = brief.spoken
        self._records = [seen.source for seen in plan.observed]

    def instruction(self) -> str:
        brief = self._brief
        # The state already shows messages from before the last compaction.
        user_entries = (entry for entry in brief.ledger.entries if entry.speaker is Speaker.USER)
        shown = {source for entry in user_entries for source in entry.sources}
        new = [seen for seen in brief.plan.spoken if seen.entry.source not in shown]
        target = choose_answer_tokens(brief.plan.tokens_before, most=BLOCK_TOKENS)
        return write_session_instruction(self._ledger, new, prompt=brief.prompt, focus=brief.focus, target_tokens=target)

    def is_draft(self, text: str) -> bool:
        state = parse_state(text)
        return state.found_block or state.complete

    def take(self, text: str) -> None:
        parsed = parse_state(text)
        if not parsed.sections:
            raise DraftRefused("unreadable")
        self.ignored += len(find_unknown_operations(parsed, self._ledger))
        operations = tuple(
            read_operations(
                parsed,
                ledger=self._ledger,
                spoken=self._spoken,
                thread_id=self._brief.thread_id,
                records=self._records,
            )
        )
        self._ledger = apply(self._ledger, operations, spoken=self._spoken)
        self.stages.append(operations)
