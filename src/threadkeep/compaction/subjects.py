"""Which words of a statement tell what it is about.

Verbs say little: who writes, keeps or sends something is told by the other words, and the second time another verb may be used.
The usual ones are listed; of the others the place tells them: the first word of an order, what follows "we" or "is", and, in a
statement with no verb that is known, the word before its first preposition. German writes its nouns with a capital.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from threadkeep.compaction.telling import CJK, telling_words

_VERBS = frozenset(
    "goes go going come comes leave leaves depart departs arrive arrives start starts begin begins end ends open opens "
    "close closes run "
    "runs live lives stay stays stand stands sit sits lie lies hang hangs belong belongs meet meets hold holds keep "
    "keeps kept store "
    "stores stored save saves saved write writes written read reads send sends sent ship ships shipped print prints "
    "printed build builds "
    "built compile compiles compiled use uses used set sets take takes cost costs last lasts expire expires listen "
    "listens answer "
    "answers answered handle handles handled hand pay paid due deliver delivers delivered put puts give gives given "
    "get gets feed feeds "
    "call calls called named allowed limited make makes made serve serves served host hosts hosted publish publishes "
    "published know "
    "knows known find found appear appears allow allows accept accepts accepted have has had contain contains carry "
    "carries need needs "
    "require requires wait waits retry show shows log logs cover covers do does "
    "raus statt geht gehen kommt kommen liegt liegen läuft laufen steht stehen bleibt beginnt beginnen endet enden "
    "öffnet schließt findet "
    "finden wird werden schreibt schreiben führt führen verschicken verschickt schicken schickt macht machen dauert "
    "kostet gilt gelten "
    "nimmt hört antwortet heißt sale salen llega llegan abre abren cierra cierran empieza empiezan comienza termina "
    "está están queda "
    "quedan tiene tienen cuesta cuestan publica publican guarda guardan envía envían entrar part partent commence "
    "ouvre ferme envoyé "
    "envoyée écrit coûte trouve faut идёт идут начинается открывается стоит лежит".split()
)
# What is counted or measured, and how much: the value says it.
_MEASURES = frozenset(
    "large small high low long short times units pieces people percent degrees euros dollars minutes hours days "
    "weeks seconds hits".split()
)
_CARRYING = frozenset(stem for word in (*_VERBS, *_MEASURES) for stem in telling_words(word))
_FINITE = _VERBS | frozenset(
    "is are was were be been being may will must should shall can could would might equals ist sind war wurde soll "
    "muss darf kann es son "
    "fue será debe puede est sont sera doit".split()
)
_BEFORE_A_VERB = frozenset(
    "we they you i may will must should shall can could would might please always to wir ihr sie man soll sollen muss "
    "müssen darf kann "
    "se hay debe nous vous on doit".split()
)
_BEFORE_A_PARTICIPLE = frozenset("is are was were be been being get gets has have wird werden wurde est sont es son".split())
_PARTICIPLES = ("ed", "en", "wn", "pt", "nt", "lt")
_PREPOSITIONS = frozenset(
    "from at on in to until till after under by with within for through into onto above below over via between before "
    "of about as "
    "aus bei in im an am auf um bis nach unter mit für durch von vom zu zum zur en a al de del desde hasta por para con "
    "à au dans sur par pour chez".split()
)
_DETERMINERS = frozenset(
    "the a an our my your its their his her this that every each all der die das den dem unser el la los las le les un".split()
)
_word = re.compile(rf"[^\W\d_{CJK}]+(?:['’][^\W\d_]+)?")
_german = re.compile(
    r"\b(?:der|die|das|den|dem|ein|eine|einen|und|ist|sind|wird|im|am|für|mit|auf|wir|nicht|bitte)\b", re.IGNORECASE
)
_russian = re.compile(r"[а-яё]", re.IGNORECASE)
_russian_verb = re.compile(r"\w{2,}(?:ит|ет|ёт|ют|ут|ат|ят|ем|им|тся|ться|ть|ай|йте)")
_german_verb = re.compile(r"[^\W\d_]{2,}(?:t|en|te|ten|st|ern|eln)")


@lru_cache(maxsize=16_384)
def subject_words(text: str) -> frozenset[str]:
    """Return the telling words of a statement but for the usual verbs and measures, which only carry what is said."""
    return telling_words(text) - _CARRYING


def subject_terms(found: frozenset[str]) -> frozenset[str]:
    """Return terms without the usual verbs and measures."""
    return found - _CARRYING


@lru_cache(maxsize=16_384)
def verbs_by_place(text: str) -> frozenset[str]:
    """Return those words of a statement that stand where a verb stands: another statement may have another there."""
    return frozenset(stem for verb in _verbs_by_place(text) for stem in telling_words(verb))


def orders_something(text: str) -> bool:
    """Whether a text reads as the beginning of an order: a verb in front, and none behind it."""
    folded = [word.casefold() for word in _word.findall(text)]
    if len(folded) < 2 or folded[0] in _DETERMINERS | _PREPOSITIONS:
        return False
    return not any(word in _FINITE or word in _PREPOSITIONS for word in folded[1:])


def _verbs_by_place(text: str) -> list[str]:
    words = _word.findall(text)
    folded = [word.casefold() for word in words]
    if _is_german(text, words):
        return [word for word in words if word.islower() and _german_verb.fullmatch(word)]
    if _russian.search(text):
        return [word for word in words if word.islower() and _russian_verb.fullmatch(word)]
    found = [word for before, word in pairwise(folded) if before in _BEFORE_A_VERB]
    behind = [*folded[2:], ""]
    found += [
        word
        for (before, word), next_word in zip(pairwise(folded), behind, strict=False)
        if _is_participle(before, word, next_word)
    ]
    if any(word in _FINITE for word in folded[1:]):
        return found
    if len(folded) > 1 and ":" not in text and folded[1] not in _PREPOSITIONS and folded[0] not in _DETERMINERS:
        return [*found, folded[0]]
    place = next((at for at, word in enumerate(folded) if word in _PREPOSITIONS and at > 1), 0)
    return [*found, folded[place - 1]] if place else found


def _is_participle(before: str, word: str, behind: str) -> bool:
    return before in _BEFORE_A_PARTICIPLE and (behind in _PREPOSITIONS or not behind) and word.endswith(_PARTICIPLES)


def _is_german(text: str, words: list[str]) -> bool:
    return _german.search(text) is not None and sum(word[0].isupper() for word in words) > 1
