"""Who really wrote a text in the user's role.

Hosts speak in that role too: they describe their world, report events, replay summaries of their own, and put such text before,
between or behind what the person typed. Only a whole fragment is the host's: an element that begins a line and whose end ends
one, or a passage that begins the text. A sentence *about* a fragment is the person's, to the last space.

Sections. What a host says about its world is pinned under the list of sections it holds, so that a message gives way only to one
that tells all of it anew. Whether a reminder that nobody listed is pinned too, under its first words, differs by dialect.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from threadkeep.dialects.host_markers import (
    AFTER_QUOTE,
    ALONE,
    ARGUMENTS,
    ATTRIBUTES,
    ELEMENTS,
    NAMED_ELEMENTS,
    PASSAGES,
    PASSING_REMINDERS,
    QUOTES,
    REMINDER,
    SHELL_ECHO,
    STATE,
    WORLD,
    WORLD_CHARS,
    Passage,
)
from threadkeep.dialects.values import SEPARATOR, STATE_OPENING

_opening = re.compile(
    "|".join(rf"({'(?i:' if passage.any_case else '(?:'}{re.escape(passage.opening)}))" for passage in PASSAGES)
)
_names = "|".join((*ELEMENTS, *NAMED_ELEMENTS))
_element = rf"(?:<(?i:({_names}))(?:\s[^<>]*)?>|{re.escape(STATE_OPENING)})"
# Blank space, and what stands between messages that were sent as one.
_blank = r"\s*(?:(?<=\n\n)---(?=\n\n)\s*)*"
_next_element = re.compile(rf"{_blank}{_element}")
_element_on_line = re.compile(rf"^[ \t]*{_element}", re.MULTILINE)
# Words on the line of a closing are a sentence about a fragment, not the end of one.
_ends_there = re.compile(rf"[ \t]*(?:[\r\n]|\Z|{_element})")
_closing = re.compile(rf"</((?i:{_names}|{STATE}))>")
_attributes = {name: re.compile(rf"\s*<(?i:{name}){pattern}>") for name, pattern in ATTRIBUTES.items()}
_fence = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
_gap = re.compile(_blank)
_separator_first = re.compile(rf"\A\s*{SEPARATOR}")
_separator_last = re.compile(rf"{SEPARATOR}\s*\Z")
_title = re.compile(r"[#\s]*([^\W\d_][^\n\d:./<]{0,60})")
_shell_echo = re.compile(SHELL_ECHO, re.DOTALL)
_any_element = re.compile(r"\s*<([^<>/\n]{1,80})>")


@dataclass(frozen=True, slots=True, kw_only=True)
class UserText:
    """The person's words in a message, and the name under which what its host says of its world is pinned."""

    said: str
    section: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fragment:
    """What a host wrote from `start` to `stop`; `passed_on` is what it hands over of a person's words."""

    start: int
    stop: int
    section: str | None = None
    passed_on: str = ""


def split_host_text(texts: Sequence[str], *, titled_reminders: bool) -> UserText:
    """Return who says what in the parts of a message in the user's role.

    `titled_reminders` pins a reminder about an unknown part of the host's world under its first words.
    """
    words: list[str] = []
    sections: set[str] = set()
    for text in texts:
        if _shell_echo.fullmatch(text.strip()):
            continue
        fragments = list(_fragments(text, titled_reminders=titled_reminders))
        spoken = _beside(text, fragments) if fragments else text
        sections.update(fragment.section for fragment in fragments if fragment.section)
        words.extend([spoken] if spoken.strip() and spoken.strip() not in ALONE else [])
    return UserText(said="\n".join(words), section=_pinned(sections))


