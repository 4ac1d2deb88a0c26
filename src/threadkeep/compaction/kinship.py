"""What two statements may have in common that share no word: kinds of values, words of one family, parts of longer words.

Kinship is weak evidence. It lets a change that names something choose, among all that was said before, the few statements it is
most likely about; a kind that many statements have counts little. Nothing ever gives way by it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from threadkeep.compaction.concepts import concepts
from threadkeep.compaction.telling import telling_words
from threadkeep.compaction.ties import is_negative

GRAM = 6
BANS = "@ban"
# What a shared kind of value counts beside a shared family of words.
OF_A_KIND = 1.1
# A plain number is of a kind with far too much.
LOOSE_KINDS = frozenset({"@number", "@counted"})
OF_A_LOOSE_KIND = 0.35

_kinds = {
    "@date": re.compile(
        r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d+月\d+[日号]|\b\d{1,2}(?:st|nd|rd|th)?(?:\.| of)? ?(?:de )?"
        r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|ago|sep|oct|okt|nov|dec|dez|dic|янв|фев|мар|апр|ма[йя]|июн|июл|авг|сен|окт|ноя|дек)"
    ),
    "@clock": re.compile(r"\b\d{1,2}:\d{2}\b|\d{1,2}[時点时](?:半|\d+分)?|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b"),
    "@weekday": re.compile(
        r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|"
        r"sonnabend|sonntag)\w*|\b(?:lunes|martes|miércoles|jueves|viernes|sábados?|domingos?|lundi|mardi|mercredi|jeudi|vendredi|samedi|"
        r"dimanche)\b|понедельник|вторник|сред[аыу]|четверг|пятниц|суббот|воскресень|(?:周|星期|礼拜)[一二三四五六日天]|[月火水木金土日]曜"
    ),
    "@percent": re.compile(r"\d ?%|\bper ?cent\b|\bprozent\b|por ciento|процент"),
    "@money": re.compile(r"[€$£¥₽]|\b(?:euros?|dollars?|pounds?|francs?|kroner?|cents?|eur|usd|chf|рубл\w*)\b|[元円]"),
    "@duration": re.compile(
        r"(?:\d|\b(?:one|an?|two|three|five|ten|zehn|fünf|zwei|drei|un[ao]?|deux|trois|dos|tres)) ?-?"
        r"(?:ms|s|sec\w*|seg\w*|sek\w*|min\w*|h|hours?|stunden?|heures?|horas?|days?|tage?n?|días?|jours?|weeks?|wochen?|semanas?|"
        r"months?|monate?n?|meses|years?|jahre?n?|años?|сек\w*|мин\w*|час\w*|д(?:ень|н[яей]+)|недел\w*|лет|год\w*)\b"
        r"|\d+ ?[秒分天日周年]|دقيق|ثاني|ساع"
    ),
    "@bytes": re.compile(r"\d ?(?:[kmgt]i?b|bytes?)\b"),
    "@version": re.compile(r"\bv?\d+\.\d+(?:\.\d+)*\b(?!:)"),
    "@mail": re.compile(r"[\w.+-]+@[\w-]+\.\w"),
    "@place": re.compile(
        r"\w+://|(?<![\w/])[~.]{0,2}/[\w.-]+/|\b[a-z0-9-]+\.(?:[a-z0-9-]+\.)*(?:com|org|net|io|dev|example|local|internal)\b"
    ),
    "@number": re.compile(r"\d"),
    "@counted": re.compile(
        r"\b(?:once|twice|thrice|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|zwei|drei|vier|fünf|sechs|"
        r"sieben|acht|neun|zehn|dos|tres|cuatro|cinco|seis|siete|ocho|diez|deux|trois|quatre|cinq|six|sept|huit|dix|два|две|три|четыре|"
        r"пять|шесть|семь|восемь|десять)\b|[两二三四五六七八九十]"
    ),
}
_constant = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b")
_person = re.compile(r"(?<![.!?] )(?<!^)\b[^\W\d_a-z]\w+ [^\W\d_a-z]\w+")
_bans = re.compile(
    r"\b(?:ban|rule|freeze|restriction|prohibition|hands-off|verbot|sperre|regel|regla|prohibición|règle|interdiction|запрет)\w*|禁|限制|規則|规则",
    re.IGNORECASE,
)
_tail = re.compile(r"(?:ations?|itions?|ments?|ness|ings?|ungen|ung|heit|keit|schaft|ción|ciones|mente|ность|ени[еяй]|ание)$")


@lru_cache(maxsize=16_384)
def kin(text: str) -> frozenset[str]:
    """Return the kinds of values and the families of words a statement has."""
    folded = text.casefold()
    found = {kind for kind, pattern in _kinds.items() if pattern.search(folded)}
    if found - {"@number"}:
        found.discard("@number")
    if _constant.search(text):
        found.add("@constant")
    if _person.search(text):
        found.add("@person")
    if is_negative(text) or _bans.search(text):
        found.add(BANS)
    return frozenset(found) | concepts(text)


@lru_cache(maxsize=16_384)
def grams(word: str) -> frozenset[str]:
    """Return the parts of a longer word by which it is known inside others, its ending apart."""
    bare = _tail.sub("", word)
    return frozenset(bare[at : at + GRAM] for at in range(len(bare) - GRAM + 1))


@lru_cache(maxsize=16_384)
def _inside(text: str) -> frozenset[str]:
    return frozenset(part for word in telling_words(text) for part in grams(word))


def has_kin(text: str) -> bool:
    """Whether a statement has anything by which another could be kin to it."""
    return bool(kin(text) or _inside(text))


def kinship(newer: str, older: Sequence[str]) -> list[float]:
    """Return how near a statement is to each of some older ones, by what they share that is no word.

    What one family or kind is worth is told by how few of the older statements have it.
    """
    own, parts = kin(newer), [grams(word) for word in telling_words(newer)]
    sought = frozenset(part for word in parts for part in word)
    # Looking for every kind of value in all that was ever said takes long, and most changes give none.
    held = kin if any(kind.startswith("@") for kind in own) else concepts
    sides = [held(text) & own for text in older]
    words = [_inside(text) & sought for text in older]
    common = Counter(kind for side in sides for kind in side)
    spread = Counter(part for side in words for part in side)

    def worth(count: int) -> float:
        return math.log2(1 + (len(older) + 1) / max(1, count))

    def alike(side: frozenset[str], inside: frozenset[str]) -> float:
        shared = sum(_factor(kind) * worth(common[kind]) for kind in side)
        return shared + sum(max(worth(spread[part]) for part in both) for word in parts if (both := word & inside))

    return [alike(side, inside) for side, inside in zip(sides, words, strict=True)]


def _factor(kind: str) -> float:
    if kind in LOOSE_KINDS:
        return OF_A_LOOSE_KIND
    return OF_A_KIND if kind.startswith("@") else 1.0
