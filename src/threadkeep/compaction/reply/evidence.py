"""A user's own words, as a reply may call on them: what was said, and which later words it quotes against an entry."""

from __future__ import annotations

import re
from collections.abc import Mapping

from threadkeep.compaction.ledger import Ledger, LedgerEntry, Speaker
from threadkeep.compaction.merge import LEAST_QUOTE_CHARS, plain
from threadkeep.compaction.reply.entry import ParsedEntry
from threadkeep.thread import Pointer

_quoted = re.compile(r"\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|„([^“”\n]{1,400})[“”]|«([^»\n]{1,400})»|「([^」\n]{1,400})」")


class UsersWords:
    """Everything users said that a compaction can see: their messages, and their entries in the ledger."""

    def __init__(self, ledger: Ledger, spoken: Mapping[Pointer, str]) -> None:
        self._messages = {place: f" {plain(text)} " for place, text in spoken.items()}
        entries = (f" {plain(entry.text)} " for entry in ledger.entries if entry.speaker is Speaker.USER)
        self._all = "\n".join((*self._messages.values(), *entries))

    def said(self, text: str) -> bool:
        """Whether a user said this, alone or within a sentence; a label in front of it does not count."""
        return any(f" {words} " in self._all for part in (text, text.partition(": ")[2]) if (words := plain(part)))

    def quoted_against(self, target: LedgerEntry, entry: ParsedEntry) -> tuple[Pointer, str] | None:
        """Return the later message of a user that a reply quotes against a user's entry, and the quotation; None without one."""
        since = max((source.ordinal for source in target.sources), default=-1)
        quotes = _quotes(entry, target)
        later = [place for place in self._messages if place.ordinal > since]
        for place in sorted(later, key=lambda place: (place.ordinal not in entry.pointers, -place.ordinal)):
            for quote in quotes:
                if f" {plain(quote)} " in self._messages[place]:
                    return place, quote
        return None


def _quotes(entry: ParsedEntry, target: LedgerEntry) -> list[str]:
    """Return what a reply may quote: what stands in quotation marks, behind an arrow, or as the entry."""
    marked = ("".join(groups) for groups in _quoted.findall(f"{entry.text}\n{entry.claim}"))
    own = plain(target.text)
    found = (text.strip() for text in (*marked, entry.claim, entry.text) if text.strip())
    return [text for text in found if len(plain(text)) >= LEAST_QUOTE_CHARS and plain(text) not in own]
