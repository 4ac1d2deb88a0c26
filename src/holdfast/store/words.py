"""How text becomes words, for every backend that searches."""

from __future__ import annotations

import re

# Scripts written without spaces between words; a tokenizer would take a whole sentence of them for one word.
_CJK = (
    "\u3040-\u30ff"  # hiragana, katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # han
    "\uac00-\ud7af"  # hangul syllables
    "\uff66-\uff9d"  # half-width katakana
)
_CJK_CHARACTER = re.compile(f"([{_CJK}])")
_WORD = re.compile(f"[{_CJK}]+|(?:(?![{_CJK}])\\w)+")


def spaced(text: str) -> str:
    """Return `text` as a tokenizer must see it: every CJK character a word of its own, and no half surrogate.

    A transcript may say `\\ud83d` alone, which no database takes; one such record must not stop the index for good.
    """
    return _CJK_CHARACTER.sub(r" \1 ", text.encode("utf-8", "replace").decode("utf-8"))


def phrases(query: str) -> list[str]:
    """Return what a text must hold one of to match `query`, each once; nothing if it has no word.

    A phrase is a word, or characters that stand next to each other with a space between them. A run of CJK characters
    goes by its pairs: single characters would find everything, the whole run only its exact repetition.
    """
    found: dict[str, None] = {}
    for word in _WORD.findall(query):
        if _CJK_CHARACTER.match(word):
            pairs = [word[at : at + 2] for at in range(len(word) - 1)] or [word]
            found.update(dict.fromkeys(" ".join(spaced(pair).split()) for pair in pairs))
        elif any(character.isalnum() for character in word):
            found[word] = None
    return list(found)
