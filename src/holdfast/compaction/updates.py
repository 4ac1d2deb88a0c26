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

from holdfast.compaction.changes import (
    corrects,
    fixes_something,
    orders_work,
    points_back,
    tells_how_it_is_now,
    withdraws,
    without_change,
    without_phrases,
)
from holdfast.compaction.kinship import kinship
from holdfast.compaction.overlap import Statements, all_terms, shared_terms
from holdfast.compaction.telling import telling_words
from holdfast.compaction.ties import Terms, has_shape_of, is_negative, terms

# So many older statements one change may stand beside.
CONTESTED = 3
# One that scores below this share of the best is about something else.
CLOSE_TO_BEST = 0.7
# A word counts as rare from this share of the weight a word has that only one statement uses.
RARE = 0.55
# Without a phrase of change, a word must be so rare to tie two statements.
RAREST = 0.75
# Without one, so much of the older statement must come again; with a weak one ("now", "not"), so much of the shorter one.
SAME_THING = 0.55
HALF = 0.5
CONTEXT_WEIGHT = 0.5
# A statement with more terms than this tells a story, and is not said again with another value.
LONGEST_RESTATED = 9
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
    about = terms(newer.text)
    if change:
        # The words by which it changes something are not what it is about: what is off the table has to do with no table.
        about = replace(about, words=about.words & terms(without_change(newer.text)).words)
    lends = change and not _names_something(newer.text, about)
    context = frozenset(term for text in newer.around for term in all_terms(terms(text))) if lends else frozenset()
    known = [each for each in older(among.sharing(all_terms(about) | context)) if fixes_something(each.text)]
    score = _as_change if change else _as_restated
    scored = [(found, each) for each in known if (found := score(newer.text, about, context, each, among))]
    if not change:
        return _likeliest(scored, most=1)
    likely = _likeliest(scored, most=CONTESTED)
    subject = all_terms(terms(_clause_end.split(newer.text, maxsplit=1)[0]))
    if any(each.key in likely and not subject.isdisjoint(all_terms(terms(each.text))) for _, each in scored):
        return likely
    # What comes after the first clause gives reasons: a word of it may stand in both by chance, and what is kin counts beside it.
    likely = likely or _said_last(newer, about, last)
    return list(dict.fromkeys((*likely, *_akin(newer, last))))[:CONTESTED]


def _likeliest(scored: Sequence[tuple[float, Older]], *, most: int) -> list[str]:
    """Return the keys of those that score best and nearly best, the best first."""
    best = max((found for found, _ in scored), default=0.0)
    likely = sorted((pair for pair in scored if pair[0] >= CLOSE_TO_BEST * best), key=lambda pair: -pair[0])
    return [each.key for _, each in likely[:most]]


def _akin(newer: Newer, last: Last) -> list[str]:
    """Return what a change that shares no word with anything is most likely about, by kinds of values and families of words."""
    known = [each for each in last(EVER) if fixes_something(each.text)]
    near = kinship(without_change(newer.text), [each.text for each in known])
    least = (AKIN_TO_WORK if orders_work(newer.text) else AKIN) * math.log2(2 + len(known))
    return _likeliest([(found, each) for found, each in zip(near, known, strict=True) if found >= least], most=AKIN_CONTESTED)


def _as_restated(newer: str, about: Terms, _context: frozenset[str], older: Older, among: Statements[str]) -> float:
    """Return how likely a statement says of one thing that it is another now, without a phrase that says so.

    It must share a word that hardly anyone else uses, leave nothing of the older one out but what takes its place, and say
    something of its own.
    """
    other = terms(older.text)
    new, old = all_terms(about), all_terms(other)
    shared, left_out, own = shared_terms(about, other), old - new, new - old
    if not shared - about.values or not own or len(old) < 2 or max(len(new), len(old)) > LONGEST_RESTATED:
        return 0.0
    # Of what is forbidden there may be several.
    if is_negative(older.text) and is_negative(newer):
        return 0.0
    weight = sum(map(among.weight, shared))
    if max(map(among.weight, shared)) < RAREST * among.weight(""):
        return 0.0
    left_out -= _opening(older.text)
    if _swaps(about, other):
        # Each with a word of its own beside the value, they speak about two things of one kind.
        fits = not _words_alone(left_out, other) or not _words_alone(own, about)
    else:
        pairs = sum(1 for term in left_out if not term.isascii() and len(term) == 2)
        nearly_all = weight >= SAME_THING * sum(map(among.weight, old))
        # A figure or an id is replaced by one of its kind, or it is not replaced.
        figures = any(char.isdigit() for value in left_out & other.values for char in value)
        fits = not figures and (nearly_all or len(left_out) - pairs + (pairs + 2) // 3 <= 1)
    weakly = tells_how_it_is_now(newer) and weight >= HALF * min(sum(map(among.weight, side)) for side in (new, old))
    return weight if fits or weakly else 0.0


def _opening(text: str) -> frozenset[str]:
    """Return the first word of a statement, where it tells anything: an order begins with what to do, not with its subject."""
    return telling_words(" ".join(text.split()[:1])) if " " in text else frozenset()


def _words_alone(among: frozenset[str], about: Terms) -> frozenset[str]:
    """Return the terms that are neither values nor parts of names."""
    parts = frozenset(word for value in about.values if " " in value for word in telling_words(value))
    return among - about.values - parts


def _as_change(_newer: str, about: Terms, context: frozenset[str], older: Older, among: Statements[str]) -> float:
    """Return how likely a change is about an older statement; nothing where they share no rare word."""
    other = terms(older.text)
    rarest = among.weight("")
    own = [among.weight(term) for term in shared_terms(about, other)]
    lent = [among.weight(term) for term in (context - all_terms(about)) & all_terms(other)] if context else []
    if max((*own, *lent), default=0.0) < RARE * rarest:
        return 0.0
    return sum(own) + CONTEXT_WEIGHT * sum(lent) + (rarest if _swaps(about, other) else 0.0)


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
