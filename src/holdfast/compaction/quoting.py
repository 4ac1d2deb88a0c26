"""What people said, in their own messages: the newest of them stand behind the state, in the order they were said.

A later message decides over an earlier one without code having to know what it changes, in any language. So what people said is
first of all kept as it was said; the state tells what is older than the room for that, and what nobody said. Nothing that was
replaced is quoted again, and no message stands there that is older than one the state tells in its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from holdfast.compaction.plan import Plan, Quoted, Seen
from holdfast.compaction.secrets import masked
from holdfast.compaction.state_text import neutralised
from holdfast.compaction.transcript import untagged
from holdfast.items import ItemKind
from holdfast.thread import EntryKind, Pointer
from holdfast.tokens import estimate_text

# A longer message is told by its statements: most of it was pasted.
WHOLE_TOKENS = 400
# What a dialect's message costs around its text.
AROUND_TOKENS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Behind:
    """The messages that stand behind a state, oldest first, and the entries that need no words in it because of them."""

    quotes: tuple[Quoted, ...]
    entries: frozenset[str]


def behind_the_state(plan: Plan, ledger: Ledger, *, budget_tokens: int) -> Behind:
    """Return what people said last of what is replaced, within `budget_tokens`: all of it from some message on.

    A message goes whole, or, where it is long, shows a secret or says something that no longer holds, by its statements that do.
    What a later message says again, word for word, is told there, and what the session is for always in the state.
    """
    told = _by_source(ledger)
    chosen: list[tuple[Quoted, tuple[LedgerEntry, ...]]] = []
    for seen in reversed(plan.replaced):
        known = told.get(seen.entry.source, ()) if seen.view.by_person and seen.entry.source is not None else ()
        holding = tuple(entry for entry in known if entry.section in BINDING)
        if not any(_is_last_told(entry, at=seen.entry.source) for entry in holding):
            continue
        quote = _quote(seen, holding, all_hold=len(holding) == len(known))
        budget_tokens -= quote.tokens
        if budget_tokens < 0:
            break
        chosen.append((quote, holding))
    quotes = tuple(quote for quote, _ in reversed(chosen))
    shown = {quote.seen.entry.source for quote in quotes} | plan.kept_words.keys()
    said = (entry for _, holding in chosen for entry in holding)
    return Behind(quotes=quotes, entries=frozenset(entry.id for entry in said if _needs_no_words(entry, shown)))


def _by_source(ledger: Ledger) -> dict[Pointer | None, Sequence[LedgerEntry]]:
    found: defaultdict[Pointer | None, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        if entry.speaker is Speaker.USER:
            for source in entry.sources:
                found[source].append(entry)
    return dict(found)


def _quote(seen: Seen, holding: Sequence[LedgerEntry], *, all_hold: bool) -> Quoted:
    if all_hold and seen.entry.kind is EntryKind.KEEP and seen.entry.tokens <= WHOLE_TOKENS and _may_stand_as_it_is(seen):
        return Quoted(seen=seen, tokens=seen.entry.tokens)
    place = f"[#{seen.entry.source.ordinal}]" if seen.entry.source is not None else ""
    text = "\n\n".join((*(neutralised(entry.text) for entry in holding), place))
    return Quoted(seen=seen, text=text, tokens=estimate_text(text) + AROUND_TOKENS)


def _may_stand_as_it_is(seen: Seen) -> bool:
    said = seen.view.said
    return seen.view.kind is ItemKind.MESSAGE and not seen.view.images and untagged(masked(said)) == said


def _is_last_told(entry: LedgerEntry, *, at: Pointer | None) -> bool:
    """Whether a message is where an entry was said last, and not what the session began with."""
    return entry.sources[-1] == at and not (entry.section is Section.OBJECTIVE and entry.sources[0] == at)


def _needs_no_words(entry: LedgerEntry, shown: set[Pointer | None]) -> bool:
    """Whether a quote says all there is to an entry: also what speaks against it stands behind the state, or nothing does."""
    if entry.pinned or entry.section is Section.OBJECTIVE:
        return False
    return entry.claim is None or (entry.claim.proven and entry.claim.source in shown)
