"""Whether a later statement says another value for the same thing, without a word that anything changed.

"Deploys go out on Tuesdays", and weeks later "we deploy on Thursdays": nothing but the thing spoken about and the kind of value
ties them. The thing is the same where all that tells what it is comes again and at most one of the two says more of it; two
statements that each have a word of their own for it, or differ in two values at once, speak about two things of one kind. And
what only names something to be left alone, looked at or done once has no value that could be another: each holds by itself.
"""

from __future__ import annotations

import re
from functools import lru_cache

from threadkeep.compaction.changes import asks_for_now, corrects, only_asks, without_change
from threadkeep.compaction.overlap import Statements
from threadkeep.compaction.slots import slots, swapped
from threadkeep.compaction.subjects import orders_something, subject_words, verbs_by_place
from threadkeep.compaction.telling import telling_words
from threadkeep.compaction.ties import is_negative

# A statement with more words than this tells a story, and is not said again with another value.
LONGEST_WORDS = 9
# A single word that two statements share must be so rare, of what a word weighs that only one statement has.
RAREST = 0.6
# Of all that the shorter one says about its thing, so much comes again; of the longer one, so much.
OF_THE_SHORTER = 0.5
OF_THE_LONGER = 0.3
# What the one statement that says more may say more.
MORE_WORDS = 2
# Signs of scripts without spaces are taken in pairs: so many pairs of its own make a word of its own.
PAIRS_OF_A_WORD = 3
SAME_BEGINNING = 5

# Values of these kinds may name what something is done to; of such there may be any number.
_NAMING = frozenset({"number", "code", "place", "quoted", "snake", "mail", "name", "constant", "counted"})
LONGEST_ORDER_WORDS = 5
# What such a value counts is told by the word beside it.
_COUNTS = frozenset({"number", "counted", "code"})
_latin = re.compile(r"(?:^|\s)[a-zà-ÿ]{2,}(?:\s|[.,:;!?]|$)", re.IGNORECASE)
# Two that are each other's opposite.
_OPPOSITES = tuple(
    (frozenset(one.split()), frozenset(other.split()))
    for one, other in (
        ("in incoming inbound", "out outgoing outbound"),
        ("before until till vor bis antes hasta avant", "after from since nach ab después desde après"),
        (
            "start starts begin begins starting beginnt empieza commence",
            "end ends stop stops ending finish finishes endet termina",
        ),
        ("open opens öffnet abre ouvre", "close closes schließt cierra ferme"),
        ("arrive arrives arrival", "leave leaves depart departs departure"),
        ("minimum min least lower lowest mindestens mínimo", "maximum max most upper highest höchstens máximo"),
        ("upload uploads", "download downloads"),
        ("import imports importer", "export exports exporter"),
        ("first", "last"),
        ("left", "right"),
        ("read reads", "write writes"),
        ("buy buys", "sell sells"),
        ("on", "off"),
        ("up", "down"),
    )
)
_SIDES = frozenset(word for pair in _OPPOSITES for side in pair for word in side)
_any_word = re.compile(r"[^\W\d_]+")
_CARRIES_ITS_VALUE = re.compile(
    r"^(?:please |bitte )?(?:use|call|name|print|build|run|set|show|write|send|ship|feed|pay|verwende|nutze|nimm|usa|"
    r"utiliza|utilise)\b",
    re.IGNORECASE,
)
# It is one more, and takes no other's place.
_beside_others = re.compile(
    r"\b(?:also|too|another|other|additional|as well|one of|besides|auch|außerdem|zusätzlich|weitere\w*|también|además|"
    r"otr[oa]s?|aussi|autres?|"
    r"тоже|также|ещё)\b|也|还|另外|も",
    re.IGNORECASE,
)
# What happened once, to someone, at a time.
_happened = re.compile(
    r"\b(?:was|were|got) \w+ed\b|\b(?:is|are) (?!running|listening|using|being|going)\w+ing\b|\b(?:crashed|broke|failed|"
    r"arrived|booked|stopped|managed|complain(?:s|ed)|asked|asks|said|says|wants|"
    r"wanted|could not|couldn't|left|went|came|happened)\b",
    re.IGNORECASE,
)
_is = re.compile(
    r"\s(?:is|are|equals|ist|sind|es|son|est|sont)\s+(?:an? |the |el |la |ein |eine )?|\s*是\s*|は\s*", re.IGNORECASE
)


