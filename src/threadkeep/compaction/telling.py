"""Telling words: what of a statement's words may tell what it is about, cut down to what their inflections share."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
SHORTEST_STEM = 4

_word = re.compile(rf"[^\W\d_{CJK}]{{3,}}")
_cjk_run = re.compile(rf"[{CJK}]{{2,}}")
# Particles, endings and pronouns of Chinese and Japanese: a pair of signs with one of these, or a syllable, tells nothing.
_FUNCTION = frozenset("的了是在和把被请我你您他她它们这那就都也很吧呢吗要不别个与及或从到将以为")
_syllable = re.compile(r"[\u3040-\u309f]")
_arabic_front = re.compile(r"^(?:[وفبكل]?ال|لل|[وفلب](?=\w{3}))")
_ENDINGS = (
    "ings ing edly ed es s en ern er e os as o a "
    "ыми ими ами ями ого его ому ему ой ый ий ая яя ое ее ые ие ом ем ам ям ах ях ов ев ей ую юю ы и а я у ю о е ь ها ات ين ون ة"
).split()
_COMMON = frozenset(
    # three letters
    "the and for not but you are was has had can all any one two our out get got use let may now off own see say she him his her "
    "its who why how way too yet via per add put run set try did does don few new old big end ask yes der die das den dem des "
    "ein und ist mit von auf für aus bei zum zur nur bis wie was wer wir ihr sie ich ihn ihm uns mal man los las del que con por "
    "una uno sin más muy son ser fue han hay sus mis tus eso esa ese les des une est sur par pas qui que как что это для или все "
    "его еще ещё она они мне вас нам при над под без так там тут это بعد قبل هذا هذه على إلى عند كان "
    # what only carries what is told
    "send sends mail goes uses hmm btw well these days verwende verwenden benutze benutzen nutze nutzen nimm schreibe schreib "
    "heißt heißen lautet namen setze setzen mache machen läuft laufen liegt sollte usa usar utiliza utilizar pon poner "
    "llama llamar envía enviar manda guarda guardar haz será sean pasa используй используйте использовать отправляй отправляйте "
    "пиши пусть сделай ставь идут идёт называется استخدم اجعل أرسل ضع "
    # longer
    "this that with from have will into when then them they what which where there their also only over under should would could "
    "please make sure does done been being were your yours about after before again more most some such than very just like need "
    "needs want wants keep using used uses file files code test tests line lines thing things instead rather actually longer "
    "never always must shall still here back each every other another both same first last next long know think going said say "
    "paste pasted tell show look find check give take come help start begin works working work writes write reads read "
    "call called ask asks "
    "name names named change changed changes correction wrong forget mind stop everything anything nothing something "
    "nicht sondern statt jetzt bitte immer auch noch schon aber oder wenn dann dass eine einen einem einer eines sind wird "
    "werden soll sollen muss müssen kann haben hatte durch gegen nach über unter wieder mehr doch "
    "para como pero este esta estos estas todo toda todos todas siempre nunca favor desde hasta cuando donde también porque "
    "sobre entre ahora usar debe deben hacer ser estar tiene "
    "dans avec pour plus tout tous cette sont être "
    "только всегда никогда нужно надо если чтобы когда теперь больше вместо очень можно будет быть есть был была были "
    "دائما أبدا يجب الآن لكن".split()
)
_COMMON_PAIRS = frozenset("需要 使用 现在 应该 必须 可以 一个 所有 ください 場合 以上 以下 時間".split())


def telling_words(text: str) -> frozenset[str]:
    """Return the telling words of a text: long or rare ones, folded and without endings, and pairs of signs where no space is."""
    words = frozenset(_stems(_word.findall(text)))
    return words if text.isascii() else words | frozenset(_pairs(text))


def _stems(words: Iterable[str]) -> Iterator[str]:
    for word in words:
        if stem := _stem(word):
            yield stem


@lru_cache(maxsize=32_768)
def _stem(word: str) -> str:
    """Return what a word shares with its other forms; empty where it tells nothing."""
    folded = word.casefold()
    if folded in _COMMON:
        return ""
    folded = _arabic_front.sub("", folded) if not folded.isascii() else folded
    if len(folded) == SHORTEST_STEM and folded.endswith("s"):
        return folded[:-1]
    for _ in range(2):
        for ending in _ENDINGS:
            if folded.endswith(ending) and len(folded) - len(ending) >= SHORTEST_STEM:
                folded = folded[: -len(ending)]
                break
    return f"{folded[:-1]}i" if folded.endswith("y") else folded


def _pairs(text: str) -> Iterator[str]:
    for run in _cjk_run.findall(text):
        for one, other in pairwise(run):
            pair = one + other
            if one not in _FUNCTION and other not in _FUNCTION and not _syllable.search(pair) and pair not in _COMMON_PAIRS:
                yield pair
