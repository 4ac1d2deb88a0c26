"""What a statement gives a value for: its values by kind.

Two statements about one thing give values of one kind: a clock beside a clock, a path beside a path. Where two kinds differ at
once ("the oven in kitchen two, 220 degrees"), it is another thing that the second one speaks about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from itertools import groupby
from types import MappingProxyType

from threadkeep.compaction.any_case import AnyCase
from threadkeep.compaction.telling import telling_words

_MONTHS = (
    r"(?:jan|feb|mar|mär|apr|may|mai|jun|jul|aug|ago|sep|oct|okt|nov|dec|dez|dic|ene|avr|янв|фев|мар|апр|ма[йя]|июн|июл|"
    r"авг|сен|окт|ноя|дек)"
)
_NUMBER = r"[-+−]?\d+(?:[.,]\d+)*"

# The first kind that fits, from the narrowest to the widest.
_KINDS = {
    "mail": r"[\w.+-]+@[\w-]+\.[\w.-]*\w",
    "quoted": (
        r"`[^`\n]{1,120}`|\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|„[^“”\n]{1,80}[“”]|«[^»\n]{1,80}»|「[^」\n]{1,80}」"
        r"|(?<!\w)'[^'\n]{2,80}'(?!\w)"
    ),
    "place": (
        r"\w+://[^\s)>\]]*[\w/]|(?<![\w/])[\w.~-]*/[\w./~-]*[\w/]"
        r"|\b(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|example|local|internal)\b"
    ),
    "date": (
        r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{2,4}|\d+月\d+[日号]"
        rf"|\b\d{{1,2}}(?:st|nd|rd|th)?(?:\.| of)? ?(?:de )?{_MONTHS}\w*|\b{_MONTHS}\w* \d{{1,2}}(?:st|nd|rd|th)?\b"
    ),
    "clock": (
        r"\b\d{1,2}:\d{2}\b|\d{1,2}[時点时](?:半|\d+分)?|\b\d{1,2} ?(?:am|pm|uhr|o'clock)\b"
        r"|\b(?:noon|midnight|midday|dawn|dusk)\b"
    ),
    "weekday": (
        r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|"
        r"sonnabend|"
        r"sonntag)\w*|\b(?:lunes|martes|miércoles|jueves|viernes|sábados?|domingos?|lundi|mardi|mercredi|jeudi|vendredi|"
        r"samedi|"
        r"dimanche)\b|понедельник\w*|вторник\w*|сред[аыу]\w*|четверг\w*|пятниц\w*|суббот\w*|воскресень\w*|(?:周|星期|"
        r"礼拜)[一二三四五六日天]|[月火水木金土日]曜日?"
    ),
    "percent": rf"{_NUMBER} ?%|{_NUMBER} (?:per ?cent|prozent|por ciento|процент\w*)\b",
    "money": (
        rf"[€$£¥₽] ?{_NUMBER}|{_NUMBER} ?(?:[€$£¥₽元円]"
        r"|(?:euros?|dollars?|pounds?|francs?|kroner?|cents?|eur|usd|chf|рубл\w*)\b)"
    ),
    "degrees": rf"{_NUMBER} ?(?:°\s?[CFcf]?\b|°|(?:degrees?|grad|grados|degrés)\b)",
    "duration": (
        rf"(?:{_NUMBER}|\b(?:one|an?|two|three|four|five|six|seven|eight|nine|ten|twelve|thirty|zwei|drei|vier|fünf|"
        rf"sechs|zehn|eine?|"
        r"dos|tres|cinco|diez|deux|trois|cinq|dix)) ?-?(?:ms|s|sec\w*|seg\w*|sek\w*|min(?:ut\w*|s)?|h|hours?|stunden?|"
        r"heures?|horas?|days?|"
        r"tage?n?|días?|jours?|weeks?|wochen?|semanas?|months?|monate?n?|meses|years?|jahre?n?|años?|сек\w*|мин\w*|"
        r"час\w*|дн[яей]+|"
        r"недел\w*|лет|год\w*)\b|\d+ ?(?:秒|分钟?|小时|天|日間?|週間?|周|年)|\d+ (?:ثاني|دقيق|ساع|يوم|أسبوع|شهر|سن)\w*"
    ),
    "bytes": rf"{_NUMBER} ?(?:[kmgt]i?b|bytes?)\b",
    "colour": (
        r"(?<!\w)#[0-9a-f]{6}\b|\b(?:red|green|blue|yellow|amber|teal|purple|orange|black|white|gr[ea]y|pink|brown|"
        r"violet|navy|rot|grün|blau|gelb|schwarz|weiß)\b"
    ),
    "version": r"\bv?\d+\.\d+(?:\.\d+)*\w*\b",
    "constant": r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b",
    "code": r"\b(?=[\w.-]*\d)(?=[\w.-]*[A-Za-z])\w+(?:[.:_-]\w+)*",
    "number": _NUMBER,
    "person": r"[\u3400-\u9fff]{1,4}(?:さん|様|氏|先生)",
    "snake": r"\b[A-Za-z]\w*(?:[_.:]\w+)+",
    "counted": (
        r"\b(?:once|twice|thrice|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|first|second|"
        r"third|fourth|single|"
        r"double|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|erste\w*|zweite\w*|dritte\w*|dos|tres|cuatro|cinco|"
        r"seis|siete|ocho|"
        r"diez|primer\w*|segund\w*|deux|trois|quatre|cinq|sept|huit|dix|два|две|три|четыре|пять|шесть|семь|восемь|десять)\b"
    ),
}
_slot = AnyCase("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items() if kind != "constant"))
_constant = re.compile(_KINDS["constant"])
_run = re.compile(r"[^\W\d_][\w’'-]*(?: [^\W\d_][\w’'-]*)*")
_opening = re.compile(r"(?:^|[.!?:。] )$")
# Of a language that writes every noun with a capital a single one tells nothing.
_german = re.compile(r"\b(?:der|die|das|den|dem|ein|eine|einen|und|ist|wird|im|bitte|nicht|für|mit|auf|um)\b", re.IGNORECASE)

Slots = Mapping[str, frozenset[str]]


@lru_cache(maxsize=16_384)
def slots(text: str) -> Slots:
    """Return the values of a statement, folded, by their kinds; of names, only what others would call a value."""
    found: dict[str, set[str]] = {}
    rest = text
    for match in _constant.finditer(text):
        found.setdefault("constant", set()).add(match[0].casefold())
        rest = rest.replace(match[0], " " * len(match[0]))
    unnamed = rest
    for match in _slot.finditer(rest):
        begin, end = match.span()
        value, kind = rest[begin:end], match.lastgroup or ""
        found.setdefault("constant" if kind == "snake" and value.isupper() else kind, set()).add(_bare(value))
        unnamed = f"{unnamed[:begin]}{' ' * len(value)}{unnamed[end:]}"
    for name in _names(unnamed):
        found.setdefault("name", set()).add(name)
    return MappingProxyType({kind: frozenset(values) for kind, values in found.items()})


def _bare(value: str) -> str:
    return " ".join(value.casefold().strip("`'\"“”„«»「」").split())


def _names(text: str) -> list[str]:
    """Return the words with a capital, those in a row together; one alone is no name where it begins a sentence, or in German."""
    german = _german.search(text) is not None
    found: list[str] = []
    for run in _run.finditer(text):
        for capital, group in groupby(_placed(run), key=lambda placed: placed[0][0].isupper() and bool(telling_words(placed[0]))):
            words = list(group)
            alone = len(words) == 1 and (german or _opening.search(text, 0, words[0][1]) is not None)
            if capital and not alone:
                found.append(" ".join(word for word, _ in words).casefold())
    return found


def _placed(run: re.Match[str]) -> list[tuple[str, int]]:
    return [(word[0], run.start() + word.start()) for word in re.finditer(r"\S+", run[0])]


def swapped(older: Slots, newer: Slots) -> frozenset[str]:
    """Return the kinds of which each of two statements gives values, and none the same."""
    return frozenset(kind for kind, values in older.items() if kind in newer and values.isdisjoint(newer[kind]))
