"""Changes that code cannot tie to what they change: their messages stay behind the state.

"Drop what I said about sign-offs" may be about any rule of the session. It takes nothing back by itself, and a line among others
would leave the reader to find out what it is about. Standing behind everything that was said before, as the user's own later
message, it has the last word all the same. Bounded: the newest few, the outspoken ones first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from threadkeep.compaction.changes import corrects, is_courtesy, only_asks, orders_work, speaks_of_words, withdraws
from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Speaker
from threadkeep.compaction.overlap import shared_terms
from threadkeep.compaction.plan import Quoted, Seen
from threadkeep.compaction.quoting import by_number, said_at
from threadkeep.compaction.ties import terms
from threadkeep.thread import Pointer

MESSAGES_KEPT = 8
MESSAGE_TOKENS = 160
ALL_TOKENS = 500
# One word may stand in two statements by chance. What is taken back outright must be meant without a doubt.
SHARED_TERMS = 2
SHARED_BY_WITHDRAWAL = 3


def undecided(ledger: Ledger, replaced: Sequence[Seen], *, room_tokens: int) -> tuple[Quoted, ...]:
    """Return which of the replaced messages are to stay, oldest first, within `room_tokens`: by what of them holds, and their
    number, as what is in the state may have been said later.
    """
    open_changes, told = _open_changes(ledger), said_at(ledger)
    found = [
        (by_number(seen, told[source]), open_changes[source])
        for seen in replaced
        if (source := seen.entry.source) is not None and source in open_changes and seen.view.by_person
    ]
    short = [(quote, outspoken) for quote, outspoken in found if quote.tokens <= MESSAGE_TOKENS]
    room = min(room_tokens, ALL_TOKENS)
    kept: set[int] = set()
    for place in sorted(range(len(short)), key=lambda place: (not short[place][1], -place))[:MESSAGES_KEPT]:
        room -= short[place][0].tokens
        if room < 0:
            break
        kept.add(place)
    return tuple(quote for place, (quote, _) in enumerate(short) if place in kept)


def _open_changes(ledger: Ledger) -> dict[Pointer, bool]:
    """Return the messages that hold a change which nothing in the ledger is firmly tied to, and whether one is outspoken."""
    said = [entry for entry in ledger.entries if entry.speaker is Speaker.USER]
    claimed = [entry for entry in said if entry.claim is not None]
    # A message that also says what has changed since would say it once more, behind what changed it.
    outdated = {source for entry in claimed for source in entry.sources}
    found: dict[Pointer, bool] = {}
    for entry in said:
        if entry.section in BINDING and entry.claim is None and _changes_something(entry.text) and not _is_tied(entry, claimed):
            for source in set(entry.sources[-1:]) - outdated:
                found[source] = found.get(source, False) or withdraws(entry.text) or speaks_of_words(entry.text)
    return found


def _changes_something(text: str) -> bool:
    """Whether a statement changes an earlier one. An order about the work at hand does not, unless it speaks of what was said."""
    if only_asks(text) or is_courtesy(text) or (orders_work(text) and not speaks_of_words(text)):
        return False
    return withdraws(text) or corrects(text)


def _is_tied(change: LedgerEntry, claimed: Iterable[LedgerEntry]) -> bool:
    """Whether a change stands beside something, or replaced something, that it shares a value or more than a word with."""
    return any(
        entry.claim is not None and change.text in entry.claim.text and _shares_enough(entry.text, change.text)
        for entry in claimed
        if entry.id != change.id
    )


def _shares_enough(older: str, newer: str) -> bool:
    one, other = terms(older), terms(newer)
    least = SHARED_BY_WITHDRAWAL if withdraws(newer) else SHARED_TERMS
    return not one.values.isdisjoint(other.values) or len(shared_terms(one, other)) >= least
