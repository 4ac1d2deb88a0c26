"""Whether what a model answered is a draft at all: what holds for every strategy that reads an answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from threadkeep.compaction.drafting import DraftRefused
from threadkeep.compaction.reply import after_thinking, cleaned, is_refusal
from threadkeep.llm.base import ModelReply
from threadkeep.tokens import estimate_text

# A passage is long enough that prose and lists hardly ever repeat one, and short enough that a loop of a few words does.
PASSAGE_CHARS = 12


def usable(reply: ModelReply, *, most_tokens: int, is_draft: Callable[[str], bool]) -> str:
    """Return what a reply says, without thoughts and what nobody can see.

    Args:
        most_tokens: Several times what was asked for is no draft.
        is_draft: Whether a text is the draft beyond doubt; it then counts though a tool was called too, or it begins sorry.

    Raises:
        DraftRefused: It is blank or too long, goes round in circles, refuses, or says only what it calls a tool for.
    """
    if reply.ending == "refused":
        raise DraftRefused("refused")
    text = after_thinking(cleaned(reply.text)).strip()
    if not text:
        raise DraftRefused("called_tools" if reply.called_tools else "empty")
    if estimate_text(text) > most_tokens:
        raise DraftRefused("oversized")
    if _goes_round(text):
        raise DraftRefused("looping")
    if (reply.called_tools or is_refusal(text)) and not is_draft(text):
        raise DraftRefused("called_tools" if reply.called_tools else "refused")
    return text


def _goes_round(text: str) -> bool:
    """Whether most of a text is the same few lines, or the same few words that never end the line, over and over."""
    lines = [line for each in text.splitlines() if (line := each.strip())]
    flat = " ".join(text.split())
    return (
        _repeats([line for line in lines if len(line) > 8], at_least=40, times=4)
        # Short lines recur in code and tables that a draft may quote.
        or _repeats(lines, at_least=40, times=10)
        or _repeats([flat[at : at + PASSAGE_CHARS] for at in range(len(flat) - PASSAGE_CHARS)], at_least=200, times=20)
    )


def _repeats(pieces: Sequence[str], *, at_least: int, times: int) -> bool:
    return len(pieces) >= at_least and len(set(pieces)) * times < len(pieces)
