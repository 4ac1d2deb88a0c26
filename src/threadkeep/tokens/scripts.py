"""A script-aware estimate: what a tokenizer would cut a text into, counted without its vocabulary.

A tokenizer first splits text into words, groups of up to three digits, runs of punctuation and gaps; a common word is
one token, a rare or long one several. So tokens follow from the shape of a text: how many words it has, how many are
long, where punctuation clings to them. Other scripts cost a steady share of a token for each character. Every figure
below is a least-squares fit on Python's standard library (its source as code, its docstrings as English), generated
JSON, logs, tables and digests, C and JavaScript, program messages in 22 languages, and Chinese prose; none is in the tests.

Mean absolute error in percent, on text that was not fitted (four bytes to a token in brackets):

                o200k     cl100k                    o200k     cl100k                    o200k     cl100k
    English    5 (12)     6 (12)        logs       2 (28)     2 (28)        Russian    8 (72)     1 (0)
    code       2 (8)      2 (7)         base64     2 (64)     7 (65)        Japanese  10 (6)      8 (29)
    JSON       2 (12)     1 (11)        digests    3 (59)     3 (59)        Korean     4 (6)     12 (36)
    Chinese    6 (9)      4 (30)        numbers    1 (51)     1 (51)        Arabic     8 (50)     3 (38)

The tests hold the languages and the four on the left to it. On hundreds of blocks of 2 to 8 KB of the standard library
that were set aside, English and code are within 3.1 % on average and 8 % in 19 of 20 blocks.

Known to be off: German (-10, -17 %), Polish (-14, -13 %), traditional Chinese (-22, -27 %), Vietnamese (+48, +37 %), Thai
and Georgian in cl100k (+27, -38 %), C headers (5 %, single blocks up to 26 %), and one letter repeated thousands of times,
which comes out several times too high.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Vocabulary = Literal["o200k", "cl100k"]

# Tokens for each ...
WORD = 0.93  # run of letters
LONG_WORD = 1.08  # full nine letters in a run: the longer a word, the rarer
ENDLESS_WORD = 12.9  # full 32 small letters in a run: no word is that long, so these are random
GLUED = -0.59  # word right behind a mark, which it often shares a token with: `.path`, `_name`, `"key`
CAMEL = 0.34  # capital within a word: `maxEntries`
CAPITALS = 0.16  # two capitals in a row: words in capitals are rarer
NUMBER = 1.13  # group of up to three digits; above one for the letters that stand between digits in digests
SPACED_NUMBER = 0.75  # space before digits, which never joins them as it joins a word
MARKS = 0.95  # run of punctuation
MARK_PAIR = 0.65  # two marks in a row
RULE = -2.14  # eight marks in a row: `--------` is a token
LINE = 1.04  # end of line
CLOSED_LINE = -1.16  # end of line behind a mark, which it joins: `;` or `{` at the end
GAP = 1.18  # run of two or more spaces: an indentation, a column
SEALED = 0.68  # character of base64
WIDE_MARK = 1.0  # full-width mark or letter, as Chinese and Japanese punctuation is


@dataclass(frozen=True, slots=True)
class ScriptCosts:
    """Tokens for each character of a script; for Latin letters with diacritics, beyond the word they stand in.

    Attributes:
        han: In documentation two characters often share a token, in stories and talk they rarely do.
        particle: On top, for each Chinese particle or pronoun: their share tells the one kind of text from the other.
    """

    latin: float
    cyrillic: float
    greek_and_semitic: float
    brahmic: float
    kana: float
    han: float
    particle: float
    hangul: float
    symbol: float
    astral: float


COSTS: dict[Vocabulary, ScriptCosts] = {
    "o200k": ScriptCosts(1.49, 0.31, 0.39, 0.38, 0.74, 0.60, 0.44, 0.72, 0.26, 1.71),
    "cl100k": ScriptCosts(2.45, 0.52, 0.92, 1.26, 1.05, 0.79, 1.18, 1.13, 0.27, 3.05),
}


def _classes(**members: bytes) -> bytes:
    """Return a table that maps each byte to the letter of its class, and bytes of no class to `x`."""
    table = bytearray(b"x" * 256)
    for name, found in members.items():
        for byte in found:
            table[byte] = ord(name)
    return bytes(table)


# In UTF-8 the first byte of a character tells its script, near enough; the bytes that continue it are dropped.
_CONTINUING = bytes(range(0x80, 0xC0))
_LATIN = bytes(range(0xC3, 0xCA))
_LOWER, _UPPER, _DIGITS = bytes(range(97, 123)), bytes(range(65, 91)), bytes(range(48, 58))
_KIND = _classes(
    l=_LOWER + _LATIN,
    U=_UPPER,
    d=_DIGITS,
    s=b" \t",
    n=b"\r\n",
    p=bytes(set(range(128)) - {*_LOWER, *_UPPER, *_DIGITS, *b" \t\r\n"}) + b"\xc2\xe2",
    h=bytes([*range(0xCA, 0xE2), *range(0xE3, 0x100)]),
)
_LETTERS, _NUMBERS, _SPACES, _MARKS = _classes(l=b"lU"), _classes(d=b"d"), _classes(s=b"s"), _classes(p=b"p")
_SCRIPTS = _classes(
    L=_LATIN,
    C=bytes(range(0xD0, 0xD4)),
    A=bytes([*range(0xCA, 0xD0), *range(0xD4, 0xE0)]),
    B=b"\xe0\xe1",
    K=b"\xe3",
    H=bytes(range(0xE4, 0xEA)),
    G=bytes(range(0xEA, 0xEE)),
    S=b"\xc2\xe2\xee",
    W=b"\xef",
    E=bytes(range(0xF0, 0x100)),
)
_CJK_MARK = b"\xe3\x80"
_particle = re.compile("[的了是不在有我他她它你这那就也都和说要会着没很到又把从给被让只还个里来去过得么吗吧呢]")
_LONG_RUN = b"b" * 24
_UNBROKEN = _classes(b=_LOWER + _UPPER + _DIGITS + b"+/=_-")


def estimate_by_script(text: str | bytes, *, vocabulary: Vocabulary = "o200k") -> int:
    """Return the tokens of a text, of which bytes are its UTF-8. Linear in its size; any input has an estimate."""
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if not raw:
        return 0
    read = _without_sealed(raw)
    tokens = (len(raw) - len(read)) * SEALED + _shape_tokens(b"n" + read.translate(_KIND, _CONTINUING))
    if not raw.isascii():
        tokens += _script_tokens(raw, COSTS[vocabulary])
    return max(1, round(tokens))


def _without_sealed(raw: bytes) -> bytes:
    """Return `raw` without the base64 in it: of unbroken runs, those that are no path, digest or identifier."""
    unbroken = raw.translate(_UNBROKEN)
    kept: list[bytes] = []
    read = at = 0
    while (start := unbroken.find(_LONG_RUN, at)) >= 0:
        at = unbroken.find(b"x", start)
        if at < 0:
            at = len(raw)
        if _is_sealed(raw[start:at]):
            kept.append(raw[read:start])
            read = at
    return b"".join([*kept, raw[read:]]) if kept else raw


def _is_sealed(run: bytes) -> bool:
    """Whether an unbroken run is base64.

    Two in five characters of base64 are capitals, two in five small letters, and every sixth time a capital follows a small
    letter. A name in camel case has too few capitals for that, a constant with a word in capitals too few changes.
    """
    kinds = run.translate(_KIND)
    return 4 * min(kinds.count(b"l"), kinds.count(b"U")) >= len(kinds) and 10 * kinds.count(b"lU") >= len(kinds)


def _shape_tokens(kinds: bytes) -> float:
    """Return what words, numbers, marks and gaps cost in a text given as the kind of each character, behind a line end.

    `bytes.count` does not overlap: a run of n counts as floor(n / k) runs of k, which is what makes length cheap to weigh.
    """
    letters, marks = kinds.translate(_LETTERS), kinds.translate(_MARKS)
    groups = kinds.translate(_NUMBERS).replace(b"ddd", b"g").replace(b"dd", b"g").replace(b"d", b"g")
    return (
        letters.count(b"xl") * WORD
        + letters.count(b"l" * 9) * LONG_WORD
        + kinds.count(b"l" * 32) * ENDLESS_WORD
        + (kinds.count(b"pl") + kinds.count(b"pU")) * GLUED
        + kinds.count(b"lU") * CAMEL
        + kinds.count(b"UU") * CAPITALS
        + groups.count(b"g") * NUMBER
        + kinds.count(b"sd") * SPACED_NUMBER
        + marks.count(b"xp") * MARKS
        + marks.count(b"pp") * MARK_PAIR
        + marks.count(b"p" * 8) * RULE
        + (kinds.count(b"n") - kinds.count(b"nn") - 1) * LINE
        + kinds.count(b"pn") * CLOSED_LINE
        + kinds.translate(_SPACES).count(b"xss") * GAP
    )


def _script_tokens(raw: bytes, costs: ScriptCosts) -> float:
    scripts = raw.translate(_SCRIPTS, _CONTINUING)
    cjk_marks = raw.count(_CJK_MARK)
    tokens = (
        scripts.count(b"L") * costs.latin
        + scripts.count(b"C") * costs.cyrillic
        + scripts.count(b"A") * costs.greek_and_semitic
        + scripts.count(b"B") * costs.brahmic
        + (scripts.count(b"K") - cjk_marks) * costs.kana
        + scripts.count(b"G") * costs.hangul
        + scripts.count(b"S") * costs.symbol
        + scripts.count(b"E") * costs.astral
        + (scripts.count(b"W") + cjk_marks) * WIDE_MARK
    )
    if han := scripts.count(b"H"):
        tokens += han * costs.han + len(_particle.findall(raw.decode("utf-8", "replace"))) * costs.particle
    return tokens
