"""Split texts and queries into words, for every backend that searches."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Tokenizers know the forms of English words; in other languages longer words are found by their beginning.
PREFIX_CHARS = 6
# Scripts written without spaces between words; a tokenizer would take a whole sentence of them for one word.
CJK = (
    "\u3040-\u30ff"  # hiragana, katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # han
    "\uac00-\ud7af"  # hangul syllables
    "\uff66-\uff9d"  # half-width katakana
)
_CJK_CHARACTER = re.compile(f"([{CJK}])")
_WORD = re.compile(f"[{CJK}]+|(?:(?![{CJK}])\\w)+")
# Paths, identifiers and ids: letters or digits joined by signs, and what stands in quotation marks.
_JOINED = re.compile(r"[A-Za-z0-9]+(?:[./:@#_\\~+-]+[A-Za-z0-9]+)+")
_QUOTED = re.compile(r"\"([^\"\n\0]{2,120})\"|`([^`\n\0]{2,120})`|“([^”\n\0]{2,120})”|«([^»\n\0]{2,120})»")


# Words that occur in any question and say nothing about its answer. Transcripts are mostly code and logs, where these words are
# rarer than the ones that matter, so word counts cannot find them.
FUNCTION_WORDS = frozenset(
    """a an the of to in on at by for from with into as and or but not no so than then that this these those it its he she they
    them their we us our you your i me my is are was were be been am do does did has have had may might must can could should
    would will what which who whom whose where when why how there if whether any some each up out about
    der die das den dem des ein eine einer eines einem einen und oder aber nicht kein zu im in am an auf aus bei mit von vom für
    ist sind war wird werden hat haben kann darf muss soll was welche welcher welches welchem welchen wer wem wen wo wann warum
    wie es er sie wir ihr
    el la los las un una unos unas de del al en con por para y o no que qué cuál cuáles quién dónde adónde cuándo cómo es son
    se su sus lo le hay ha
    le les une des du et ou ne pas que quel quelle quels quelles qui où quand comment pourquoi est sont il elle on ce cette dans
    sur pour avec au aux doit être
    и в во на с к о об по из за от до не ни это как какой какая какие какое каким каком что кто где когда почему есть он она они
    мы их его её ли бы для
    ما هو هي من في على إلى عن متى أين كيف لماذا هل أن إن لا أي هذا هذه""".split()
)


def space_cjk(text: str) -> str:
    """Return `text` with every CJK character a word of its own, and without half surrogates.

    A transcript may contain `\\ud83d` alone, which no database takes; one such record must not stop the index for good.
    """
    return _CJK_CHARACTER.sub(r" \1 ", text.encode("utf-8", "replace").decode("utf-8"))


def split_phrases(query: str) -> list[str]:
    """Return the phrases of which a text must hold one to match `query`, each once; none if it has no word.

    A phrase is a word, or adjacent characters with a space between them. A run of CJK characters is split into its pairs: single
    characters would match everything, the whole run only its exact repetition. Function words count only where there is no other.
    """
    found = dict.fromkeys(_find_phrases(query))
    return [phrase for phrase in found if phrase.casefold() not in FUNCTION_WORDS] or list(found)


def find_exact(query: str) -> list[str]:
    """Return what a query names exactly, each once: paths, identifiers, and what it quotes."""
    quoted = ["".join(found) for found in _QUOTED.findall(query)]
    return list(dict.fromkeys(each.strip() for each in (*quoted, *_JOINED.findall(query)) if any(map(str.isalnum, each))))


def _find_phrases(query: str) -> Iterator[str]:
    for word in _WORD.findall(query):
        if _CJK_CHARACTER.match(word):
            pairs = [word[at : at + 2] for at in range(len(word) - 1)] or [word]
            yield from (" ".join(space_cjk(pair).split()) for pair in pairs)
        elif any(character.isalnum() for character in word):
            yield word
