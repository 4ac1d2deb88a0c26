"""What stands beside an entry that later words speak against: the newest of them first, and the few that came before."""

from __future__ import annotations

from dataclasses import replace

from threadkeep.compaction.changes import corrects, withdraws
from threadkeep.compaction.ledger import Claim, LedgerEntry
from threadkeep.compaction.statements import middle_cut
from threadkeep.compaction.ties import Tie, terms, tie

# Beside the newest, so many earlier claims, each cut to so many characters.
EARLIER_KEPT = 2
EARLIER_CHARS = 200
_BEFORE = " — before that #"


def newest_words(claim: Claim) -> str:
    """Return the newest of a claim's statements, word for word."""
    return claim.text.partition(_BEFORE)[0]


def contested(entry: LedgerEntry, claim: Claim) -> LedgerEntry:
    """Return an entry with a user's claim beside it.

    The newest stands first. An earlier one stays behind it, because which of them is about the entry is for a reader to say,
    unless the newest replaces it outright. A claim that is there already changes nothing.
    """
    held = entry.claim
    if claim.text == entry.text:
        return entry
    if held is None or not held.proven:
        return replace(entry, claim=claim)
    words = newest_words(held)
    if claim.text in held.text:
        return entry
    if claim.source.ordinal < held.source.ordinal:
        # Drafts may name a later message first: what was said before it still belongs here.
        newest, others = replace(held, text=words), [(claim.source.ordinal, claim.text), *earlier_words(held)]
    elif words in claim.text or tie(words, claim.text) is Tie.REPLACES:
        return replace(entry, claim=claim)
    else:
        told_again = terms(words).words == terms(claim.text).words
        newest, others = claim, [*(() if told_again else ((held.source.ordinal, words),)), *earlier_words(held)]
    best = sorted(others, key=lambda part: _weight(part[1], entry), reverse=True)[:EARLIER_KEPT]
    return replace(entry, claim=replace(newest, text=newest.text + "".join(_told(*part) for part in sorted(best, reverse=True))))


def _weight(text: str, entry: LedgerEntry) -> tuple[bool, int]:
    """Return how much an earlier claim has to say about an entry: a change more than a statement beside it."""
    about, other = terms(entry.text), terms(text)
    return corrects(text) or withdraws(text), len((about.values | about.words) & (other.values | other.words))


def told_by(claim: Claim) -> list[str]:
    """Return the statements a proven claim holds, the newest whole and first, earlier ones cut as they stand there."""
    return [newest_words(claim), *(text for _, text in earlier_words(claim))] if claim.proven else []


def tells(claim: Claim, statement: str) -> bool:
    """Whether a statement is among what a claim holds."""
    if not claim.proven:
        return False
    short = brief(statement)
    return newest_words(claim) == statement or any(text == short for _, text in earlier_words(claim))


def earlier_words(claim: Claim) -> list[tuple[int, str]]:
    """Return what stands behind the newest of a claim's statements: the record and the words of each, the newest first."""
    found = []
    for part in claim.text.split(_BEFORE)[1:]:
        ordinal, _, text = part.partition(": ")
        if ordinal.isdecimal():
            found.append((int(ordinal), text))
    return found


def _told(ordinal: int, text: str) -> str:
    return f"{_BEFORE}{ordinal}: {brief(text)}"


def brief(text: str) -> str:
    """Return an earlier claim's words as they stand behind the newest."""
    return text if len(text) <= EARLIER_CHARS else middle_cut(text, chars=EARLIER_CHARS)
