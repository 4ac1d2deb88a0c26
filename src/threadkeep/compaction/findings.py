"""What kind of value a word is, and whether a line of an output tells what it is.

Looks only sort out what nobody would look up again: a common word that no label names, a figure of a listing, a name in source
code, a file of the workspace. Where a value came from and went is for `bindings` and `origins` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from threadkeep.compaction.working import line_around, one_line

LONGEST_LINE = 110
LEAST_AROUND = 20
OCCURRENCES_READ = 6
# More figures than this, so near each other, are a row of a listing.
FIGURES_OF_A_ROW = 4
ROW_REACH = 60
# A word that names a figure stands so near before it.
LABEL_REACH = 24
# A line with more words than this that no label opens tells a story, and not what one of its words is.
WORDS_OF_A_LINE = 24
# An output of at most so many characters may say nothing but a value.
SHORT_OUTPUT = 300
# A line that names a file and says no more than this beside it is a listing.
WORDS_BESIDE_A_FILE = 3

# What names one thing and nobody would make up: letters and digits in one word, or an address. Names in source code, which
# every patch repeats, hold no digit; files stand in the working state.
_identifier = re.compile(r"(?=[^\d]*\d)(?=[^A-Za-z]*[A-Za-z])[\w:.@-]{6,60}|\d+(?:\.\d+){3}(?::\d+)?")
_telling = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # a mail address
    r"|[a-z][a-z0-9+]{1,9}://\S+"
    r"|\d{4}-\d{2}-\d{2}(?:[T_]\S*)?|\d{1,2}[./]\d{1,2}[./]\d{2,4}"  # a date
)
_figure = re.compile(r"[+-]?(?:\d{3,}|\d+[.:]\d+(?:[.:]\d+)*)%?")
_plain = re.compile(r"[^\W\d_][\w.-]{2,59}")
_file = re.compile(r"\.(?!(?:com|org|net|io|dev|app|local)$)[a-z]{1,5}$")
# What a label ends with, right before the value it names.
_labelled = re.compile(
    r"(?:[:=：→|>]|\b(?:is|are|was|ist|sind|es|est|called|named|heißt|llama|это)|是|为|は|هو|[—–])\s*[\"'`“”„«「(\[]*$"
    r"|[\"'`“„«「]$",
    re.IGNORECASE,
)
_OPENS_CODE = r"^\s*(?:def|class|import|from|return|if|for|const|let|var|fn|pub|func|export|#include|@)\b|^[+-]\s"
_opens_code = re.compile(_OPENS_CODE)
# A bracket right behind a word calls something; one in prose stands apart.
_code_line = re.compile(rf"\w\(|[;{{]\s*$|->|=>|==|::\w|{_OPENS_CODE}")
# An id may look like a name in code; a name in code has at most one short run of figures.
_comment = re.compile(r"\s*(?:\d+[:|-]\s*)?(?:#|//|/?\*|\"\"\"|<!--)")
_assigned = re.compile(r"[:=]\s*[\"'`]?$")
_code_name = re.compile(r"[A-Za-z_][A-Za-z_.]*\d{0,3}[A-Za-z_.]*")
# What follows a word that is itself a label.
_key = re.compile(r"[\"'`]?\s*[:=](?!=)")
_place_in_file = re.compile(r"[\w/]\.\w{1,6}:$|\bline $", re.IGNORECASE)
letters = re.compile(r"[^\W\d_]{2,}")
_digits = re.compile(r"\d+")
_JOINTS = frozenset(".:")
_STOP = frozenset(
    "auto true false null none yes not and the for with from this that all any new old name type text file files path "
    "line lines always never value data user users test tests error errors info warning debug main master head origin "
    "latest default json yaml html http https localhost python bash todo done pass passed failed open closed status "
    "state count total list item items".split()
)


def may_count(word: str) -> bool:
    """Whether a word of a call could be worth keeping at all, before anything is known about where it came from."""
    if not 3 <= len(word) <= 120 or word.casefold() in _STOP:
        return not word.isascii() and 2 <= len(word) <= 120
    if _telling.fullmatch(word) or _figure.fullmatch(word) or names_one_thing(word):
        return True
    if _file.search(word) and "/" not in word:
        return False
    return "/" in word or _plain.fullmatch(word) is not None or not word.isascii()


def names_one_thing(value: str) -> bool:
    """Whether a value looks like an id or a numeric address."""
    return _identifier.fullmatch(value) is not None


def tells(value: str) -> bool:
    """Whether a value names one thing wherever it stands."""
    return names_one_thing(value) or _telling.fullmatch(value) is not None or " " in value


def loosely_tells(value: str) -> bool:
    """Whether a plain value may count where nothing explains it: a longer word as people write names, or a long figure."""
    return len(value) > 4 and "_" not in value and not value[:1].isupper()


def line_of(value: str, text: str, *, given_as: Iterable[str]) -> str | None:
    """Return the line of an output that gives a value its meaning, cut around it; None where no line does."""
    for line, place in _occurrences(value, text):
        if _gives_meaning(value, line, place, given_as=given_as):
            return _around(line, place, value)
    return None


def line_beside(value: str, text: str, *, given_as: Iterable[str]) -> str | None:
    """Return the line in which the word a value was given as stands right before it; None where there is none."""
    names = {word for word in given_as if len(word) > 2}
    for line, place in _occurrences(value, text) if names else ():
        near = set(map(str.casefold, letters.findall(line[max(0, place - LABEL_REACH) : place])))
        if not near.isdisjoint(names) and not _code_line.search(line):
            return _around(line, place, value)
    return None


def line_that_names(value: str, text: str) -> str | None:
    """Return the line a value stands in where it is no code, no listing and no place in a file; None where there is none.

    Nothing need label it: for values that only one output ever showed.
    """
    for line, place in _occurrences(value, text):
        before, after = line[max(0, place - 40) : place], line[place + len(value) :][:4]
        looks = _key.match(after) or _place_in_file.search(before) or _code_line.search(line) or _comment.match(line)
        around = f"{line[:place]} {line[place + len(value) :]}"
        words = len(letters.findall(around))
        figures = len(_digits.findall(line[max(0, place - ROW_REACH) : place + len(value) + ROW_REACH]))
        least = WORDS_BESIDE_A_FILE if is_file(value) else 0 if len(text) <= SHORT_OUTPUT else 1
        if not looks and least <= words <= WORDS_OF_A_LINE and figures <= FIGURES_OF_A_ROW + 1:
            return _around(line, place, value)
    return None


def stands_in(value: str, text: str) -> bool:
    """Whether a text holds exactly this value, and not as a part of a longer word."""
    place = text.find(value)
    while place >= 0:
        if stands_alone(value, text, place):
            return True
        place = text.find(value, place + 1)
    return False


def is_figure(value: str) -> bool:
    """Whether a value is a number of some length, a version or a time."""
    return _figure.fullmatch(value) is not None


def is_file(value: str) -> bool:
    """Whether a value ends like the name of a file."""
    return _file.search(value) is not None


def _occurrences(value: str, text: str) -> Iterator[tuple[str, int]]:
    """Yield the lines a value stands in, each with its place there."""
    place = -1
    for _ in range(OCCURRENCES_READ):
        place = text.find(value, place + 1)
        if place < 0:
            return
        if stands_alone(value, text, place):
            line, start = line_around(text, place)
            yield line, place - start


def _around(line: str, place: int, value: str) -> str:
    """Return a line, or of a long one what stands around a value, the value whole."""
    if len(line) <= LONGEST_LINE:
        return one_line(line)
    beside = max(LEAST_AROUND, (LONGEST_LINE - len(value)) // 2)
    return one_line(line[max(0, place - beside) : place + len(value) + beside])


def stands_alone(value: str, text: str, place: int) -> bool:
    """Whether what stands at a place is not part of a longer word."""
    if not value.isascii():
        return True
    end = place + len(value)
    before, after = text[place - 1 : place] if place else "", text[end : end + 1]
    if before.isalnum() or before in {"-", "_", "/"} or after.isalnum() or after == "_":
        return False
    # A figure goes on behind a point or a colon: "03:42" is no part of "05:03:42.571".
    joined = before in _JOINTS and text[place - 2 : place - 1].isdigit() and place > 1 and value[0].isdigit()
    return not joined and not (after in _JOINTS and value[-1].isdigit() and text[end + 1 : end + 2].isdigit())


def _gives_meaning(value: str, line: str, place: int, *, given_as: Iterable[str]) -> bool:
    """Whether a line says what a value is: by a label before it, or by the word a later call gave it as."""
    before, after = line[max(0, place - 40) : place], line[place + len(value) :][:4]
    if tells(value):
        code = _opens_code if " " in value else _code_line if _code_name.fullmatch(value) else None
        return code is None or not code.search(line) or before.endswith(("'", '"'))
    if _key.match(after):
        return False
    if _place_in_file.search(before):
        return False
    is_code = _code_line.search(line) is not None
    if value[:1].isdigit() or _figure.fullmatch(value):
        near = set(map(str.casefold, letters.findall(line[max(0, place - LABEL_REACH) : place])))
        if _labelled.search(before) or not near.isdisjoint(given_as):
            return not is_code or _assigned.search(before) is not None
        rows = len(_digits.findall(line[max(0, place - ROW_REACH) : place + ROW_REACH])) > FIGURES_OF_A_ROW
        return not is_code and not rows and letters.search(before) is not None
    if is_code or ("/" in value and _file.search(value)):
        return False
    if "/" in value:
        return letters.search(before) is not None
    words = set(map(str.casefold, letters.findall(line)))
    return _labelled.search(before) is not None or any(len(word) > 2 and word in words for word in given_as)
