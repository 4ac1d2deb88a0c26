"""The newest messages of people, quoted behind the state, and the older ones that can be left to recall.

A later message decides over an earlier one without code having to know what it changes. So the newest messages stand behind the
state whole, in order, each a message of its own; the state shows the older ones. They come from the ledger: a message that a
tight window left out returns where there is room.

Where people said more than fits, words are only counted: a word is rare or common among all their messages, in any language. The
one list of words is that of `speech.may_bind`, and it only protects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import chain

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.merge import normalise_text
from threadkeep.compaction.message_judgement import may_bind, obliges
from threadkeep.compaction.message_shortener import CUT_MARK, shorten
from threadkeep.compaction.plan import Plan, Position, Quote
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.compaction.transcript import untag
from threadkeep.items import ItemKind
from threadkeep.threads import EntryKind, Pointer
from threadkeep.tokens import estimate_text

# Messages of people up to this total are all kept, whatever they repeat.
PLENTY_TOKENS = 3_000
# The newest messages stay, whatever they repeat.
NEWEST_MESSAGES = 12
# A message is repeated if this many others hold each of its words.
OTHERS = 2
# A word that no more messages than these hold is theirs: it may be a name, a value, or what a later message takes back.
RARE = 3

_word = re.compile(r"\w+")


class MessageWords:
    """The words of people's messages in a ledger, and how many messages hold each."""

    def __init__(self, ledger: Ledger) -> None:
        self._said = [entry for entry in ledger.entries if entry.speaker is Speaker.USER]
        self._weights: dict[str, tuple[int, int]] = {}

    @cached_property
    def _words(self) -> dict[str, frozenset[str]]:
        return {entry.id: _find_words(entry) for entry in self._said}

    @cached_property
    def _common(self) -> Counter[str]:
        return Counter(chain.from_iterable(self._words.values()))

    def find_repeated(self) -> frozenset[str]:
        """Return the older messages that add nothing: each of their words is in two other messages that are told.

        Messages that oblige, pins, notes and the newest are never among them; nor is any message of a short conversation.
        """
        messages = [entry for entry in self._said if _is_message(entry)]
        if sum(estimate_text(entry.text) for entry in messages) <= PLENTY_TOKENS:
            return frozenset()
        words = self._words
        told = Counter(chain.from_iterable(words[entry.id] for entry in messages))
        rarest = {entry.id: _count_rarest(words[entry.id], told) for entry in messages}
        repeated: set[str] = set()
        # The most common first, and of equals the oldest.
        for entry in sorted(messages[:-NEWEST_MESSAGES], key=lambda each: -rarest[each.id]):
            if _count_rarest(words[entry.id], told) > OTHERS and not obliges(entry.text):
                repeated.add(entry.id)
                told.subtract(words[entry.id])
        return frozenset(repeated)

    def weigh(self, entry: LedgerEntry) -> tuple[int, int]:
        """Return the sort key that puts the most telling messages first: those with words that few others hold, and those that
        may bind later work.
        """
        weight = self._weights.get(entry.id)
        if weight is None:
            rarest = _count_rarest(self._words.get(entry.id) or _find_words(entry), self._common)
            weight = self._weights[entry.id] = (-(rarest <= RARE) - may_bind(entry.text), rarest)
        return weight


def _find_words(entry: LedgerEntry) -> frozenset[str]:
    return frozenset(_word.findall(entry.text.casefold()))


def _count_rarest(words: Iterable[str], common: Mapping[str, int]) -> int:
    return min(map(common.__getitem__, words), default=0)


# The tokens of a message around its text.
AROUND_TOKENS = 12


def quote_newest(plan: Plan, ledger: Ledger, *, budget_tokens: int, repeated: frozenset[str] = frozenset()) -> tuple[Quote, ...]:
    """Return the newest messages of people that the window does not keep anyway, oldest first, within `budget_tokens`.

    `repeated` messages are left out.
    """
    replaced = {seen.entry.source: seen for seen in plan.replaced if seen.entry.source is not None}
    kept = plan.kept_messages
    # A note stands in the state; what was said before it may not stand behind it, where it would read as later.
    since = max((_find_ordinal(entry) for entry in ledger.entries if entry.noted and entry.speaker is Speaker.USER), default=-1)
    chosen: list[Quote] = []
    for entry in sorted(_find_messages(ledger, kept), key=_find_ordinal, reverse=True):
        if entry.sources[-1] in kept or entry.id in repeated:
            continue
        quote = _make_quote(entry, replaced)
        budget_tokens -= quote.tokens
        if budget_tokens < 0 or entry.sources[-1].ordinal < since:
            break
        chosen.append(quote)
    return tuple(reversed(chosen))


def find_entries_in_view(plan: Plan, ledger: Ledger) -> frozenset[str]:
    """Return the entries that messages of the new window tell, whole."""
    shown = plan.kept_messages | {quote.source for quote in plan.quoted}
    return frozenset(
        entry.id
        for entry in ledger.entries
        if entry.speaker is Speaker.USER
        and not entry.pinned
        and entry.section is Section.ACTIVE
        and entry.sources
        and entry.sources[-1] in shown
    )


def find_entries_said_again(ledger: Ledger, said: Iterable[str]) -> frozenset[str]:
    """Return the entries whose words stand among messages that a client kept when it rewrote its history."""
    kept = {normalise_text(shorten(text)) for text in said}
    return frozenset(
        entry.id
        for entry in ledger.entries
        if entry.speaker is Speaker.USER
        and not entry.pinned
        and entry.section is Section.ACTIVE
        and normalise_text(entry.text) in kept
    )


def _find_messages(ledger: Ledger, kept: Collection[Pointer]) -> list[LedgerEntry]:
    """Return people's messages in this thread since they set its goal, newest first.

    The goal stands in the state, so an older message behind it would read as later; where the window keeps the goal's message,
    the order is plain.
    """
    found: list[LedgerEntry] = []
    for entry in reversed(ledger.entries):
        if _is_goal(entry) and entry.sources[-1] not in kept:
            break
        if not _is_message(entry):
            continue
        found.append(entry)
    return found


def _is_goal(entry: LedgerEntry) -> bool:
    return entry.section is Section.OBJECTIVE and entry.speaker is Speaker.USER and bool(entry.sources)


def _is_message(entry: LedgerEntry) -> bool:
    """Whether an entry is a person's message in the conversation that still holds, and no pin or note."""
    holds = entry.speaker is Speaker.USER and entry.section is Section.ACTIVE
    return holds and not entry.pinned and not entry.noted and bool(entry.sources)


def _find_ordinal(entry: LedgerEntry) -> int:
    return entry.sources[-1].ordinal if entry.sources else -1


def _make_quote(entry: LedgerEntry, replaced: Mapping[Pointer, Position]) -> Quote:
    source = entry.sources[-1]
    seen = replaced.get(source)
    if seen is not None and _is_unchanged(seen, entry.text):
        return Quote(source=source, seen=seen, tokens=seen.entry.tokens)
    text = untag(mask_secrets(entry.text))
    if CUT_MARK in text:
        text = f"{text} (in full at #{source.ordinal})"
    return Quote(source=source, seen=seen, text=text, tokens=estimate_text(text) + AROUND_TOKENS)


def _is_unchanged(seen: Position, told: str) -> bool:
    """Whether a message equals its ledger text: no paste, no secret, no picture, no host context."""
    view = seen.view
    plain = view.kind is ItemKind.MESSAGE and view.context is None and not view.images and seen.entry.kind is EntryKind.KEEP
    return plain and view.text.strip() == view.said.strip() == told.strip() and untag(mask_secrets(told)) == told
