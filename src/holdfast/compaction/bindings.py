"""Values that came out of a tool and were used again: what a later step rests on, though no person ever said it.

Tool output is data and never becomes a rule. But a host name read from a log and then typed into a command is part of the work,
and comes back as the line it stood in, with pointers to where it was seen and where it was used.

What counts is decided by what happened to a value, not by what it looks like: it stood in an output before anyone else named it,
and a later call was given it. Looks only sort out what nobody would look up again: what every output shows, a common word that
no label names, a figure of a listing, a file of the workspace.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.compaction.arguments import is_text, leaves, phrases_of, words_of
from holdfast.compaction.todos import PLAN_TOOLS
from holdfast.compaction.working import Line, Observed, call_text, line_around, one_line
from holdfast.items import ItemKind
from holdfast.thread import Pointer
from holdfast.tokens import estimate_text

LONGEST_LINE = 140
BINDINGS_KEPT = 80
BINDINGS_TOKENS = 2_600
LOOSE_KEPT = 16
FROM_A_TOOL = "from the work, not from the user: "
GIVEN = "given to "
# What stood in more outputs than this before it was first used belongs to the surroundings.
SURROUNDING = 3
PHRASES_SOUGHT = 200
OCCURRENCES_READ = 6
# A line with more figures than this is a row of a listing.
FIGURES_OF_A_ROW = 4

_token = re.compile(r"[\w/@~+-][\w./:@~+-]{4,}[\w/@~+-]")
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
_GAPS = {code: " " for code in range(128) if not re.fullmatch(r"[\w./:@~+-]", chr(code))}
_GAPS |= dict.fromkeys(map(ord, "：，。、；「」『』（）《》【】→“”„«»،؛"), " ")
# What a label ends with, right before the value it names.
_labelled = re.compile(
    r"(?:[:=：→|>]|\b(?:is|are|was|ist|sind|es|est|called|named|heißt|llama|это)|是|为|は|هو|[—–])\s*[\"'`“”„«「(\[]*$"
    r"|[\"'`“„«「]$",
    re.IGNORECASE,
)
_code_line = re.compile(
    r"[();]|->|=>|==|^\s*(?:def|class|import|from|return|if|for|const|let|var|fn|pub|func|export|#include|@)\b|^[+-]\s"
)
_code_name = re.compile(r"[A-Za-z_]+[\w.]*")
# What follows a word that is itself a label.
_key = re.compile(r"[\"'`]?\s*[:=](?!=)")
_place_in_file = re.compile(r"[\w/]\.\w{1,6}:$|\bline $", re.IGNORECASE)
_letters = re.compile(r"[^\W\d_]{2,}")
_digits = re.compile(r"\d+")
_STOP = frozenset(
    "auto true false null none yes not and the for with from this that all any new old name type text file files path "
    "line lines always never value data user users test tests error errors info warning debug main master head origin "
    "latest default json yaml html http https localhost python bash todo done pass passed failed open closed status "
    "state count total list item items".split()
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    source: Pointer
    line: str


@dataclass(slots=True)
class _Named:
    """What calls gave values as: the words of an argument's name, or of the option before a word."""

    given: dict[str, set[str]] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)

    def add(self, value: str, given_as: str, *, by_name: bool) -> None:
        self.given.setdefault(value, set()).update(_letters.findall(given_as.casefold()))
        if by_name:
            self.options.add(value)

    def by_name(self, value: str) -> bool:
        """Whether a value that nothing explains may count: it was given by name, and is no path, switch or title."""
        return value in self.options and "/" not in value and (_tells(value) or _loosely_tells(value))