def name_instructions(texts: Sequence[str], *, known: Iterable[tuple[str, str]] = ()) -> str:
    """Return a name for instructions: what they tell, the elements their parts are wrapped in, or else their own words.

    A named one replaces its older version; others are only ever equal to themselves. `known` says which literals tell what.
    """
    told = {section for literal, section in known if any(literal in text for text in texts)}
    wrappers = [wrapper for text in texts if (wrapper := _wrapper(text))]
    if told:
        return "system:" + "+".join(sorted(told))
    if wrappers and len(wrappers) == len(texts):
        return "system:" + "+".join(wrappers)
    return "system:" + blake2b("\0".join(texts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def find_passed_on(text: str) -> str:
    """Return what a person typed while the model worked, if that is what the host passes on in `text`."""
    start = text.lstrip()
    line = next((line for line in QUOTES if start.startswith(line)), None)
    if line is None:
        return ""
    words = start.removeprefix(line)
    # The host's own words come last; a person who quotes them keeps everything up to there.
    ends = [end for after in AFTER_QUOTE if (end := words.rfind(after)) >= 0]
    return words[: min(ends, default=len(words))].strip()


def _fragments(text: str, *, titled_reminders: bool) -> Iterator[_Fragment]:
    """Yield the host's fragments from left to right; passages only where nothing but fragments stands before them.

    What a person put between fences is a quote and no fragment.
    """
    closings: dict[str, list[int]] | None = None
    position = stop = counted = 0
    leading, fenced = True, False
    while True:
        passage = _passage(text, position) if leading else None
        if passage is not None:
            yield passage
            position = stop = passage.stop
            continue
        opening = _next_element.match(text, position) if position == stop else None
        opening = opening or _element_on_line.search(text, position)
        if opening is None:
            return
        leading = leading and _gap.fullmatch(text, stop, opening.start()) is not None
        fenced ^= len(_fence.findall(text, counted, opening.start())) % 2 == 1
        name, position = (opening[1] or STATE).lower(), opening.end()
        counted = opening.start()
        required = _attributes.get(name)
        if fenced or (required is not None and not required.match(text, opening.start())):
            leading = False
            continue
        # All closings are looked for at once: a text of openings must not cost its square.
        closings = _closings(text, position) if closings is None else closings
        places = closings.get(name, ())
        place = bisect_left(places, position)
        inner_stop = places[place] if place < len(places) else -1
        end = inner_stop + len(name) + len("</>")
        if inner_stop < 0 or not _ends_there.match(text, end):
            leading = False
            continue
        counted = end
        yield _element_fragment(
            name, text[position:inner_stop], start=opening.start(), stop=end, titled_reminders=titled_reminders
        )
        position = stop = end


def _closings(text: str, position: int) -> dict[str, list[int]]:
    """Return where each element is closed from `position` on, by its name in small letters."""
    places: dict[str, list[int]] = {}
    for found in _closing.finditer(text, position):
        places.setdefault(found[1].lower(), []).append(found.start())
    return places


def _passage(text: str, position: int) -> _Fragment | None:
    """Return the passage that begins at `position`, blank space left out."""
    gap = _gap.match(text, position)
    start = gap.end() if gap else position
    opening = _opening.match(text, start)
    if opening is None or opening.lastindex is None:
        return None
    passage = PASSAGES[opening.lastindex - 1]
    stop = _passage_stop(passage, text, start)
    return None if stop is None else _Fragment(start=start, stop=stop, section=passage.section)


def _passage_stop(passage: Passage, text: str, start: int) -> int | None:
    closed = _find_end(passage.closing, text, start) if passage.closing else -1
    if closed < 0 and passage.any_case:
        closed = text.find(passage.closing.lower(), start)
    if passage.whole:
        end = closed + len(passage.closing)
        return end if closed >= 0 and _ends_there.match(text, end) else None
    line_end = text.find("\n", closed) if closed >= 0 else -1
    return line_end if line_end >= 0 else len(text)


def _find_end(closing: str, text: str, start: int) -> int:
    """Return where a passage is closed: the end of an element may close another of its name within it."""
    depth = 0
    names = re.compile(f"<(/?){re.escape(closing.removeprefix('</'))}")
    for found in names.finditer(text, start):
        depth += -1 if found[1] else 1
        if depth == 0:
            return found.start()
    return text.find(closing, start)


def _element_fragment(name: str, inner: str, *, start: int, stop: int, titled_reminders: bool) -> _Fragment:
    section, passed_on = ELEMENTS.get(name), ""
    if name == ARGUMENTS:
        passed_on = inner
    elif name == REMINDER:
        passed_on = find_passed_on(inner)
        section = None if passed_on else _reminder_section(inner, titled=titled_reminders)
    return _Fragment(start=start, stop=stop, section=section, passed_on=passed_on)


def _reminder_section(inner: str, *, titled: bool) -> str | None:
    beginning = inner[:WORLD_CHARS]
    told = next((section for literal, section in WORLD.items() if literal in beginning), None)
    if told or not titled or inner.lstrip().startswith((*PASSING_REMINDERS, *QUOTES)):
        return told
    title = _title.match(inner)
    return f"reminder:{title[1].strip()}" if title else "reminder"


def _beside(text: str, fragments: list[_Fragment]) -> str:
    """Return a text without what a host wrote in it, what it passes on in its place."""
    words: list[str] = []
    position = 0
    for fragment in fragments:
        words.extend((_between(text, position, fragment.start), fragment.passed_on))
        position = fragment.stop
    words.append(_between(text, position, len(text)))
    return "\n".join(stripped for part in words if (stripped := part.strip()))


def _between(text: str, start: int, stop: int) -> str:
    """Return what stands between two fragments, without the separators that set it apart from them."""
    words = text[start:stop]
    if start > 0:
        words = _separator_first.sub("", words)
    return _separator_last.sub("", words) if stop < len(text) else words


def _wrapper(text: str) -> str | None:
    """Return the name of the element that a text is, whole."""
    found = _any_element.match(text)
    return found[1].strip() if found and text.rstrip().endswith(f"</{found[1]}>") else None


def _pinned(sections: set[str]) -> str | None:
    """Return one name for all sections. A summary a host wrote stands for everything before it and beside it."""
    if "client_summary" in sections:
        return "client_summary"
    return "+".join(sorted(sections)) or None
