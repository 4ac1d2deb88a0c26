"""Which of a user's messages only tell something, and demand nothing.

Asked only where the state is over a budget, and the answer chooses between two forms: the words, or a pointer to them. Whatever
might bind stays in words: whatever names a value, denies, orders, limits, asks, wishes or is labelled, and whatever is not plain
English, because only there are the signs of a demand known well enough to miss them. One such sentence keeps its whole message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from threadkeep.compaction.ties import is_negative, label_of, terms

# Words that no other language uses; without one of them nothing is known about what a sentence demands.
_english = re.compile(r"\b(?:the|with|this|that|from|are|were|which|their)\b", re.IGNORECASE)
_binding = re.compile(
    r"\b(?:must|should|shall|ought|need|needs|needed|want|wants|wanted|wish|prefer|prefers|like|likes|please|always|only|solely|"
    r"ensure|sure|keep|keeps|use|using|avoid|require|requires|required|remember|note|mind|until|unless|before|after|if|whenever|"
    r"instead|rather|least|most|may|might|can|could|would|let|make|do|does|any|all|every|each|both|either|exactly|same|limit|"
    r"limited|forbidden|allowed|agreed|decided|decide|goal|aim|next|todo|fix|add|remove|write|run|stop|start|i|my|me|you|your)\b",
    re.IGNORECASE,
)
_amount = re.compile(
    r"\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty|sixty|hundred|thousand|half|"
    r"twice|daily|weekly|monthly)\b",
    re.IGNORECASE,
)
# What every engineer abbreviates names a kind of thing, not one thing.
_abbreviation = re.compile(r"[A-Z]{3,4}")
_signs = frozenset('?!:"`*')


def only_tells(statements: Iterable[str]) -> bool:
    """Whether nothing in a message, given as its statements, could bind anyone."""
    return all(_tells(statement) for statement in statements)


def _tells(statement: str) -> bool:
    if not _english.search(statement) or not statement.isascii() or _signs & set(statement):
        return False
    if _binding.search(statement) or _amount.search(statement):
        return False
    values = (value for value in terms(statement).values if not _abbreviation.fullmatch(value))
    return not (label_of(statement) or is_negative(statement) or any(values))
