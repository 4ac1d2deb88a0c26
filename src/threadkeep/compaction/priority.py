"""Which messages of people a window can leave to recall first, where they said more than fits.

Words are only counted: a word is rare or common among everything people said, in any language. The one list of words is that of
`speech.may_bind`, and it only protects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.speech import may_bind, obliges
from threadkeep.tokens import estimate_text

# So many tokens of what people said stand in any window, whatever they repeat.
PLENTY_TOKENS = 3_000
# The newest messages stay, whatever they repeat.
NEWEST_MESSAGES = 12
# A message repeats others if each word of it stands in so many of them.
OTHERS = 2
# A word that no more messages than these hold is theirs: it may be a name, a value, or what a later message takes back.
RARE = 3

_word = re.compile(r"\w+")


def find_repeated(ledger: Ledger) -> frozenset[str]:
    """Return the older messages that say nothing of their own: each word of theirs stands in two others that are told.

    What obliges, what is pinned or noted, and the newest messages are never among them; nor is any where people said little.
    """
    messages = [entry for entry in ledger.entries if _is_message(entry)]
    if sum(estimate_text(entry.text) for entry in messages) <= PLENTY_TOKENS:
        return frozenset()
    words = {entry.id: _words(entry) for entry in messages}
    told = Counter(word for said in words.values() for word in said)
    common = dict(told)
    repeated: set[str] = set()
    # The most common first, and of equals the oldest.
    for entry in sorted(messages[:-NEWEST_MESSAGES], key=lambda each: -_rarest(words[each.id], common)):
        if not obliges(entry.text) and all(told[word] > OTHERS for word in words[entry.id]):
            repeated.add(entry.id)
            told.subtract(words[entry.id])
    return frozenset(repeated)


def rank_messages(messages: Sequence[LedgerEntry], *, beside: Iterable[LedgerEntry]) -> list[LedgerEntry]:
    """Return messages, first those that say most: words that few others hold, and what may bind later work.

    Of equals the order stays.
    """
    words = {entry.id: _words(entry) for entry in beside if entry.speaker is Speaker.USER}
    common = Counter(word for said in words.values() for word in said)

    def weigh(entry: LedgerEntry) -> tuple[int, int]:
        rarest = _rarest(words.get(entry.id, frozenset()), common)
        return -(rarest <= RARE) - may_bind(entry.text), rarest

    return sorted(messages, key=weigh)


def _is_message(entry: LedgerEntry) -> bool:
    is_said = entry.speaker is Speaker.USER and entry.section is Section.ACTIVE
    return is_said and not entry.pinned and not entry.noted


def _words(entry: LedgerEntry) -> frozenset[str]:
    return frozenset(_word.findall(entry.text.casefold()))


def _rarest(words: Iterable[str], common: dict[str, int]) -> int:
    return min((common[word] for word in words), default=0)