@lru_cache(maxsize=16_384)
def may_restate(text: str) -> bool:
    """Whether a statement may say of anything that it is another now: it fixes a value, and none beside others."""
    return _fixes_a_value(text) and _beside_others.search(text) is None


def restatement(newer: str, older: str, *, among: Statements[str]) -> float:
    """Return how much tells that `newer` says of the older one's thing that it is another now; 0 where it does not.

    Args:
        among: What users said, for what a word is worth.
    """
    if not (may_restate(newer) and _fixes_a_value(older)):
        return 0.0
    differing = swapped(slots(older), slots(newer))
    if len(differing) > 1 or _are_opposites(older, newer) or (not differing and not _is_another(older, newer)):
        return 0.0
    if _each_begins_with_its_own(older, newer, differing):
        return 0.0
    old, new = _subject(older, differing), _subject(newer, differing)
    shared = frozenset(term for term in old if _has(new, term))
    own_old = (frozenset(term for term in old if not _has(new, term)) - verbs_by_place(older)) | _kinds_alone(older, newer)
    own_new = (frozenset(term for term in new if not _has(old, term)) - verbs_by_place(newer)) | _kinds_alone(newer, older)
    if not shared or max(len(old), len(new)) > LONGEST_WORDS:
        return 0.0
    if differing and ((_counted(own_old) and _counted(own_new)) or max(_counted(own_old), _counted(own_new)) > MORE_WORDS):
        return 0.0
    return _weighed(shared, shared | own_old, shared | own_new, among=among)


def takes_its_place(newer: str, older: str) -> bool:
    """Whether a later statement says that the older one's thing changed, and gives all of it again but for its one value.

    It leaves nothing out that tells what the older is about, and what it puts in the value's place is measured or named alike.
    """
    if not (corrects(newer) and _fixes_a_value(newer) and _fixes_a_value(older)):
        return False
    differing = swapped(slots(older), slots(newer))
    if len(differing) != 1 or _kinds_alone(older, newer) or _are_opposites(older, newer):
        return False
    old, new = _subject(older, differing), _subject(newer, differing)
    own = frozenset(term for term in new if not _has(old, term)) & subject_words(without_change(newer)) - verbs_by_place(newer)
    if not old or not all(_has(new, term) for term in old) or _counted(own) > MORE_WORDS:
        return False
    (kind,) = differing
    one_each = len(slots(older)[kind]) == len(slots(newer)[kind]) == 1
    return one_each and (kind not in _COUNTS or not _beside(older, kind).isdisjoint(_beside(newer, kind)))


def _beside(text: str, kind: str) -> set[str]:
    """Return the words right before and right behind a value."""
    found: set[str] = set()
    for value in slots(text)[kind]:
        before, _, behind = text.casefold().partition(value)
        found |= {f"< {word}" for word in before.split()[-1:]} | {f"> {word.strip('.,;:!?')}" for word in behind.split()[:1]}
    return found - {"> "}


def _each_begins_with_its_own(older: str, newer: str, differing: frozenset[str]) -> bool:
    """Whether the value in which two statements differ is what each speaks about, as "ticket 17" and "ticket 23" are."""
    return bool(differing - {"name"}) and all(_begins_with_one(text, differing) for text in (older, newer))


def _begins_with_one(text: str, kinds: frozenset[str]) -> bool:
    values = (value for kind in kinds for value in slots(text).get(kind, ()))
    places = (text.casefold().find(value) for value in values)
    return any(len(text[:place].split()) <= 1 and len(telling_words(text[:place])) <= 1 for place in places if place >= 0)


