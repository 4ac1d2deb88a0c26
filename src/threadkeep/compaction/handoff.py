"""The hand-off strategy: a summary another model can go on from, in Codex's layout.

The user's messages stand verbatim, newest first under a budget, in front of the summary; the message being worked on comes last
where it was not yet answered. The ledger is kept behind it, so that another strategy can take over at the next compaction.
"""

from __future__ import annotations

from threadkeep.compaction.asking import drafted
from threadkeep.compaction.drafting import Brief, Draft, DraftRefused, Voice
from threadkeep.compaction.instructions import asked_tokens, handoff_instruction
from threadkeep.compaction.reply import parse_state
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.state_text import TAG
from threadkeep.compaction.transcript import untag
from threadkeep.dialects.base import STATE_OPENING
from threadkeep.dialects.host_markers import SUMMARY_OPENINGS
from threadkeep.tokens import estimate_text

NAME = "handoff"
SUMMARY_TOKENS = 2_500
# A summary several times what was asked for is no summary.
MOST_SUMMARY_TOKENS = 12_000
# What a model says before it calls a tool, or in a block it leaves empty, is shorter than any summary of a session.
REAL_SUMMARY_TOKENS = 200


async def draft(brief: Brief, voice: Voice) -> Draft:
    """Return the model's summary of the span.

    Raises:
        DraftRefused: It gave none.
        ModelError: It could not be asked.
    """
    written = await drafted(brief, voice, lambda: _Written(brief))
    return Draft(strategy=NAME, summary=written.summary)


class _Written:
    """A summary being written; each part of a long span extends the one before."""

    tells_state = True
    most_tokens = MOST_SUMMARY_TOKENS

    def __init__(self, brief: Brief) -> None:
        self.summary = ""
        self._brief = brief

    @property
    def needs_its_end(self) -> bool:
        return True

    def instruction(self) -> str:
        target = asked_tokens(self._brief.plan.tokens_before, most=SUMMARY_TOKENS)
        asked = handoff_instruction(prompt=self._brief.prompt, focus=self._brief.focus, target_tokens=target)
        if not self.summary:
            return asked
        return f"The summary of what came before:\n{self.summary}\n\nExtend it; drop nothing that still holds.\n\n{asked}"

    def is_draft(self, text: str) -> bool:
        return estimate_text(text) >= REAL_SUMMARY_TOKENS

    def take(self, text: str) -> None:
        told = unprefixed(text)
        if not told or (TAG in told and not self.is_draft(told) and not parse_state(told).sections):
            raise DraftRefused("empty")
        self.summary = masked(untag(told))


def unprefixed(text: str) -> str:
    """Return a summary without the lines that introduce one, ours or another tool's: it gets ours, once."""
    while (opening := next((each for each in (STATE_OPENING, *SUMMARY_OPENINGS) if text.startswith(each)), None)) is not None:
        text = text[_end_of_introduction(text, after=len(opening.rstrip(":"))) :].strip()
    return text


def _end_of_introduction(text: str, *, after: int) -> int:
    """Return where the sentences around an opening end: with a colon, or else with their line."""
    ends = [at + len(sign) for sign in (":", "\n") if (at := text.find(sign, after)) >= 0]
    return min(ends, default=len(text))
