"""The lines of a reply put together as entries: bullets, nested bullets, wrapped lines, under the heading they stand below."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from threadkeep.compaction.ledger import Section
from threadkeep.compaction.reply.entry import RAW_CHARS, names_an_entry
from threadkeep.compaction.reply.headings import Heading, Style, heading_in
from threadkeep.compaction.reply.words import Verb

# A ledger of a long thread may be copied whole; a reply that loops ends here.
ENTRIES_READ = 4_000
# A line at least this long that does not end a sentence was probably broken by a margin.
WRAPPED_CHARS = 50

_bullet = re.compile(r"([ \t>]*)(?:[-*+‣◦▪–—·](?=[ \t])|[•●○]|-(?=[\[\u3040-\u9fff])|(?:\d{1,3}|[a-zA-Z])[.)](?=[ \t]))[ \t]*")
_indent = re.compile(r"[ \t>]*")
_furniture = re.compile(r"(?:`{3,}|~{3,})[\w+-]{0,20}|[-*_=]{3,}|[|:\- \t]{3,}")
_closed = re.compile(r"[.!?;…。！？；][\"'”’)\]）」]*$")
_wide = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uff00-\uffef\u3000-\u303f]")


@dataclass(frozen=True, slots=True, kw_only=True)
class RawEntry:
    """The text of one bullet, not taken apart yet, with where it stands and the verb above it."""

    section: Section
    verb: Verb | None
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """A body read line by line. `headings` are those of sections, in order."""

    entries: tuple[RawEntry, ...]
    headings: tuple[Section, ...]


def read_lines(body: str, *, before_headings: Section | None) -> Sheet:
    """Return the entries of a body; text before its first heading goes to `before_headings`, or nowhere."""
    lines = body.split("\n")
    found = [heading_in(line) if line else None for line in lines]
    style = _prevailing([heading for heading in found if heading])
    walk = _Walk(before_headings)
    for line, heading in zip(lines, found, strict=True):
        counts = heading is not None and (heading.style is style or heading.section is None)
        walk.take(line, heading if counts else None)
        if len(walk.entries) >= ENTRIES_READ:
            break
    walk.close()
    return Sheet(entries=tuple(walk.entries), headings=tuple(walk.headings))


def _prevailing(headings: Sequence[Heading]) -> Style:
    """Return the style in which most of the sections are headed; the plainer one where two are equal."""
    named = {style: {heading.section for heading in headings if heading.style is style} - {None} for style in Style}
    return max(Style, key=lambda style: (len(named[style]), -style))


class _Walk:
    """Entries gathered so far, and the one that still grows."""

    def __init__(self, section: Section | None) -> None:
        self.entries: list[RawEntry] = []
        self.headings: list[Section] = []
        self._section = section
        self._verb: Verb | None = None
        self._level = 0
        self._open: str | None = None
        self._indent = 0
        self._bulleted = False
        self._paragraph_ended = True
        self._label: tuple[int, str] | None = None

    def take(self, line: str, heading: Heading | None) -> None:
        # A quotation mark alone on its line is an empty line of a quotation.
        if not line.strip() or not line.strip(" \t>"):
            self._paragraph_ended = True
        elif _furniture.fullmatch(line.strip(" \t>")):
            self.close()
        elif heading is not None:
            self._head(heading)
        elif bullet := _bullet.match(line):
            self._take_bullet(_columns(bullet[1]), line[bullet.end() :].strip())
        else:
            found = _indent.match(line)
            self._take_text(_columns(found[0] if found else ""), line.strip(" \t>"))

    def close(self) -> None:
        """End the entry that grows."""
        if self._open and self._section is not None:
            self.entries.append(RawEntry(section=self._section, verb=self._verb, text=self._open))
        self._open = None
        self._label = None
        self._paragraph_ended = True

    def _head(self, heading: Heading) -> None:
        self.close()
        if heading.verb is not None:
            self._verb = heading.verb
        elif heading.section is not None:
            self._verb = None
            self._section = Section.HANDOFF if heading.ends else heading.section
            self._level = heading.level
            if not heading.ends:
                self.headings.append(heading.section)
        elif self._section is not None and heading.level <= self._level:
            # A part of the model's own, beside the sections: it is something to hand over, and binds nothing.
            self._section, self._verb = Section.HANDOFF, None
        else:
            self._verb = None
        if heading.rest:
            self._begin(heading.rest, indent=0, bulleted=False)

    def _take_bullet(self, indent: int, text: str) -> None:
        if self._open is not None and not self._bulleted and self._open.endswith((":", "：")):
            self._open = None
        nested = self._open is not None and self._bulleted and indent > self._indent + 1
        if nested and self._open is not None and not names_an_entry(text):
            if self._open.endswith((":", "：")):
                self._label, self._open = (self._indent, self._open), None
            else:
                self._grow("" if _closed.search(self._open[-8:]) else ";", text)
                return
        label = self._label
        self.close()
        if label is not None and indent > label[0] + 1 and not names_an_entry(text):
            self._begin(f"{label[1]} {text}", indent=indent, bulleted=True)
            self._label = label
        else:
            self._begin(text, indent=indent, bulleted=True)

    def _take_text(self, indent: int, text: str) -> None:
        held = self._open
        if held is None or names_an_entry(text) or (self._paragraph_ended and not (self._bulleted and indent > self._indent)):
            self.close()
            self._begin(text, indent=indent, bulleted=False)
            return
        if self._bulleted:
            goes_on = indent > self._indent or not _closed.search(held[-8:])
        else:
            goes_on = not _closed.search(held[-8:]) and (len(held) >= WRAPPED_CHARS or text[0].islower())
        if goes_on:
            self._grow("", text)
        else:
            self.close()
            self._begin(text, indent=indent, bulleted=False)

    def _begin(self, text: str, *, indent: int, bulleted: bool) -> None:
        self._open = text[:RAW_CHARS]
        self._indent = indent
        self._bulleted = bulleted
        self._paragraph_ended = False

    def _grow(self, joint: str, text: str) -> None:
        held = self._open or ""
        self._paragraph_ended = False
        if len(held) >= RAW_CHARS:
            return
        space = "" if not joint and _wide.match(text) and _wide.match(held[-1:]) else " "
        self._open = f"{held}{joint}{space}{text[: RAW_CHARS - len(held)]}"


def _columns(indent: str) -> int:
    return sum(4 if char == "\t" else 1 for char in indent[:200] if char != ">")