def _are_opposites(older: str, newer: str) -> bool:
    """Whether one statement has a word of which the other has the opposite, and not the word itself."""
    old, new = _sides(older), _sides(newer)
    if not old or not new:
        return False
    said, says = old - new, new - old
    return any((one & said and other & says) or (other & said and one & says) for one, other in _OPPOSITES)


@lru_cache(maxsize=16_384)
def _sides(text: str) -> frozenset[str]:
    """Return the words of a statement that have an opposite."""
    return _SIDES.intersection(_any_word.findall(text.casefold()))


def _weighed(shared: frozenset[str], old: frozenset[str], new: frozenset[str], *, among: Statements[str]) -> float:
    """Return what the shared words weigh, where they are rare enough and enough of what both say."""
    weight = sum(map(among.weight, shared))
    if max(map(among.weight, shared)) < RAREST * among.weight(""):
        return 0.0
    shares = sorted(weight / max(1e-9, sum(map(among.weight, side))) for side in (old, new))
    return weight if shares[1] >= OF_THE_SHORTER and shares[0] >= OF_THE_LONGER else 0.0


def _kinds_alone(text: str, other: str) -> frozenset[str]:
    """Return the kinds of values that only one of two statements has; a count may stand in any."""
    return frozenset(slots(text)) - frozenset(slots(other)) - {"counted", "number", "name"}


@lru_cache(maxsize=16_384)
def _subject(text: str, differing: frozenset[str]) -> frozenset[str]:
    """Return the words that tell what a statement is about: not the values in which two differ, nor what carries them."""
    values = (value for kind in differing for value in slots(text).get(kind, ()))
    return subject_words(text) - frozenset(word for value in values for word in telling_words(value))


def _has(words: frozenset[str], term: str) -> bool:
    """Whether a word, or another that begins like it, is among `words`."""
    if term in words:
        return True
    return len(term) > SAME_BEGINNING and any(_alike(term, word) for word in words)


def _alike(one: str, other: str) -> bool:
    shortest = min(len(one), len(other))
    return shortest >= SAME_BEGINNING and one[: shortest - 1] == other[: shortest - 1]


def _counted(own: frozenset[str]) -> int:
    """Return how many words of its own a statement has, where a word is a few pairs of signs in some scripts."""
    pairs = sum(1 for term in own if not term.isascii() and len(term) == 2)
    return len(own) - pairs + pairs // PAIRS_OF_A_WORD


@lru_cache(maxsize=16_384)
def _fixes_a_value(text: str) -> bool:
    """Whether a statement tells how something is to be from then on: no ban, no question, no order for now, nothing past."""
    if is_negative(text) or only_asks(text) or asks_for_now(text) or _happened.search(text):
        return False
    return not text.rstrip().endswith((":", "：")) and not _names_its_object(text)


def _names_its_object(text: str) -> bool:
    """Whether all that an order has for a value is the name of what it is about: "keep port 8001 free"."""
    if _CARRIES_ITS_VALUE.search(text):
        return False
    values = [value for kind, each in slots(text).items() if kind in _NAMING for value in each]
    places = [place for value in values if (place := text.casefold().find(value)) > 0]
    if not _latin.search(text):
        # Where its prepositions are not known, what is said behind the value is said of it.
        return any(telling_words(text[place + len(value) :]) for value in values if (place := text.casefold().find(value)) > 0)
    before = text[: min(places)] if places else ""
    return ":" not in before and len(before.split()) <= LONGEST_ORDER_WORDS and orders_something(before)


def _is_another(older: str, newer: str) -> bool:
    """Whether both say of one thing what it is, in a word or two, and differ in that."""
    old, new = _thing_and_what_it_is(older), _thing_and_what_it_is(newer)
    return old is not None and new is not None and old[0] == new[0] and old[1].isdisjoint(new[1])


@lru_cache(maxsize=16_384)
def _thing_and_what_it_is(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the telling words of what a statement is about, and of the word or two it says of it; None where it does not."""
    parts = _is.split(text, maxsplit=1)
    if len(parts) != 2 or len(parts[1].split()) > 2:
        return None
    thing, said = telling_words(parts[0]), telling_words(parts[1])
    return (thing, said) if thing and said else None
