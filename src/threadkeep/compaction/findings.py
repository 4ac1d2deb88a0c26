"""What the agent found out, decided, ruled out, measured or named: sentences of its own answers, word for word.

No model is asked. Questions, announcements and fragments find nothing. Of the rest those are worth most that name something
exact, conclude a turn or sound conclusive; that decides only which ones stay when there is no room for all. They are the agent's
words and never a rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from threadkeep.compaction.exact_values import values_in
from threadkeep.compaction.speech import split_fences

FINDING_CHARS = 320
LEAST_CHARS = 24
PER_MESSAGE = 4
KEPT = 400

_sentence_end = re.compile(r"(?<=[.!?…])[\"'”’)\]*_`]*\s+(?=[\"'“‘(\[*_`A-ZÀ-ÖØ-Þ0-9\u0400-\u042f])|(?<=[。！？；])")
_bullet = re.compile(r"^\s*(?:[-*•‣·]|\d{1,3}[.)]|#{1,6})\s+")
_conclusive = re.compile(
    r"\b(?:because|cause[ds]?|caused by|reason|root|turns? out|found|decid\w+|chose|chosen|rul\w+ out|does ?n[o']t|did ?n[o']t|"
    r"not the|instead|fix(?:ed|es)?|fail\w*|pass\w*|confirm\w*|measur\w+|result\w*|require\w*|must|needs?|set to|is now|changed|"
    r"created|completed|submitted|works?|broke|broken|wrong|missing|expects?)\b",
    re.IGNORECASE,
)
# The agent announcing its next step found nothing yet.
_announces = re.compile(r"^(?:let me|i['’]ll|i will|i['’]m going to|now i|next,? i|first,? i|let['’]s)\b", re.IGNORECASE)


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sentence of the agent's, where it stands, and how much it is worth beside others."""

    text: str
    source: str
    worth: int = 0


def find(text: str, *, source: str, concludes: bool) -> list[Finding]:
    """Return the findings of one message of the agent's, in order; `concludes` says that it ended a turn."""
    found = [
        Finding(text=sentence, source=source, worth=worth)
        for sentence in dict.fromkeys(_sentences(text))
        if (worth := _worth(sentence, concludes=concludes)) is not None
    ]
    best = sorted(found, key=lambda each: -each.worth)[:PER_MESSAGE]
    return [each for each in found if each in best]


def _worth(sentence: str, *, concludes: bool) -> int | None:
    """Return what a sentence is worth beside others; None where it finds nothing: a fragment, a question, an announcement."""
    if len(sentence) < LEAST_CHARS or sentence.endswith(("?", ":")) or _announces.match(sentence):
        return None
    values = len(values_in(sentence))
    return min(values, 3) + (2 if _conclusive.search(sentence) else 0) + (1 if concludes else 0)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a text outside its code blocks, each on one line and of a readable length."""
    for line in (line for is_fenced, block in split_fences(text) if not is_fenced for line in block):
        if line.lstrip().startswith(("|", ">", "<")):
            continue
        for sentence in _sentence_end.split(_bullet.sub("", line.strip())):
            flat = " ".join(sentence.split())
            if flat and len(flat) <= FINDING_CHARS:
                yield flat
