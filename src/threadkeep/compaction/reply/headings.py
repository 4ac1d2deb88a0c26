"""Which lines of a reply are headings: `Objective:`, `## Objective`, `**Objective:** text`, `1. Objective`, `<objective>`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from threadkeep.compaction.ledger import Section
from threadkeep.compaction.reply.words import FULL_HEADINGS, SHORT_HEADINGS, VERBS, Verb, folded

HEAD_CHARS = 160
# A heading without hashes is taken for one of this depth when a deeper one below it must be told from its equal.
UNMARKED_LEVEL = 2

_dress = re.compile(
    r"[ \t>]{0,12}(?P<bullet>[-*+•‣][ \t]{1,4})?(?P<hashes>#{1,6})?[ \t]{0,4}"
    r"(?P<number>(?:\d{1,2}|[IVX]{1,4})[.)、][ \t]{0,3})?(?P<mark>[*_`]{1,3})?"
)
_element = re.compile(r"<(/?)\s{0,2}([\w -]{1,40})>[ \t]*")
_closing_element = re.compile(r"[ \t]*</[\w -]{1,40}>[ \t]*$")
# What JSON and code begin with; a name in quotation marks is a key.
_MACHINE = tuple("\"'{[")
_separator = re.compile(r"[:：]|[ \t][-–—]+[ \t]|[ \t]*$")
_aside = re.compile(r"\s*[(（][^()（）]{0,60}[)）][\s*_`]*$")
_closing_mark = re.compile(r"^[ \t]*[*_`]{1,3}(?=\s|$)[:：]?[ \t]*")


class Style(IntEnum):
    """How a heading is set. A reply has one style; a bullet that happens to begin with a heading's name is none."""

    PLAIN = 0
    NUMBERED = 1
    BULLETED = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """A line that begins a part of the state.

    Attributes:
        section: What begins; None where the name is no section's.
        verb: What became of the entries below, where the line says just that.
        rest: Text on the same line.
        level: How deep it stands, 1 being the outermost.
        ends: Whether it closes a part instead, as `</objective>` does.
    """

    section: Section | None = None
    verb: Verb | None = None
    rest: str = ""
    style: Style = Style.PLAIN
    level: int = UNMARKED_LEVEL
    ends: bool = False


def heading_in(line: str) -> Heading | None:
    """Return the heading that a line is, or None."""
    dress = _dress.match(line)
    if dress is None:
        return None
    body = line[dress.end() :]
    if body.startswith(_MACHINE):
        return None
    if element := _element.match(body):
        section = FULL_HEADINGS.get(folded(element[2])) or SHORT_HEADINGS.get(folded(element[2]))
        rest = body[element.end() :]
        closing = _closing_element.search(rest, max(0, len(rest) - HEAD_CHARS))
        told = rest[: closing.start()] if closing else rest.strip()
        return Heading(section=section, rest=told, ends=bool(element[1])) if section else None
    style = Style.BULLETED if dress["bullet"] else Style.NUMBERED if dress["number"] else Style.PLAIN
    level = len(dress["hashes"]) if dress["hashes"] else UNMARKED_LEVEL
    separator = _separator.search(body, 0, HEAD_CHARS)
    if separator is None:
        return Heading(style=style, level=level) if dress["hashes"] and not dress["bullet"] else None
    name = folded(_aside.sub("", body[: separator.start()]))
    rest = _closing_mark.sub("", body[separator.end() :]).strip()
    set_off = bool(dress["hashes"] or dress["mark"])
    stands_alone = not rest and (set_off or separator[0] in (":", "："))
    section = FULL_HEADINGS.get(name) or (SHORT_HEADINGS.get(name) if set_off or stands_alone else None)
    if section is not None:
        return Heading(section=section, rest=rest, style=style, level=level)
    if stands_alone and style is not Style.BULLETED and (verb := VERBS.get(name)) is not None:
        return Heading(verb=verb, style=style, level=level + 1)
    return Heading(style=style, level=level) if dress["hashes"] and not dress["bullet"] else None
