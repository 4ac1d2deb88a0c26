"""Which older statements a change may be about, where no value or wording ties it to one of them.

People change things without naming what they change: "make that 9090 after all", "forget the rule about uploads". Such a
statement is laid beside the few older ones it most likely speaks about, by the rare words they share, by values of one kind, or
because they were said last. Nothing gives way to it: both stand on one line, and the reader decides.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from threadkeep.compaction.changes import (
    asks_for_now,
    corrects,
    fixes_something,
    orders_work,
    points_back,
    withdraws,
    without_change,
    without_phrases,
)
from threadkeep.compaction.kinship import has_kin, kinship
from threadkeep.compaction.overlap import Statements, all_terms, shared_terms, terms_of
from threadkeep.compaction.restated import may_restate, restatement
from threadkeep.compaction.subjects import subject_terms
from threadkeep.compaction.telling import telling_words
from threadkeep.compaction.ties import Terms, frame, has_shape_of, terms

# So many older statements one change may stand beside.
CONTESTED = 3
# One that scores below this share of the best is about something else.
CLOSE_TO_BEST = 0.7
# A word counts as rare from this share of the weight a word has that only one statement uses.
RARE = 0.55
# Beside a value of a kind that the older statement gives too, this is rare enough.
RARE_BESIDE_A_VALUE = 0.4
# Of what the change or the older statement is about, so much is shared where no value of a kind is.
SHARED_PART = 0.3
CONTEXT_WEIGHT = 0.5
# What was said so often before, each time of something else, was never meant to replace the last time.
SERIES = 2
# A change that points back is about one of the statements of so many messages before it.
MESSAGES_BACK = 3
LONGEST_POINTING_BACK = 160
EVER = sys.maxsize
# Kin are two statements that share this much of what a kind or a family is worth that only one statement has.
AKIN = 0.6
# An order about the work at hand must be nearer to something to be laid beside it.
AKIN_TO_WORK = 1.6
AKIN_CONTESTED = 1

_clause_end = re.compile(r"[,:;，：；、،]\s*|\s[—–-]\s|(?<=[.!?。！？])\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Older:
    """An older statement of a user: its key, its words, and the message it was last said in."""

    key: str
    text: str
    message: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Newer:
    """A later statement with those around it in its message."""

    text: str
    around: tuple[str, ...] = ()


Last = Callable[[int], list[Older]]


def may_change(newer: Newer, *, among: Statements[str], older: Callable[[Iterable[str]], list[Older]], last: Last) -> list[str]:
    """Return the keys of the older statements that a later one may change, the likeliest first.

    Args:
        among: What users said, for what a word is worth.
        older: Gives those of these keys that may give way at all.
        last: Gives those said in the last few messages, oldest first.
    """
    change = corrects(newer.text) or withdraws(newer.text)
    if not change:
        if not may_restate(newer.text):
            return []
        known = _lasting(older(among.sharing(terms_of(newer.text))))
        known = _without_series(newer.text, known)
        restated = [(found, each) for each in known if (found := restatement(newer.text, each.text, among=among))]
        return _likeliest(restated, most=CONTESTED)
    about = terms(newer.text)
    # The words by which it changes something are not what it is about: what is off the table has to do with no table.
    about = replace(about, words=about.words & terms(without_change(newer.text)).words)
    lends = not _names_something(newer.text, about)
    context = frozenset(term for text in newer.around for term in all_terms(terms(text))) if lends else frozenset()
    known = _lasting(older(among.sharing(all_terms(about) | context)))
    subject = _first_clause(newer.text)
    scored = [(found, each) for each in known if (found := _as_change(newer.text, about, subject, context, each, among))]
    likely = _likeliest(scored, most=CONTESTED)
    if any(each.key in likely and not subject.isdisjoint(all_terms(terms(each.text))) for _, each in scored):
        return likely
    # What comes after the first clause gives reasons: a word of it may stand in both by chance, and what is kin counts beside it.
    likely = likely or _said_last(newer, about, last)
    return list(dict.fromkeys((*likely, *_akin(newer, last))))[:CONTESTED]


def _lasting(older: Iterable[Older]) -> list[Older]:
    """Return those that fix something for longer than the moment they were said in."""
    return [each for each in older if fixes_something(each.text) and not asks_for_now(each.text)]


def _without_series(newer: str, known: list[Older]) -> list[Older]:
    """Return the older statements without those that say the same as the newer one of ever another thing: one of many."""
    said = frame(newer)
    same = [each for each in known if frame(each.text) == said]
    return [each for each in known if each not in same] if len(same) >= SERIES else known


def _first_clause(text: str) -> frozenset[str]:
    """Return the terms of the first clause of a change that says what it is about; what follows gives the reason."""
    for clause in _clause_end.split(text):
        if found := all_terms(terms(without_change(clause))):
            return found
    return frozenset()


def _likeliest(scored: Sequence[tuple[float, Older]], *, most: int) -> list[str]:
    """Return the keys of those that score best and nearly best, the best first."""
    best = max((found for found, _ in scored), default=0.0)
    likely = sorted((pair for pair in scored if pair[0] >= CLOSE_TO_BEST * best), key=lambda pair: -pair[0])
    return [each.key for _, each in likely[:most]]


def _akin(newer: Newer, last: Last) -> list[str]:
    """Return what a change that shares no word with anything is most likely about, by kinds of values and families of words."""
    said = without_change(newer.text)
    if not has_kin(said):
        return []
    known = [each for each in last(EVER) if fixes_something(each.text)]
    near = kinship(said, [each.text for each in known])
    least = (AKIN_TO_WORK if orders_work(newer.text) else AKIN) * math.log2(2 + len(known))
    return _likeliest([(found, each) for found, each in zip(near, known, strict=True) if found >= least], most=AKIN_CONTESTED)


def _as_change(
    newer: str, about: Terms, subject: frozenset[str], context: frozenset[str], older: Older, among: Statements[str]
) -> float:
    """Return how likely a change is about an older statement; nothing where they share no rare word.

    What its first clause names counts in full, what comes behind it half. A change that gives no value of a kind that the older
    one gives must share a good part of what one of them says.
    """
    other = terms(older.text)
    rarest = among.weight("")
    shared = subject_terms(shared_terms(about, other))
    own = [among.weight(term) * (1.0 if term in subject else CONTEXT_WEIGHT) for term in shared]
    lent = [among.weight(term) for term in (context - all_terms(about)) & all_terms(other)] if context else []
    swaps = _swaps(about, other)
    least = RARE_BESIDE_A_VALUE if swaps else RARE
    if max((*own, *lent), default=0.0) < least * rarest:
        return 0.0
    if not swaps and not lent:
        named = [sum(map(among.weight, subject_terms(side))) for side in (subject, all_terms(other))]
        if sum(map(among.weight, shared)) < SHARED_PART * min(filter(None, named), default=0.0):
            return 0.0
        if orders_work(newer) and len(shared) < 2:
            return 0.0
    return sum(own) + CONTEXT_WEIGHT * sum(lent) + (rarest if swaps else 0.0)


def _swaps(about: Terms, other: Terms) -> bool:
    """Whether one asserts a value of the same kind as a value of the other that it does not name."""
    gone = other.values - about.values
    return bool(gone) and any(has_shape_of(value, gone) for value in about.asserted - other.values)


def _names_something(text: str, about: Terms) -> bool:
    """Whether a change says by itself what it is about: it has telling words beside its phrases and values."""
    left = without_phrases(text)
    for value in about.values:
        left = left.replace(value, " ")
    return bool(telling_words(left)) and not (points_back(text) and len(telling_words(left)) < 2)


def _said_last(newer: Newer, about: Terms, last: Last) -> list[str]:
    """Return what a change that names nothing it changes points back at: the last value of its kind, or what was said last."""
    if len(newer.text) > LONGEST_POINTING_BACK or _names_something(newer.text, about):
        return []
    recent = [each for each in last(MESSAGES_BACK) if fixes_something(each.text)]
    if about.asserted:
        alike = [each for each in recent if any(has_shape_of(value, terms(each.text).values) for value in about.asserted)]
        return [each.key for each in alike[-1:]]
    return [each.key for each in recent if each.message == recent[-1].message][-CONTESTED:]
