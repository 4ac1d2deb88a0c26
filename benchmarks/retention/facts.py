"""The facts planted in a session next to the story's demands: values that only tools print, one-off remarks, late constraints."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from random import Random

import msgspec

from benchmarks.story import words
from benchmarks.story.lines import Value
from benchmarks.story.session import DemandKind


class FactKind(StrEnum):
    """In which way a fact is hard to keep."""

    PROHIBITION = "prohibition"
    RULE = "rule"
    BINDING = "exact binding"
    SCOPE = "scope limit"
    AFTERTHOUGHT = "afterthought"
    LATE = "late constraint"
    CORRECTION = "correction"
    WITHDRAWAL = "withdrawn instruction"
    PREFERENCE = "preference"
    NAME = "exact name"
    FOREIGN = "other language"
    LOOK_ALIKE = "among look-alikes"
    ONE_OFF = "one-off said early"
    BURIED = "inside a long paste"
    TOOL_REUSED = "tool-only, reused"
    TOOL_UNUSED = "tool-only, never reused"
    WORKING = "working state"
    SET_ASIDE = "work set aside"


OF_DEMAND = {
    DemandKind.PROHIBITION: FactKind.PROHIBITION,
    DemandKind.RULE: FactKind.RULE,
    DemandKind.BINDING: FactKind.BINDING,
    DemandKind.SCOPE: FactKind.SCOPE,
    DemandKind.LATE: FactKind.AFTERTHOUGHT,
    DemandKind.CORRECTION: FactKind.CORRECTION,
    DemandKind.WITHDRAWAL: FactKind.WITHDRAWAL,
    DemandKind.PREFERENCE: FactKind.PREFERENCE,
    DemandKind.NAME: FactKind.NAME,
    DemandKind.FOREIGN: FactKind.FOREIGN,
    DemandKind.LOOK_ALIKE: FactKind.LOOK_ALIKE,
}
TOOL_KINDS = frozenset({FactKind.TOOL_REUSED, FactKind.TOOL_UNUSED})
WORK_KINDS = frozenset({FactKind.WORKING, FactKind.SET_ASIDE})
USER_KINDS = frozenset(FactKind) - TOOL_KINDS - WORK_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """Something that was said once and is asked for later.

    Attributes:
        key: Its name within the session.
        value: The exact text that answers the question; it stands in no other fact's sentence.
        text: The sentence, output line or note that says it, word for word.
        due: Index of the turn after which it can be asked for.
        last: Index of the last turn after which it is asked for; None for as long as the session lasts.
        stale: The value it took the place of.
        likes: Three values of its shape that the session never says.
    """

    key: str
    kind: FactKind
    value: str
    text: str
    question: str
    due: int
    likes: tuple[str, str, str]
    last: int | None = None
    stale: str | None = None


class Spoken(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of the user to be planted; `{v}` is its value."""

    kind: FactKind
    said: str
    value: Value
    question: str


class Printed(msgspec.Struct, frozen=True, kw_only=True):
    """A value that a tool prints: the command, the line of its output, and, if it is reused, the command that takes it."""

    command: str
    line: str
    value: Value
    question: str
    reused_by: str | None = None


class PlantedLines(msgspec.Struct, frozen=True, kw_only=True):
    """The lines of facts.toml."""

    spoken: tuple[Spoken, ...]
    printed: tuple[Printed, ...]


@cache
def load_lines() -> PlantedLines:
    return msgspec.toml.decode(files(__package__).joinpath("facts.toml").read_bytes(), type=PlantedLines)


SURROUNDINGS = (
    "checking prerequisites",
    "configuration read from config/quillback.toml",
    "connected",
    "nothing else to report",
    "took longer than usual, the disk is busy",
)


def printed_output(rng: Random, line: str) -> str:
    """Return a tool's output with `line` somewhere among others."""
    lines = [f"{at[11:]} {rng.choice(SURROUNDINGS)}" for at in words.moments(rng, count=rng.randrange(6, 24), mean_gap_ms=900)]
    lines.insert(rng.randrange(1, len(lines)), line)
    return words.exit_text("\n".join(lines), code=0, took=f"{rng.uniform(0.4, 6.0):.1f} s")
