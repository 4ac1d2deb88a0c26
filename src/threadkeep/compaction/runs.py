"""Words in a row that a call was given as part of a sentence and an earlier output showed: names and sums of several words.

"Book pier 19 north for the crew" names a pier in words that no rule would take for a name. That the same words stand next to
each other in an earlier output, and are none that everyone uses, is what tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set

from threadkeep.compaction.arguments import is_command, leaves, phrases_of
from threadkeep.compaction.telling import telling_words
from threadkeep.compaction.todos import PLAN_TOOLS
from threadkeep.compaction.working import Observed
from threadkeep.items import ItemKind

SENTENCE_CHARS = 400
SENTENCE_WORDS = 3
LONGEST_RUN = 24
SHORTEST_RUN_CHARS = 7

_words = re.compile(r"[^\s\"'`()\[\]{}<>|,;!?]+")
_figure = re.compile(r"\d")


def sentences(item: Observed) -> Iterator[str]:
    """Yield what a call was given that reads like a sentence: an argument of several words, or a quoted part of a command."""
    if item.view.kind is not ItemKind.CALL or item.view.tool in PLAN_TOOLS:
        return
    for leaf in leaves(item.view.text):
        texts = phrases_of(leaf) if is_command(leaf) else (leaf.text,)
        for text in texts:
            if len(text) <= SENTENCE_CHARS and len(_words.findall(text)) >= SENTENCE_WORDS:
                yield text


def longest_run(sentence: str, text: str, *, rare: Set[str]) -> str | None:
    """Return the longest row of a sentence's words that stands in a text as it is, one of them rare; None where there is none."""
    words = list(_words.finditer(sentence))
    best = ""
    for first, begin in enumerate(words):
        for last in words[first + 1 : first + LONGEST_RUN]:
            run = sentence[begin.start() : last.end()].rstrip(".:")
            if run not in text:
                break
            if len(run) > max(len(best), SHORTEST_RUN_CHARS - 1) and not rare.isdisjoint(_words.findall(run)):
                best = run
    return _without_edges(best, rare=rare) or None


def rare_words(sentence: str, *, within: str) -> frozenset[str]:
    """Return the words of a sentence that tell something and do not stand within a text."""
    words = (word.rstrip(".:") for word in _words.findall(sentence))
    return frozenset(word for word in words if (telling_words(word) or _figure.search(word)) and word not in within)


def _without_edges(run: str, *, rare: Set[str]) -> str:
    """Return a row of words without the words at its ends that anyone uses, a figure apart."""
    words = run.split()
    while words and not (words[0] in rare or _figure.search(words[0]) or words[0][:1].isupper()):
        words.pop(0)
    while words and not (words[-1] in rare or _figure.search(words[-1]) or words[-1][:1].isupper()):
        words.pop()
    bare = " ".join(words)
    return bare if bare in run and len(words) > 1 else ""
