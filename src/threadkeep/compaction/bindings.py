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

from threadkeep.compaction.arguments import is_text, leaves, phrases_of, words_of
from threadkeep.compaction.findings import is_file, letters, line_of, loosely_tells, may_count, names_one_thing, tells
from threadkeep.compaction.origins import given
from threadkeep.compaction.runs import sentences
from threadkeep.compaction.todos import PLAN_TOOLS
from threadkeep.compaction.working import Line, Observed, call_text, one_line
from threadkeep.items import ItemKind
from threadkeep.thread import Pointer
from threadkeep.tokens import estimate_text

BINDINGS_KEPT = 500
BINDINGS_TOKENS = 4_000
# Of these, so many are told with the whole line a value stood in.
WHOLE_TOKENS = 800
POINTER_TOKENS = 3
LABEL_CHARS = 28
LABEL_WORDS = 3
LOOSE_KEPT = 16
# Who reads it must never take it for the user's words.
FROM_A_TOOL = "from the work: "
STOOD_IN = " — "
GIVEN = "given to "
AGAIN = f"; {GIVEN}"
AGAIN_BRIEFLY = "; again"
UNNAMED = "seen there"
_LABEL_EDGES = " \t:=—–-|\"'`([{,;"
# What stood in more outputs than this before it was first used belongs to the surroundings.
SURROUNDING = 3
PHRASES_SOUGHT = 200

# Where values came from, each with the line that shows it.
Origins = Mapping[str, Line]