@dataclass(slots=True)
class _Wanted:
    """What calls and people named, by the word that finds it in an output; a phrase is found by its longest word."""

    values: set[str] = field(default_factory=set)
    phrases: dict[str, list[str]] = field(default_factory=dict)
    unspaced: list[str] = field(default_factory=list)

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            if _plain_ascii(name) and " " not in name:
                self.values.add(name)
            elif len(self.phrases) + len(self.unspaced) < PHRASES_SOUGHT:
                hint = max(_words(name), key=len, default="") if name.isascii() else ""
                if hint:
                    self.phrases.setdefault(hint, []).append(name)
                elif name not in self.unspaced:
                    self.unspaced.append(name)

    def found_in(self, text: str) -> set[str]:
        words = _words(text)
        found = self.values.intersection(words)
        for hint in self.phrases.keys() & set(words) if self.phrases else ():
            found.update(phrase for phrase in self.phrases[hint] if phrase in text)
        if self.unspaced and not text.isascii():
            found.update(name for name in self.unspaced if name in text)
        return found


def reused(items: Sequence[Observed], *, told: Iterable[str] = ()) -> tuple[Line, ...]:
    """Return the values a later call or a person used again, each with the line it stood in, oldest use first.

    What a call names that nothing in view explains, and that nobody said before (`told`), was learned from output that is out of
    view by now: an id, and the newest few of other values that were given by name, come with the call.
    Files of the workspace are not repeated here; the working state lists them.
    """
    named = _Named()
    used = {place: values for place, item in enumerate(items) if (values := _used(item, named))}
    wanted = _Wanted()
    for place in sorted(used, reverse=True):
        wanted.add(used[place])
    said = wanted.found_in("\n".join(told))
    seen: dict[str, _Sighting] = {}
    shown: Counter[str] = Counter()
    found: dict[str, Line] = {}
    for place, item in enumerate(items):
        names = wanted.found_in(item.view.text)
        if item.view.kind is ItemKind.OUTPUT:
            shown.update(names)
            for value in names - said - seen.keys():
                if (line := _line_of(value, item.view.text, given_as=named.given.get(value, ()))) is not None:
                    seen[value] = _Sighting(source=item.source, line=line)
            continue
        for value in used.get(place, ()):
            if value in said or value in found:
                continue
            if value in seen:
                if shown[value] <= SURROUNDING or _tells(value):
                    found[value] = Line(text=f"{value} — {seen[value].line}", source=seen[value].source)
            elif item.view.kind is ItemKind.CALL and not shown[value] and (_names_one_thing(value) or named.by_name(value)):
                call = f"{GIVEN}{item.view.tool}: {one_line(call_text(item.view))}"
                found[value] = Line(text=f"{value} — {call}", source=item.source)
        # What anyone named before an output showed it did not come out of that output.
        said |= names - seen.keys()
        said.update(value for value in used.get(place, ()) if value not in seen)
    whole = [line for value, line in found.items() if not _is_part(value, line, found)]
    return tuple(bounded(whole))


def bounded(lines: Sequence[Line]) -> list[Line]:
    """Return as many lines as may stay: the newest, those whose origin is known before those that are only given by name."""
    loose = [line for line in lines if is_loose(line.text)]
    spare = {line.text for line in loose[:-LOOSE_KEPT]}
    kept = [line for line in lines if line.text not in spare][-BINDINGS_KEPT:]
    tokens = sum(estimate_text(line.text) for line in kept)
    for line in (*(line for line in kept if is_loose(line.text)), *kept):
        if tokens <= BINDINGS_TOKENS:
            break
        if line in kept:
            kept.remove(line)
            tokens -= estimate_text(line.text)
    return kept


def is_loose(text: str) -> bool:
    """Whether a line tells a value whose origin nobody knows, and that is no id: the first to give way."""
    value, _, rest = text.rpartition(FROM_A_TOOL)[2].partition(" — ")
    return rest.startswith(GIVEN) and not _names_one_thing(value)


def _is_part(value: str, line: Line, found: Mapping[str, Line]) -> bool:
    """Whether a plain word only repeats part of a longer value that stood in the same place."""
    return not _tells(value) and any(
        value != longer and value in longer and other.source == line.source for longer, other in found.items()
    )


