"""Judges people's messages by their words: whether one may bind later work, only acknowledges, or names exact values.

The word lists know a few languages. Where they cannot tell, a message counts as one that matters.
"""

from __future__ import annotations

import re

# A message of nothing but these neither asks for anything nor settles anything. Any other word makes it a message.
ACKNOWLEDGEMENTS = frozenset(
    "ok okay k yes yep yeah y sure fine good great nice perfect thanks thx ty cool wow yo hi hey hello please done continue "
    "proceed go next ja weiter danke gut genau oui merci bien continuez si sí vale gracias sigue да ок спасибо дальше продолжай "
    "好 好的 是 是的 继续 谢谢 可以 はい 続けて ありがとう 네 계속 감사합니다".split()
)
# Their words say something else when they stand alone.
ACKNOWLEDGING_PHRASES = ("go on", "go ahead", "thank you", "keep going", "carry on", "sounds good", "looks good", "mach weiter")
_gap = r"[\W_]"
_told = "|".join((*(phrase.replace(" ", f"{_gap}+") for phrase in ACKNOWLEDGING_PHRASES), *map(re.escape, ACKNOWLEDGEMENTS)))
_acknowledges = re.compile(rf"{_gap}*(?:(?:{_told})(?:{_gap}+|\Z))*")

# Words that may oblige beyond the turn they were said in. A message with none is remembered in its own thread alone.
_obliges = re.compile(
    r"\b(?:never|always|may|must|mustn['’]?t|shall|should|shouldn['’]?t|only|don['’]?t|do not|cannot|can['’]?t|not|without|until|"
    r"unless|instead|from now on|prefer\w*|wants?|needs?|require[ds]?|rules?|avoid|ensure|make sure|remember|keep|use|allowed|"
    r"forbidden|decided|agreed|called|named|nie|niemals|immer|muss|müssen|darf|dürfen|nur|keine?|nicht|jamais|toujours|doit|doivent|"
    r"seulement|nunca|siempre|debe|deben|sólo|solo|não|sempre|deve|apenas)\b"
)
_sentence = re.compile(r"[^.!?\n]+(?:[.!](?=\S)[^.!?\n]*)*[.!?]?")
_latin = re.compile(r"[A-Za-z]{2}")
_token = re.compile(r"[\w./:@#$%+~^=-]*[\w%]", re.UNICODE)
_name = re.compile(r"[a-z]+[A-Z]\w*|\w+_\w+|[A-Z]{2,}\w*|\w+(?:[./:@-]\w+)+")
SHORTEST = 2


def may_bind(said: str) -> bool:
    """Whether a message may bind later work: a sentence of it is no question and names an exact value or obliges.

    What is not written in Latin letters may always bind: nothing here can tell.
    """
    if not _latin.search(said):
        return True
    sentences = (sentence for sentence in _sentence.findall(said) if not sentence.rstrip().endswith("?"))
    return any(obliges(sentence) or find_values(sentence) for sentence in sentences)


def obliges(said: str) -> bool:
    """Whether a message holds a word that may oblige beyond the turn it was said in."""
    # Four times as fast as a pattern that ignores case.
    return _obliges.search(said.casefold()) is not None


def is_acknowledgement(said: str) -> bool:
    """Whether a message only greets, acknowledges or asks to go on."""
    return _acknowledges.fullmatch(said.casefold()) is not None


def find_values(text: str) -> frozenset[str]:
    """Return the exact values a text names: whatever holds a figure, or is written as code writes names."""
    found: set[str] = set()
    for token in _token.findall(text):
        bare = token.strip(".:-/#=~^+")
        if bare.isalpha() and bare[1:].islower():
            # A plain word: most are.
            continue
        if len(bare) >= SHORTEST and (any(char.isdigit() for char in bare) or _name.fullmatch(bare)):
            found.add(bare)
    return frozenset(found)
