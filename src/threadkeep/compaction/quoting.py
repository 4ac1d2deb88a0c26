"""What people said, in their own messages: the newest of them stand behind the state, in the order they were said.

A later message decides over an earlier one without code having to know what it changes, in any language. So what people said is
first of all kept as it was said; the state tells what is older than the room for that, and what nobody said. Nothing that was
replaced is quoted again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from threadkeep.compaction.hearing import normalised
from threadkeep.compaction.ledger import BINDING, Ledger, LedgerEntry, Section, Speaker
from threadkeep.compaction.plan import Plan, Quoted, Seen
from threadkeep.compaction.secrets import masked
from threadkeep.compaction.state_text import neutralised
from threadkeep.compaction.statements import statements
from threadkeep.compaction.transcript import untagged
from threadkeep.items import ItemKind
from threadkeep.thread import EntryKind, Pointer
from threadkeep.tokens import estimate_text

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
    What a later message says again, word for word, is told there, and what the session is for always in the state. Nothing is
    quoted that was said before something only the state can tell, such as a note: it would stand behind it.
    """
    told, holds = said_at(ledger), _holds(ledger)
    messages = _messages(plan)
    begin = _newest_out_of_view(ledger, {*messages, *plan.kept_words})
    chosen: list[tuple[Quoted, Sequence[LedgerEntry]]] = []
    for source in sorted(messages, key=lambda source: source.ordinal, reverse=True):
        holding = told.get(source, ())
        if not any(_is_last_told(entry, at=source) for entry in holding):
            continue
        quote = _quote(messages[source], holding, holds=holds)
        budget_tokens -= quote.tokens
        if budget_tokens < 0 or source.ordinal < begin:
            break
        chosen.append((quote, holding))
    quotes = tuple(quote for quote, _ in reversed(chosen))
    shown = {quote.seen.entry.source for quote in quotes} | plan.kept_words.keys()
    said = (entry for _, holding in chosen for entry in holding)
    return Behind(quotes=quotes, entries=frozenset(entry.id for entry in said if _needs_no_words(entry, shown)))


def _messages(plan: Plan) -> dict[Pointer, Seen]:
    """Return every message of a person that leaves its place, by record; what was quoted before in the words chosen then.

    Host context stays where it is, whole; what a person said in the same message was said at its own time all the same.
    """
    found = ((seen.entry.source, seen) for seen in (*plan.context, *plan.replaced) if seen.view.by_person)
    return {source: seen for source, seen in found if source is not None}


def said_at(ledger: Ledger) -> dict[Pointer, list[LedgerEntry]]:
    """Return what of each message still holds, by its record."""
    found: defaultdict[Pointer, list[LedgerEntry]] = defaultdict(list)
    for entry in ledger.entries:
        if entry.speaker is Speaker.USER and entry.section in BINDING:
            for source in entry.sources:
                found[source].append(entry)
    return dict(found)


def _holds(ledger: Ledger) -> frozenset[str]:
    said = (entry for entry in ledger.entries if entry.speaker is Speaker.USER and entry.section in BINDING)
    return frozenset(normalised(entry.text) for entry in said)


def _newest_out_of_view(ledger: Ledger, messages: Collection[Pointer]) -> int:
    """Return where the newest entry was said that no message in view tells: beside the conversation, or too long ago."""
    said = (entry for entry in ledger.entries if entry.speaker is Speaker.USER and entry.section in BINDING and entry.sources)
    return max((entry.sources[-1].ordinal for entry in said if entry.sources[-1] not in messages), default=0)


def _quote(seen: Seen, holding: Sequence[LedgerEntry], *, holds: Collection[str]) -> Quoted:
    whole = seen.entry.kind is EntryKind.KEEP and seen.entry.tokens <= WHOLE_TOKENS and _may_stand_as_it_is(seen)
    if whole and all(normalised(statement) in holds for statement in statements(seen.view.said)):
        return Quoted(seen=seen, tokens=seen.entry.tokens)
    return by_number(seen, holding)


def by_number(seen: Seen, holding: Iterable[LedgerEntry]) -> Quoted:
    """Return a message told by its statements that hold, with its number."""
    place = f"[#{seen.entry.source.ordinal}]" if seen.entry.source is not None else ""
    text = "\n\n".join((*(neutralised(entry.text) for entry in holding), place))
    return Quoted(seen=seen, text=text, tokens=estimate_text(text) + AROUND_TOKENS)


def _may_stand_as_it_is(seen: Seen) -> bool:
    """Whether a message is nothing but a person's words, without a secret and without what a state is made of."""
    said, view = seen.view.said, seen.view
    only_said = view.kind is ItemKind.MESSAGE and view.text == said and view.context is None and not view.images
    return only_said and untagged(masked(said)) == said


def _is_last_told(entry: LedgerEntry, *, at: Pointer) -> bool:
    """Whether a message is where an entry was said last, and not what the session began with."""
    return entry.sources[-1] == at and not (entry.section is Section.OBJECTIVE and entry.sources[0] == at)


def _needs_no_words(entry: LedgerEntry, shown: Collection[Pointer | None]) -> bool:
    """Whether a quote says all there is to an entry: also what speaks against it stands behind the state, or nothing does."""
    if entry.pinned or entry.section is Section.OBJECTIVE:
        return False
    return entry.claim is None or (entry.claim.proven and entry.claim.source in shown)
