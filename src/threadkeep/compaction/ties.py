"""Whether a later statement speaks about the same thing as an earlier one, and whether it replaces it.

A tie rests on shared values (ports, paths, names, versions) and shared words. A missed tie costs little: both statements stay.
A wrong one would hide a rule, so a statement is replaced only where the later one leaves nothing of it out but a value, and
either denies that value and puts another of the same shape in its place, or says word for word the same of the one thing it is
about. Everything looser is a relation: both are shown side by side.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

from threadkeep.compaction.changes import asks_for_now, corrects, is_courtesy, only_asks, tells_a_change, withdraws
from threadkeep.compaction.statements import is_paste
from threadkeep.compaction.telling import CJK, telling_words

_value = re.compile(
    r"""`[^`\n]{1,120}`                                   # quoted as code
      | "[^"\n]{1,80}" | “[^”\n]{1,80}” | „[^“”\n]{1,80}[“”] | «[^»\n]{1,80}» | 「[^」\n]{1,80}」   # quoted
      | https?://[^\s)>\]]+
      | [\w.~-]*/[\w./~-]+                                # a path
      | \b\d+(?:[.:_-]\d+)*\w*                            # a number, version, time, date, port
      | [٠-٩۰-۹]+(?:[.:/-][٠-٩۰-۹]+)*
      | \b[A-Za-z]\w*(?:[_.:@-]\w+)+                      # snake, dotted, dashed names
      | \b[A-Z][A-Z0-9]{2,}\b | \b\w*[a-z][A-Z]\w*        # CONSTANTS, camelCase
    """,
    re.VERBOSE | re.ASCII,
)
# People and places: capitalised words in a row. Each neighbouring pair counts, as a sentence may begin with another word.
_name = re.compile(r"\b[^\W\d_a-z]\w+(?: [^\W\d_a-z]\w+)+")
_word = re.compile(rf"[^\W\d_{CJK}]{{4,}}")

# A few words before a colon say what kind of thing follows; two statements of one kind are not about one thing.
_label = re.compile(r"^\s*[A-Z][\w-]*(?: [\w-]+){0,2}:\s")

# What directly follows is what something is, not something one does something to.
_is_value = re.compile(r"(?:\b(?:is|are|equals|ist|sind|es|son|est|sont)|[=:]|是|为|は)\s*[$€£#\"'`]?$", re.IGNORECASE)

# Of such a thing there may be several, and the same can be said of each.
_one_of_several = re.compile(
    r"\b(?:an?|one|another|other|also|too|some|each|second|third|ein\w*|auch|noch|weitere\w*|una?|otr[oa]|también|une?|aussi|autre)\b"
    r"|也|还|另|も",
    re.IGNORECASE,
)

# What directly follows is denied; one word may stand between ("instead of port 8080").
_DENIALS = (
    r"(?:\b(?:not|no longer|instead of|rather than|anymore|nicht(?: mehr)?|kein\w*|(?:an)?statt|ya no|en vez de|en lugar de|"
    r"au lieu de|plus|не|вместо)\b|不再用?|不是|而不是|不用|不要用|代替|ではなく|(?<!\w)(?:بدلا من|بدل|ليس)(?!\w))"
)
_denial_word = re.compile(_DENIALS, re.IGNORECASE)
_denial = re.compile(rf"{_DENIALS}[\s:]*(?:[^\W\d_]+\s+)?$", re.IGNORECASE)
# The longest such phrase with a word behind it.
DENIAL_CHARS = 48
_negation = re.compile(
    r"\b(?:not|never|no|none|without|cannot|nicht|nie|niemals|kein\w*|ohne|nunca|jamás|sin|ne|jamais|sans|не|никогда)\b"
    r"|n['’]t\b|不(?![同错断过仅但久少])|(?<![特分类区级性])别(?![人的])|勿|没(?!问题|关系)|(?<!少)ない|(?<!すみ)(?<!しれ)ません"
    r"|(?<!\w)[وف]?(?:لا|لن|لم)(?!\w)|(?<!\w)אל(?!\w)",
    re.IGNORECASE,
)
# Below this length a word is never taken for a common one.
NAME_CHARS = 3
# A word of signs makes one or two pairs, one of syllables four or more.
PAIRS_OF_SIGNS, PAIRS_OF_SOUNDS = 2, 4
# Whoever denies something says most of it again.
SAME_THING = 2 / 3
# A number of no more digits may stand in two statements by chance.
SMALL_NUMBER_DIGITS = 2


