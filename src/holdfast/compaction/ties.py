"""Whether a later statement speaks about the same thing as an earlier one, and whether it replaces it.

A tie rests on shared values (ports, paths, names, versions) and shared words, not on phrasing. Phrases of change or denial, in
a few languages, only decide between two safe outcomes: the older statement is set aside, or it stays and both are shown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise

_value = re.compile(
    r"""`[^`\n]{1,120}`                                   # quoted as code
      | "[^"\n]{1,80}" | “[^”\n]{1,80}”                   # quoted
      | https?://[^\s)>\]]+
      | [\w.~-]*/[\w./~-]+                                # a path
      | \b\d+(?:[.:_]\d+)*\w*\b                           # a number, version, time, port
      | \b[A-Za-z][\w]*(?:[_.:@-]\w+)+\b                  # snake, dotted, dashed names
      | \b[A-Z][A-Z0-9]{2,}\b | \b\w*[a-z][A-Z]\w*\b      # CONSTANTS, camelCase
    """,
    re.VERBOSE,
)
# People and places: capitalised words in a row. Each neighbouring pair counts, as a sentence may begin with another word.
_name = re.compile(r"\b[^\W\d_a-z]\w+(?: [^\W\d_a-z]\w+)+")
_word = re.compile(r"[^\W\d_]{4,}|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]{2}", re.UNICODE)
_change = re.compile(
    r"\b(?:not|instead|rather|longer|moved|changed|now|actually|correction|replaces?d?|nicht|statt|sondern|jetzt|ya no|ahora|"
    r"en vez|désormais|maintenant)\b|n['’]t\b|不再|不是|而是|改为|改成|改用|换成",
    re.IGNORECASE,
)
_withdrawal = re.compile(
    r"\b(?:stop|forget|scrap|ignore|cancel|withdraw|never mind|no longer|any ?more|drop the|vergiss|vergessen|nicht mehr|"
    r"deja de|olvida|"
    r"olvídate|ya no|oublie|ne plus)\b|不再|不用|取消|停止|忘|作废",
    re.IGNORECASE,
)
COMMON_WORDS = frozenset(
    "this that with from have will into when then them they what which where there their also only over under should would "
    "could please make sure does done been being were your yours about after before again more most some such than very just "
    "like need needs want wants keep using used uses file files code test tests".split()
)


class Tie(Enum):
    """How a later statement relates to an earlier one."""

    NONE = "none"
    RELATED = "related"
    REPLACES = "replaces"


@dataclass(frozen=True, slots=True)
class Terms:
    """What a statement is about: the exact values it names and its telling words."""

    values: frozenset[str]
    words: frozenset[str]


@lru_cache(maxsize=65_536)
def terms(text: str) -> Terms:
    """Return what a statement is about."""
    values = {match.strip("`\"“”'.,:;") for match in _value.findall(text)} - {""}
    names = {f"{one} {other}" for run in _name.findall(text) for one, other in pairwise(run.split())}
    bare = _value.sub(" ", text).casefold()
    return Terms(values=frozenset(values | names), words=frozenset(_word.findall(bare)) - COMMON_WORDS)


def tie(older: str, newer: str) -> Tie:
    """Return how `newer` relates to `older`.

    It replaces it when it speaks of change and either names an old value beside a new one of the same shape, or says the
    same about another value. Without such words the same overlap is a relation, which sets nothing aside.
    """
    old, new = terms(older), terms(newer)
    if old.values == new.values and old.words == new.words:
        return Tie.NONE
    shared = old.words & new.words
    fresh = new.values - old.values
    named = {value for value in old.values & new.values if any(_same_shape(value, other) for other in fresh)}
    gone = {value for value in old.values - new.values if any(_same_shape(value, other) for other in fresh)}
    changes = _change.search(newer) is not None
    close = len(shared) >= (2 if changes else 3) and 2 * len(shared) >= min(len(old.words), len(new.words))
    if changes and ((named and shared) or (gone and close)):
        return Tie.REPLACES
    withdraws = _withdrawal.search(newer) is not None and (old.values & new.values or len(shared) >= 2)
    if (named and shared) or (gone and close) or withdraws:
        return Tie.RELATED
    return Tie.NONE


def _same_shape(one: str, other: str) -> bool:
    return _shape(one) == _shape(other)


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
