"""A user's own words, as a reply may call on them: what was said, and what of it speaks against an entry."""

from __future__ import annotations

import re
from collections.abc import Mapping

from threadkeep.compaction.ledger import Claim, Ledger, LedgerEntry, Speaker
from threadkeep.compaction.reply.entry import ParsedEntry
from threadkeep.compaction.statements import LONGEST_STATEMENT_CHARS, statements
from threadkeep.compaction.ties import Tie, tie
from threadkeep.thread import Pointer

# Of a very long message so many statements are weighed; one that is quoted is found wherever it stands.
STATEMENTS_WEIGHED = 400
LEAST_QUOTE_CHARS = 8

_quoted = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|„([^“”\n]{1,400})[“”]|«([^»\n]{1,400})»|「([^」\n]{1,400})」")
_RANK = {Tie.NONE: 0, Tie.RELATED: 1, Tie.REPLACES: 2}


def plain(text: str) -> str:
    """Return the words and numbers of a text alone: what a quotation shares with what it quotes, whatever signs it lost."""
    return " ".join("".join(char if char.isalnum() else " " for char in text.casefold()).split())


class UsersWords:
    """Everything users said that a compaction can see: their messages, and their entries in the ledger."""

    def __init__(self, ledger: Ledger, spoken: Mapping[Pointer, str]) -> None:
        self._spoken = spoken
        self._at = {place.ordinal: place for place in spoken}
        self._messages = {place: f" {plain(text)} " for place, text in spoken.items()}
        entries = (f" {plain(entry.text)} " for entry in ledger.entries if entry.speaker is Speaker.USER)
        self._all = "\n".join((*self._messages.values(), *entries))
        self._statements: dict[Pointer, list[str]] = {}

    def said(self, text: str) -> bool:
        """Whether a user said this, alone or within a sentence; a label in front of it does not count."""
        return any(f" {words} " in self._all for part in (text, text.partition(": ")[2]) if (words := plain(part)))

    def against(self, target: LedgerEntry, entry: ParsedEntry) -> Claim | None:
        """Return the later words of a user that a reply calls on against a user's entry, or None where it calls on none.

        It calls on a message by its number or by quoting it. Always a user's own words, never the reply's, and none older than
        what already stands beside the entry.
        """
        since = max((source.ordinal for source in target.sources), default=-1)
        if target.claim is not None and target.claim.proven:
            since = max(since, target.claim.source.ordinal)
        quotes = _quotes(entry, target)
        named = [self._at[ordinal] for ordinal in entry.pointers if ordinal in self._at and ordinal > since]
        named = named or [place for place in self._messages if place.ordinal > since and self._quotes_from(place, quotes)]
        claims = [claim for place in named if (claim := self._strongest(place, target, quotes))]
        return max(claims, key=lambda claim: (_RANK[tie(target.text, claim.text)], claim.source.ordinal), default=None)

    def _quotes_from(self, place: Pointer, quotes: list[str]) -> bool:
        return any(f" {quote} " in self._messages[place] for quote in quotes)

    def _strongest(self, place: Pointer, target: LedgerEntry, quotes: list[str]) -> Claim | None:
        """Return the statement of a message that speaks most against an entry, word for word."""
        message = self._spoken[place]
        if place not in self._statements:
            verbatim = [statement for statement in statements(message) if statement and statement in message]
            self._statements[place] = verbatim or [message.strip()[:LONGEST_STATEMENT_CHARS].strip()]
        told = self._statements[place]
        quoted = [text for text in told if quotes and any(f" {quote} " in f" {plain(text)} " for quote in quotes)]
        weighed = [text for text in (*quoted[:STATEMENTS_WEIGHED], *told[:STATEMENTS_WEIGHED]) if text]
        best = max(weighed, key=lambda text: _RANK[tie(target.text, text)], default=None)
        return Claim(text=best, source=place) if best else None


def _quotes(entry: ParsedEntry, target: LedgerEntry) -> list[str]:
    """Return, in plain words, what a reply may quote: what stands behind an arrow, in quotation marks, or as the entry."""
    marked = ("".join(groups) for groups in _quoted.findall(f"{entry.text}\n{entry.claim}"))
    own = plain(target.text)
    quotes = (plain(text) for text in (entry.claim, *marked, entry.text) if text.strip())
    return [quote for quote in quotes if len(quote) >= LEAST_QUOTE_CHARS and quote not in own]
