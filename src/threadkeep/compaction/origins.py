"""Where a value came from that a call was given, when the output that showed it has left the window.

A compaction sees the calls since the last one, and no longer what they rest on: the figure in an argument stood in an output that
an earlier checkpoint replaced. So it says which values it cannot explain (`sought`), whoever has the records looks for them, and
what was found is judged here on the exact text (`origin_of`): the search is somebody else's, the decision is not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from threadkeep.compaction.arguments import is_command, is_text, leaves, phrases_of, words_of
from threadkeep.compaction.findings import (
    is_figure,
    is_file,
    letters,
    line_beside,
    line_of,
    line_that_names,
    may_count,
    stands_in,
    tells,
)
from threadkeep.compaction.runs import longest_run, rare_words, sentences
from threadkeep.compaction.todos import PLAN_TOOLS
from threadkeep.compaction.working import Line, Observed
from threadkeep.items import ItemKind

# So many values are looked for in one compaction, those that are most likely to name one thing first.
MOST_SOUGHT = 48
MOST_SENTENCES = 10
OFTEN = 4
# A value that more earlier outputs than this show belongs to the surroundings.
SURROUNDING = 3
# So does an id that this many show.
EVERYWHERE = 6
# A plain word that nothing labels was told by a single output, or it is no finding.
RARE = 1
PART_CHARS = 4
SHORTEST_NUMBERED = 3
SHORT_FIGURE = 4
PARTS_READ = 24
LONGEST_PART = 60
TEXT_READ = 4_000
NAMED_IN_A_TEXT = 24

_part = re.compile(r"[^\s/:=?&,;@#\"'`()\[\]{}<>|$\\!*]+")
_quotes = re.compile(r"'([^'\s]{3,60})'|\"([^\"\s]{3,60})\"|`([^`\s]{3,60})`")
_word = re.compile(r"[A-Za-z0-9]+")
_long_figure = re.compile(r"(?<![\w./-])\d{3,9}(?:\.\d+)?(?![\w/-])")
_figured = re.compile(r"\d")
# Words in a row that are written like names, no sentence's first.
_name = re.compile(r"(?<=[a-z,;:] )[^\W\d_a-z][\w-]+(?: (?:[^\W\d_a-z][\w-]*|\d+))+")
# What a text sets: a name, and what it is from there on.
_pair = re.compile(r"\w[\"']?\s?[:=]\s?[\"']?([^\s\"',;(){}\[\]<>]{3,60})")
# A figure between letters, as in -Xmx1750m.
_inside = re.compile(r"(?<=[A-Za-z=])\d{3,6}(?=[A-Za-z%]{0,2}(?:\s|$))")
_cut_at = re.compile(r"[/:=?&,;@#\"'`()\[\]{}<>|$\\!*]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A value of a call whose origin is not in view.

    Attributes:
        given_as: The words of what it was given as.
        query: A word to search for it by.
        rare: Where the value is a sentence, any part of which may be what came from an output: its words that are not in view.
    """

    value: str
    query: str
    given_as: frozenset[str] = frozenset()
    rare: frozenset[str] = frozenset()

    @property
    def is_short_figure(self) -> bool:
        """Whether it is a figure that many records hold by chance."""
        return len(self.value) <= SHORT_FIGURE and _figured.search(self.value) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The line of an earlier output that shows a value."""

    value: str
    line: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """What was found out about the calls of a span.

    Attributes:
        since: The ordinal after which calls are new: an earlier compaction has weighed the others.
        origins: Where values came from that they were given.
    """

    since: int = -1
    origins: tuple[Origin, ...] = ()


NOTHING_TRACED = Traced()


def sought(items: Sequence[Observed], *, since: int, told: Iterable[str]) -> tuple[Sought, ...]:
    """Return the values that calls after `since` were given and nothing in view explains, the likeliest first.

    What is `told` already, by users or by what is known of the work, and what an output in view showed before is not sought.
    """
    wanted: dict[str, frozenset[str]] = {}
    phrased: dict[str, frozenset[str]] = {}
    uses: Counter[str] = Counter()
    seen, calls = ["\n".join(told)], 0
    for item in items:
        if item.view.kind is ItemKind.OUTPUT or item.view.by_person:
            seen.append(item.view.text)
        elif item.view.kind is ItemKind.CALL and item.source.ordinal > since:
            calls += 1
            fresh: dict[str, frozenset[str]] = {}
            for value, given_as in given(item):
                fresh[value] = fresh.get(value, frozenset()) | frozenset(letters.findall(given_as.casefold()))
            uses.update(fresh.keys())
            shown = "\n".join(seen)
            seen = [shown]
            for value, names in fresh.items():
                if value in wanted or not stands_in(value, shown):
                    wanted[value] = wanted.get(value, frozenset()) | names
            phrased.update({text: rare for text in sentences(item) if (rare := rare_words(text, within=shown))})
    # What nearly every call is given is the place they all work in.
    often = max(OFTEN, calls // 3)
    unexplained = sorted((value for value in wanted if uses[value] <= often), key=_rank)
    within = "\n".join(item.view.text for item in items)
    words = [
        Sought(value=value, given_as=wanted[value], query=_query(value, names=wanted[value], within=within))
        for value in unexplained[:MOST_SOUGHT]
    ]
    rows = [Sought(value=text, rare=rare, query=max(rare, key=len)) for text, rare in list(phrased.items())[-MOST_SENTENCES:]]
    return (*words, *rows)


def given(item: Observed) -> Iterator[tuple[str, str]]:
    """Yield what a call was given that may have come out of an output, and as what: whole arguments, words, and their parts."""
    for leaf in () if item.view.tool in PLAN_TOOLS else leaves(item.view.text):
        if is_text(leaf) or "\n" in leaf.text:
            yield from ((value, leaf.name) for value in _named_in(leaf.text))
            continue
        yield from ((phrase, leaf.name) for phrase in phrases_of(leaf))
        yield from ((value, leaf.name) for value in _quoted(leaf.text))
        for word, given_as in words_of(leaf):
            if may_count(word) or _is_numbered(word) or (given_as and _is_bare(word)):
                yield word, given_as
            yield from ((part, given_as) for part in _parts(word))
        if is_command(leaf):
            yield from ((figure, "") for figure in _inside.findall(leaf.text))
        else:
            yield from ((part, leaf.name) for part in _named_in(leaf.text) if part != leaf.text)


def _is_bare(word: str) -> bool:
    """Whether a word is a number of two figures: it may count by the name it is given as, and by nothing else."""
    return len(word) < SHORTEST_NUMBERED and word.isdecimal() and len(word) > 1


def _is_numbered(word: str) -> bool:
    """Whether a short word with a figure in it may name something: a sum, a share, a seat."""
    return SHORTEST_NUMBERED <= len(word) <= LONGEST_PART and _figured.search(word) is not None and not is_file(word)


def _quoted(text: str) -> Iterator[str]:
    """Yield what a text quotes in one word; what it quotes in several is a phrase."""
    for found in _quotes.finditer(text):
        value = found[1] or found[2] or found[3] or ""
        if may_count(value) or _is_numbered(value):
            yield value


def _parts(word: str) -> Iterator[str]:
    """Yield the parts of a longer word: the host and the id of an address, the key of a pair, the folder of a path."""
    for part in _part.findall(word)[:PARTS_READ] if _cut_at.search(word) and not is_file(word) else ():
        bare = part.strip(".-")
        if bare != word and PART_CHARS <= len(bare) <= LONGEST_PART and (may_count(bare) or _is_numbered(bare)):
            yield bare


def _named_in(text: str) -> Iterator[str]:
    """Yield the first few ids, addresses and names of a longer text: what a program, a message or a file is about."""
    read = text[:TEXT_READ]
    found = (part.strip(".-") for part in _part.findall(read))
    ids = (part for part in found if PART_CHARS <= len(part) <= LONGEST_PART and tells(part) and not is_file(part))
    pairs = (match[1] for match in _pair.finditer(read))
    labelled = (value for value in pairs if (may_count(value) or _is_numbered(value)) and not is_file(value))
    quoted, figures = _quoted(read), _long_figure.findall(read)
    yield from list(dict.fromkeys((*ids, *_name.findall(read), *labelled, *quoted, *figures)))[:NAMED_IN_A_TEXT]


def _rank(value: str) -> tuple[int, int]:
    """Return a value's place in line: what names one thing, what is longer, figures, plain words."""
    if tells(value):
        return 0, -len(value)
    return (1 if is_figure(value) else 2), -len(value)