_again = re.compile(rf"(?:{AGAIN}[^;]*|{AGAIN_BRIEFLY})$")
_token = re.compile(r"[\w/@~+-][\w./:@~+-]{4,}[\w/@~+-]")
# Every plain sign has its line: one that had none would be looked for in vain in each text anew, at many times the cost.
_GAPS = {ord(char): char if re.fullmatch(r"[\w./:@~+-]", char) else " " for char in map(chr, range(128))}
_GAPS |= dict.fromkeys(map(ord, "：，。、；「」『』（）《》【】→“”„«»،؛"), " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sighting:
    source: Pointer
    line: str


@dataclass(slots=True)
class _Named:
    """What calls gave values as: the words of an argument's name, or of the option before a word."""

    given: dict[str, set[str]] = field(default_factory=dict)
    options: set[str] = field(default_factory=set)
    typed: set[str] = field(default_factory=set)

    def add(self, value: str, given_as: str, *, by_name: bool) -> None:
        self.given.setdefault(value, set()).update(letters.findall(given_as.casefold()))
        if by_name:
            self.options.add(value)

    def by_name(self, value: str) -> bool:
        """Whether a value that nothing explains may count: an id, or given by name and no path, switch or title."""
        if names_one_thing(value):
            return value in self.typed
        return value in self.options and "/" not in value and (tells(value) or loosely_tells(value))


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
        for hint in self.phrases.keys() & words:
            found.update(phrase for phrase in self.phrases[hint] if phrase in text)
        if self.unspaced and not text.isascii():
            found.update(name for name in self.unspaced if name in text)
        return found


def reused(
    items: Sequence[Observed], *, told: Iterable[str] = (), since: int = -1, origins: Origins | None = None
) -> tuple[Line, ...]:
    """Return the values a later call or a person used again, each with the line it stood in, oldest use first.

    `origins` tells where values came from whose output is out of view by now; a call after `since` that was given one of them
    has it kept, with the line it stood in and the tool it was given to. What a call names that nothing explains, and that
    nobody said before (`told`), comes with the call: an id, and the newest few of other values that were given by name.
    Files of the workspace are not repeated here; the working state lists them.
    """
    again = _used_again(items, since=since, origins=origins or {})
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
                if (line := line_of(value, item.view.text, given_as=named.given.get(value, ()))) is not None:
                    seen[value] = _Sighting(source=item.source, line=line)
            continue
        for value in used.get(place, ()):
            if value in said or value in found or value in again:
                continue
            if value in seen:
                if shown[value] <= SURROUNDING or tells(value):
                    found[value] = Line(text=f"{value}{STOOD_IN}{seen[value].line}", source=seen[value].source)
            elif item.view.kind is ItemKind.CALL and not shown[value] and named.by_name(value):
                call = f"{GIVEN}{item.view.tool}: {one_line(call_text(item.view))}"
                found[value] = Line(text=f"{value}{STOOD_IN}{call}", source=item.source)
        # What anyone named before an output showed it did not come out of that output.
        said |= names - seen.keys()
        said.update(value for value in used.get(place, ()) if value not in seen)
    found |= again
    whole = [line for value, line in found.items() if not _is_part(value, line, found)]
    return tuple(bounded(whole))


def _used_again(items: Sequence[Observed], *, since: int, origins: Origins) -> dict[str, Line]:
    """Return the values that new calls were given and whose origin is known, the last use last; one line tells all it shows."""
    again: dict[str, Line] = {}
    for item in items if origins else ():
        if item.view.kind is not ItemKind.CALL or item.source.ordinal <= since:
            continue
        # Taking a call apart costs more than looking whether it can hold any of them; what is escaped cannot be seen at a glance.
        if "\\" not in item.view.text and not any(value in item.view.text for value in origins):
            continue
        told = list(sentences(item))
        rows = (value for value in origins if " " in value and any(value in text for text in told))
        for value in (*(value for value, _ in given(item)), *rows):
            origin = origins.get(value)
            if origin is not None and origin.source.ordinal < item.source.ordinal:
                again.pop(value, None)
                again[value] = Line(text=f"{value}{STOOD_IN}{origin.text}{AGAIN}{item.view.tool}", source=origin.source)
    return again


def bounded(lines: Sequence[Line]) -> list[Line]:
    """Return as many lines as may stay: what was used long after it was seen before the rest, of each the newest.

    The best are told as they are, the next in a few words, as the pointer beside them leads to the rest. Those whose origin
    nobody knows go first.
    """
    spare = {line.text for line in [line for line in lines if is_loose(line.text)][:-LOOSE_KEPT]}
    kept: dict[int, Line] = {}
    whole = tokens = 0
    for place in sorted(range(len(lines)), key=lambda place: (_standing(lines[place].text), place), reverse=True):
        line = lines[place]
        if line.text in spare or len(kept) == BINDINGS_KEPT:
            continue
        if whole + _cost(line) > WHOLE_TOKENS:
            line = _in_few_words(line)
        cost = _cost(line)
        if tokens + cost > BINDINGS_TOKENS or (line is not lines[place] and origin_in(line.text) is None):
            continue
        whole += cost if line is lines[place] else 0
        tokens += cost
        kept[place] = line
    return [kept[place] for place in sorted(kept)]


def _cost(line: Line) -> int:
    """Return what a line takes in the state, where one label stands before all of them and a pointer behind each."""
    return estimate_text(line.text.removeprefix(FROM_A_TOOL)) + POINTER_TOKENS


def _in_few_words(line: Line) -> Line:
    """Return a line with no more than the words right before its value."""
    value, quoted = value_of(line.text), origin_in(line.text)
    if quoted is None:
        return line
    before = quoted.partition(value)[0][-LABEL_CHARS:].split()[-LABEL_WORDS:]
    label = " ".join(before).strip(_LABEL_EDGES) or quoted.partition(value)[2].strip(_LABEL_EDGES)[:LABEL_CHARS]
    again = AGAIN_BRIEFLY if _again.search(line.text) else ""
    prefix = FROM_A_TOOL if line.text.startswith(FROM_A_TOOL) else ""
    return Line(text=f"{prefix}{value}{STOOD_IN}{label or UNNAMED}{again}", source=line.source)


def value_of(text: str) -> str:
    """Return the value a line is about."""
    return text.removeprefix(FROM_A_TOOL).partition(STOOD_IN)[0]


def origin_in(text: str) -> str | None:
    """Return the line of an output that a line about a value quotes; None where its origin is not known."""
    quoted = text.partition(STOOD_IN)[2]
    return None if not quoted or quoted.startswith(GIVEN) else _again.sub("", quoted)


def is_loose(text: str) -> bool:
    """Whether a line tells a value whose origin nobody knows, and that is no id: the first to give way."""
    return origin_in(text) is None and not names_one_thing(value_of(text))


def _standing(text: str) -> int:
    """Return how long a line may stay beside others: what crossed a compaction and was used after it stays longest."""
    if origin_in(text) is None:
        return 0 if is_loose(text) else 1
    return 3 if _again.search(text) else 2


def _is_part(value: str, line: Line, found: Mapping[str, Line]) -> bool:
    """Whether a plain word only repeats part of a longer value that stood in the same place."""
    return any(
        value != longer and value in longer and other.source == line.source and (not tells(value) or AGAIN in line.text)
        for longer, other in found.items()
    )


def _used(item: Observed, named: _Named) -> tuple[str, ...]:
    """Return the values a call or a person's message names, each once, and note what calls gave them as."""
    if item.view.kind is ItemKind.OUTPUT or not (item.view.kind is ItemKind.CALL or item.view.by_person):
        return ()
    if item.view.kind is not ItemKind.CALL:
        return tuple(dict.fromkeys(_ids(item.view.text)))
    names: list[str] = []
    for leaf in () if item.view.tool in PLAN_TOOLS else leaves(item.view.text):
        ids = () if is_text(leaf) else tuple(_ids(leaf.text))
        names.extend(ids)
        # What a program or a patch holds names nothing by itself: it counts where an output showed it.
        named.typed.update(ids if "\n" not in leaf.text else _ids(leaf.text.partition("\n")[0]))
        for word, given_as in words_of(leaf):
            if may_count(word):
                names.append(word)
                named.add(word, given_as, by_name=word == leaf.text or given_as.startswith("--"))
        for phrase in phrases_of(leaf):
            names.append(phrase)
            named.add(phrase, leaf.name, by_name=False)
    return tuple(dict.fromkeys(names))


def _ids(text: str) -> Iterator[str]:
    return (value for value in _token.findall(text) if names_one_thing(value) and not is_file(value))


def _plain_ascii(name: str) -> bool:
    return name.isascii() or not re.search(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]", name)


def _words(text: str) -> list[str]:
    """Return what `_token` finds in an output, and shorter words beside it; what a colon joins also in its parts."""
    spaced = f"{text.translate(_GAPS)} ".replace(". ", " ").replace(": ", " ").replace(" :", " ")
    words = spaced.split()
    if ":" in spaced:
        words.extend([part for word in words if ":" in word for part in word.split(":")])
    return words
