"""Reads a window the way a question is judged: the text that holds, its order, the work it shows. No model reads it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from benchmarks.retention.blindness import stands
from benchmarks.retention.facts import USER_KINDS
from benchmarks.retention.probes import CHANCE, Probe
from threadkeep.compaction import Section
from threadkeep.compaction.state_text import HEADINGS, TAG
from threadkeep.dialects import Dialect
from threadkeep.items import Item, ItemKind
from threadkeep.tokens import estimate_item

# No value holds it, so that none is found across two texts.
BETWEEN = "\n\x00\n"


class Place(StrEnum):
    """How a reader takes a piece of a window."""

    PERSON = "a person's message"
    STATE = "a state of five sections"
    SUMMARY = "a summary"
    OUTPUT = "tool output"
    WORK = "other work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """One item of a window, looked at once."""

    item: Item
    place: Place
    text: str
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """A text that holds: a line of the state or of a summary, or a person's message.

    `at` is its place in reading order. A state tells messages in the order they were said; lines of a summary have one place.
    """

    at: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """A window taken apart.

    Attributes:
        told: What is told to hold, in window order. Inactive Changes are not.
        said: The same as one text.
        shown: That and all work that is shown: handoff, evidence, calls, outputs, answers.
        tokens: The size of the window.
    """

    told: tuple[Told, ...]
    said: str
    shown: str
    tokens: int


def make_piece(item: Item, *, dialect: Dialect) -> Piece:
    """Return what a recorded item, or the library's own state, is in a window."""
    view = dialect.view(item)
    if f"<{TAG}>\n" in view.text and f"\n</{TAG}>" in view.text and not view.by_person:
        place = Place.STATE
    elif view.by_person:
        place = Place.PERSON
    else:
        place = Place.OUTPUT if view.kind is ItemKind.OUTPUT else Place.WORK
    return Piece(item=item, place=place, text=view.said if view.by_person else view.text, tokens=estimate_item(item.raw))


def make_summary_piece(text: str, *, dialect: Dialect) -> Piece:
    """Return a summary as an item of its own."""
    item = dialect.make_user_message(text)
    return Piece(item=item, place=Place.SUMMARY, text=text, tokens=estimate_item(item.raw))


def open_book(pieces: Sequence[Piece]) -> Book:
    """Take a window apart."""
    told: list[Told] = []
    work: list[str] = []
    for piece in pieces:
        at = len(told)
        if piece.place is Place.PERSON:
            told.append(Told(at=at, text=piece.text))
        elif piece.place is Place.SUMMARY:
            told += [Told(at=at, text=line) for line in piece.text.splitlines()]
        elif piece.place is Place.STATE:
            sections = _sections(piece.text)
            lines = (*sections[Section.OBJECTIVE], *sections[Section.ACTIVE])
            told += [Told(at=at + number, text=line) for number, line in enumerate(lines)]
            work += [*sections[Section.HANDOFF], *sections[Section.EVIDENCE]]
        else:
            work.append(piece.text)
    said = BETWEEN.join(each.text for each in told)
    return Book(
        told=tuple(told),
        said=said,
        shown=BETWEEN.join((said, *work)),
        tokens=sum(piece.tokens for piece in pieces),
    )


def _sections(text: str) -> dict[Section, list[str]]:
    block = text.partition(f"<{TAG}>\n")[2].rpartition(f"\n</{TAG}>")[0]
    headings = {heading: section for section, heading in HEADINGS.items()}
    lines: dict[Section, list[str]] = {section: [] for section in Section}
    section: Section | None = None
    for line in block.splitlines():
        section = headings.get(line, section)
        if section is not None and line not in headings:
            lines[section].append(line)
    return lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a window makes of a probe.

    Attributes:
        kept: The right value, and no other option, is what the window tells.
        beside: The right value is told, and a wrong one as well.
        stale: The value that was taken back stands where it counts, without the newer one beside or after it.
        outdated: It does, and the newer one stands nowhere that counts.
        credit: What someone would score on average who picks, of the options, one that the window tells, and guesses if it
            tells none.
    """

    kept: bool
    beside: bool
    stale: bool
    outdated: bool
    credit: float


def judge(probe: Probe, book: Book) -> Judged:
    """Return what a window makes of a probe, by its text alone."""
    text = book.said if probe.fact.kind in USER_KINDS else book.shown
    told = {option for option in probe.options if stands(option, text)}
    stale = probe.fact.stale
    alone = outdated = False
    if stale is not None and stale in told:
        alone = stale_alone(stale, newer=probe.fact.value, book=book)
        outdated = probe.fact.value not in told
        told.discard(probe.fact.value if alone else stale)
    if not told:
        return Judged(kept=False, beside=False, stale=alone, outdated=outdated, credit=CHANCE)
    right, only = probe.fact.value in told, len(told) == 1
    return Judged(
        kept=right and only,
        beside=right and not only,
        stale=alone,
        outdated=outdated,
        credit=1 / len(told) if right else 0.0,
    )


def stale_alone(stale: str, *, newer: str, book: Book) -> bool:
    """Whether a reader would take the stale value for the one that holds.

    What comes later in reading order decides; lines of one summary come at the same time. So a text that names the stale value
    must name the newer one too, or a text after it must.
    """
    bare = [told.at for told in book.told if stands(stale, told.text) and not stands(newer, told.text)]
    corrected = max((told.at for told in book.told if stands(newer, told.text)), default=-1)
    return any(at >= corrected for at in bare)