def _used(item: Observed, named: _Named) -> tuple[str, ...]:
    """Return the values a call or a person's message names, each once, and note what calls gave them as."""
    if item.view.kind is ItemKind.OUTPUT or not (item.view.kind is ItemKind.CALL or item.view.by_person):
        return ()
    if item.view.kind is not ItemKind.CALL:
        return tuple(dict.fromkeys(_ids(item.view.text)))
    names: list[str] = []
    for leaf in () if item.view.tool in PLAN_TOOLS else leaves(item.view.text):
        names.extend(() if is_text(leaf) else _ids(leaf.text))
        for word, given_as in words_of(leaf):
            if _may_count(word):
                names.append(word)
                named.add(word, given_as, by_name=word == leaf.text or given_as.startswith("--"))
        for phrase in phrases_of(leaf):
            names.append(phrase)
            named.add(phrase, leaf.name, by_name=False)
    return tuple(dict.fromkeys(names))


def _ids(text: str) -> Iterator[str]:
    return (value for value in _token.findall(text) if _names_one_thing(value) and not _file.search(value))


def _may_count(word: str) -> bool:
    """Whether a word of a call could be worth keeping at all, before anything is known about where it came from."""
    if not 3 <= len(word) <= 120 or word.casefold() in _STOP:
        return not word.isascii() and 2 <= len(word) <= 120
    if _telling.fullmatch(word) or _figure.fullmatch(word):
        return True
    if _file.search(word) and "/" not in word:
        return False
    return "/" in word or _plain.fullmatch(word) is not None or not word.isascii()


def _names_one_thing(value: str) -> bool:
    return _identifier.fullmatch(value) is not None


def _tells(value: str) -> bool:
    """Whether a value names one thing wherever it stands."""
    return _names_one_thing(value) or _telling.fullmatch(value) is not None or " " in value


def _loosely_tells(value: str) -> bool:
    """Whether a plain value may count where nothing explains it: a longer word as people write names, or a long figure."""
    return len(value) > 4 and "_" not in value and not value[:1].isupper()


def _plain_ascii(name: str) -> bool:
    return name.isascii() or not re.search(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", name)


def _words(text: str) -> list[str]:
    """Return what `_token` finds in an output, and shorter words beside it; what a colon joins also in its parts."""
    words = f"{text.translate(_GAPS)} ".replace(". ", " ").replace(": ", " ").replace(" :", " ").split()
    joined = [word for word in words if ":" in word]
    for word in joined:
        words.extend(word.split(":"))
    return words


def _line_of(value: str, text: str, *, given_as: Iterable[str]) -> str | None:
    """Return the line of an output that gives a value its meaning, cut around it; None where no line does."""
    place = -1
    for _ in range(OCCURRENCES_READ):
        place = text.find(value, place + 1)
        if place < 0:
            return None
        line, start = line_around(text, place)
        if _stands_alone(value, text, place) and _gives_meaning(value, line, place - start, given_as=given_as):
            around = line if len(line) <= LONGEST_LINE else line[max(0, place - start - LONGEST_LINE // 2) :][:LONGEST_LINE]
            return one_line(around)
    return None


def _stands_alone(value: str, text: str, place: int) -> bool:
    before, after = text[place - 1 : place], text[place + len(value) : place + len(value) + 1]
    return not value.isascii() or not (before.isalnum() or before in {"-", "_", "/"} or after.isalnum() or after == "_")


def _gives_meaning(value: str, line: str, place: int, *, given_as: Iterable[str]) -> bool:
    """Whether a line says what a value is: by a label before it, or by the word a later call gave it as."""
    before, after = line[max(0, place - 40) : place], line[place + len(value) :][:4]
    if _tells(value):
        return not (_code_name.fullmatch(value) and _code_line.search(line)) or before.endswith(("'", '"'))
    if _key.match(after):
        return False
    if _place_in_file.search(before):
        return False
    is_code = _code_line.search(line) is not None
    if _figure.fullmatch(value):
        rows = len(_digits.findall(line[max(0, place - 200) : place + 200])) > FIGURES_OF_A_ROW
        return not is_code and not rows and _letters.search(line) is not None
    if is_code or ("/" in value and _file.search(value)):
        return False
    if "/" in value:
        return _letters.search(before) is not None
    words = set(map(str.casefold, _letters.findall(line)))
    return _labelled.search(before) is not None or any(len(word) > 2 and word in words for word in given_as)