class Tie(Enum):
    """How a later statement relates to an earlier one."""

    NONE = "none"
    RELATED = "related"
    REPLACES = "replaces"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a statement is about.

    Attributes:
        values: What it names exactly; `denied` are those of them it denies, `asserted` the others.
        words: Its telling words; `denied_words` are those it denies.
        size: How many values and telling words it has.
        label: The telling words of a label in front of it: a kind of thing, or the thing itself where no one else uses them.
    """

    values: frozenset[str]
    denied: frozenset[str]
    asserted: frozenset[str]
    words: frozenset[str]
    denied_words: frozenset[str]
    size: int
    label: frozenset[str]


_NOTHING: frozenset[str] = frozenset()


@lru_cache(maxsize=65_536)
def terms(text: str) -> Terms:
    """Return what a statement is about. Every statement of a ledger is asked, so nothing is looked for that need not be."""
    whole, text = text, _unlabelled(text)
    named: list[tuple[str, int]] = []

    def noted(match: re.Match[str]) -> str:
        named.append((match[0].strip('`".,:;“”„«»「」'), match.start()))
        return " "

    bare = _value.sub(noted, text)
    runs = (run.split() for run in _name.findall(text))
    names = {f"{one} {other}" for run in runs for one, other in pairwise(run) if _is_name(one) and _is_name(other)}
    values = frozenset({value for value, _ in named if value} | names)
    words = telling_words(bare)
    denied = denied_words = _NOTHING
    if _denial_word.search(text):
        denied = frozenset(value for value, place in named if value and _is_denied(text, place))
        told = (match[0] for match in _word.finditer(bare) if _is_denied(bare, match.start()))
        denied_words = frozenset(word for each in told for word in telling_words(each))
    return Terms(
        values=values,
        denied=denied,
        asserted=values - denied,
        words=words,
        denied_words=denied_words,
        size=len(values) + amount(words),
        label=telling_words(label_of(whole)) if text is not whole else _NOTHING,
    )


def amount(words: frozenset[str]) -> int:
    """Return how many words telling terms stand for: what is written without spaces is told by overlapping pairs of signs."""
    pairs = [word for word in words if len(word) == 2 and not word.isascii()]
    if not pairs:
        return len(words)
    sounds = sum(1 for pair in pairs if "\u30a0" <= pair[0] <= "\u30ff")
    return len(words) - len(pairs) + -(-sounds // PAIRS_OF_SOUNDS) + -(-(len(pairs) - sounds) // PAIRS_OF_SIGNS)


def _is_name(word: str) -> bool:
    """Whether a word is written like part of a name: with a capital, and no word that only begins a sentence."""
    return word[0].isupper() and bool(telling_words(word) or len(word) < NAME_CHARS)


def _unlabelled(text: str) -> str:
    """Return a statement without the label in front of it; a label before a bare value is what the statement is about."""
    label = _label.match(text)
    if label is None:
        return text
    rest = text[label.end() :]
    return rest if telling_words(rest) else text


def _is_denied(text: str, place: int) -> bool:
    """Whether a phrase of denial stands right before `place`."""
    return _denial.search(text, max(0, place - DENIAL_CHARS), place) is not None


def label_of(text: str) -> str:
    """Return the words, colon included, by which a statement says what kind of thing it is; empty where it does not."""
    label = _label.match(text)
    return label[0] if label else ""


@lru_cache(maxsize=16_384)
def is_negative(text: str) -> bool:
    """Whether a statement denies or forbids something."""
    return _negation.search(text) is not None


def tie(older: str, newer: str) -> Tie:
    """Return how `newer` relates to `older`."""
    if older == newer or is_paste(older) or is_paste(newer) or is_courtesy(newer) or only_asks(newer):
        return Tie.NONE
    old, new = terms(older), terms(newer)
    shared, both, fresh = old.words & new.words, old.values & new.values, new.asserted - old.asserted
    restated = _restates(older, newer, old=old, new=new) and not _one_of_several.search(newer)
    if restated or _replaces(old, new, newer, fresh=fresh, shared=shared):
        return Tie.REPLACES
    # Most of what the shorter one says, and at least two terms.
    words = amount(shared)
    common = words + len(both)
    close = common >= 2 and 2 * common >= min(old.size, new.size)
    related = (
        (
            close
            and _turns(older, newer, covered=common >= SAME_THING * old.size)
            and (both or not _is_of_another(old, new, newer))
        )
        or ((words >= 2 or any(map(_is_telling, both))) and withdraws(newer))
        or (common > 1 and not old.words.isdisjoint(new.denied_words) and _turns(older, newer, covered=True))
        or (shared and fresh and _names_another(old, new, newer, fresh=fresh))
    )
    return Tie.RELATED if related else Tie.NONE


def _turns(older: str, newer: str, *, covered: bool) -> bool:
    """Whether a later statement reads as a change of an older one, or, where it covers that one, denies what the other does not.

    Of what is forbidden there may be several: a second ban changes the first only where it says that something changed.
    """
    if corrects(newer):
        return True
    if is_negative(older) != is_negative(newer):
        return covered and not asks_for_now(older) and not asks_for_now(newer)
    return not is_negative(older) and tells_a_change(newer)


def _is_of_another(old: Terms, new: Terms, newer: str) -> bool:
    """Whether each names something of one shape that the other does not: what is said of ticket 17 is not said of ticket 23."""
    return not corrects(newer) and any(has_shape_of(value, new.values) for value in old.values)


def _is_telling(value: str) -> bool:
    """Whether a value that stands in two statements is hardly there by chance: a small number may be."""
    return len(value) > SMALL_NUMBER_DIGITS or not value.isdecimal()


def _names_another(old: Terms, new: Terms, newer: str, *, fresh: frozenset[str]) -> bool:
    """Whether a value of the older one's stands beside another of its shape, or gave way to one where things changed."""
    if any(has_shape_of(value, fresh) for value in old.asserted & new.values):
        return True
    if not len(old.asserted) == len(new.asserted) == 1 or not tells_a_change(newer):
        return False
    return any(has_shape_of(value, fresh) for value in old.values - new.values)