def _query(value: str, *, names: frozenset[str], within: str) -> str:
    """Return the word of a value by which records are searched: the one that is rarest within what is in view.

    Searched by all its words, a long output that holds the value would stand behind short ones that hold one common word of it.
    """
    words = [word for word in _word.findall(value) if len(word) >= SHORTEST_NUMBERED] if value.isascii() else []
    if _is_bare(value):
        return " ".join((value, *sorted(names)))
    return min(words, key=lambda word: (within.count(word), -len(word)), default=value)


def origin_of(each: Sought, earlier: Sequence[Observed]) -> Origin | None:
    """Return where a value came from, by the earlier records that hold it; None where no output can be told to have given it.

    `earlier` may hold records that only look alike: what counts is the exact value. What a person or a call named before any
    output showed it did not come from a tool.
    """
    if each.rare:
        return _of_a_sentence(each, earlier)
    holding = sorted((item for item in earlier if stands_in(each.value, item.view.text)), key=lambda item: item.source.ordinal)
    outputs = [item for item in holding if item.view.kind is ItemKind.OUTPUT]
    beside = [
        Origin(value=each.value, line=Line(text=line, source=item.source))
        for item in outputs
        if (line := line_beside(each.value, item.view.text, given_as=each.given_as)) is not None
    ]
    if 0 < len(beside) <= SURROUNDING and (_figured.search(each.value) or holding[0] is outputs[0]):
        return beside[0]
    if _is_bare(each.value):
        return None
    # An id is nobody's idea, whoever wrote it first: a search that finds a few records need not find the very first.
    one_thing = tells(each.value) and " " not in each.value
    if not outputs or (holding[0] is not outputs[0] and not one_thing):
        return None
    if len(outputs) > (EVERYWHERE if one_thing else SURROUNDING):
        return None
    for item in outputs:
        if (line := line_of(each.value, item.view.text, given_as=each.given_as)) is not None:
            return Origin(value=each.value, line=Line(text=line, source=item.source))
    rare = RARE if each.value.isascii() and each.value.isalpha() else SURROUNDING
    for item in outputs if len(outputs) <= rare else ():
        if (line := line_that_names(each.value, item.view.text)) is not None:
            return Origin(value=each.value, line=Line(text=line, source=item.source))
    return None


def _of_a_sentence(each: Sought, earlier: Sequence[Observed]) -> Origin | None:
    """Return the longest row of a sentence's words that an output shows, where few do and nobody named it before."""
    outputs = [item for item in earlier if item.view.kind is ItemKind.OUTPUT]
    runs = [longest_run(each.value, item.view.text, rare=each.rare) for item in outputs]
    run = max((run for run in runs if run), key=len, default=None)
    if run is None:
        return None
    holding = sorted((item for item in earlier if run in item.view.text), key=lambda item: item.source.ordinal)
    shown = [item for item in holding if item.view.kind is ItemKind.OUTPUT]
    if holding[0] is not shown[0] or len(shown) > SURROUNDING:
        return None
    line = line_that_names(run, shown[0].view.text)
    return Origin(value=run, line=Line(text=line, source=shown[0].source)) if line else None


def by_value(origins: Iterable[Origin]) -> dict[str, Line]:
    """Return origins by what they are the origin of."""
    return {origin.value: origin.line for origin in origins}