def _restates(older: str, newer: str, *, old: Terms, new: Terms) -> bool:
    """Whether both say of the same thing what it *is*, and differ in that one value: a second rule of a list does not."""
    if not old.values or len(old.values) != len(new.values):
        return False
    gone, fresh = old.values - new.values, new.values - old.values
    if len(gone) != 1 or len(fresh) != 1 or frame(older) != frame(newer):
        return False
    return _is_value.search(older[: older.find(next(iter(gone)))]) is not None


@lru_cache(maxsize=16_384)
def frame(text: str) -> str:
    """Return what is left of a statement when its values are put aside: two of one frame differ in nothing else."""
    return " ".join(_value.sub(" … ", text).casefold().split()).rstrip(".!")


def _replaces(old: Terms, new: Terms, newer: str, *, fresh: frozenset[str], shared: frozenset[str]) -> bool:
    """Whether the later statement denies what the older asserts, gives another value for it, and leaves nothing of it out."""
    replaced = old.asserted & new.denied
    if not replaced or not shared:
        return False
    says_more = bool(old.asserted - replaced - new.values) or len(old.words - new.words) > 1
    if says_more or not all(has_shape_of(value, fresh) for value in replaced):
        return False
    return not any(_is_forbidden(value, newer, denied=replaced) for value in fresh)


def _is_forbidden(value: str, text: str, *, denied: frozenset[str]) -> bool:
    """Whether a negation stands before `value` that no denied value takes to itself: "do not use 9090 instead of 8080"."""
    place = text.find(value)
    before = [match.end() for match in _negation.finditer(text, 0, max(place, 0))]
    return bool(before) and not any(gone in text[before[-1] : place] for gone in denied)


def has_shape_of(value: str, others: Iterable[str]) -> bool:
    """Whether one of `others` is the same kind of value: both paths, both plain numbers, both names of a certain build."""
    return any(_shape(value) == _shape(other) for other in others)


@lru_cache(maxsize=16_384)
def _shape(value: str) -> str:
    """Return a value's kind: a path, a plain number, a version, a name of a certain build."""
    if " " in value:
        return "words"
    if "/" in value:
        return "path"
    if re.fullmatch(r"\d+", value):
        return "number"
    if re.fullmatch(r"v?\d+(?:[.:_]\d+)+\w*", value):
        return "dotted"
    if re.match(r"\d", value):
        return "measure"
    if value.isupper():
        return "constant"
    return "name"
