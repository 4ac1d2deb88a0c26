"""The sentences of the story as they stand in its files: what users ask for, what they demand, and the values in it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from random import Random

import msgspec

from benchmarks.story import words
from benchmarks.story.session import DemandKind


class Value(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a value: one of some texts, a text joined from two parts, a number between two texts, or a word of the story."""

    one_of: tuple[str, ...] = ()
    joined: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    number: tuple[str, int, int, str] | None = None
    times: int = 1
    word: str = ""

    def draw(self, rng: Random) -> str:
        """Return a value of this shape."""
        if self.joined is not None:
            first, second = self.joined
            return rng.choice(first) + rng.choice(second)
        if self.number is not None:
            before, low, high, after = self.number
            return f"{before}{rng.randrange(low, high) * self.times}{after}"
        return words.VALUES[self.word](rng) if self.word else rng.choice(self.one_of)


class DemandLine(msgspec.Struct, frozen=True, kw_only=True):
    """One demand to be, and the question about it.

    Attributes:
        earlier: For a correction or a withdrawal, the sentence it takes back.
        old: The shape of the value taken back, where it is not that of the new one.
        decoys: Wrong answers for a value that has few of its shape.
    """

    kind: DemandKind
    said: str
    value: Value
    question: str
    earlier: str | None = None
    old: Value | None = None
    decoys: tuple[str, ...] = ()


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One turn's request, the steps it leads to, and what the agent says in the end."""

    text: str
    recipe: str
    answer: str


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """Turns that belong together; `area` is the part of the checkout they are about."""

    area: str
    asks: tuple[Ask, ...]


class Tasks(msgspec.Struct, frozen=True, kw_only=True):
    """Everything users ask for; `foreign` episodes are in other languages than English."""

    service: tuple[Episode, ...]
    upkeep: tuple[Episode, ...]
    foreign: tuple[Episode, ...]
    follow_ups: tuple[Ask, ...]


class _Demands(msgspec.Struct):
    demands: tuple[DemandLine, ...]


@cache
def load_tasks() -> Tasks:
    return msgspec.toml.decode(_read("tasks.toml"), type=Tasks)


@cache
def load_demands() -> tuple[DemandLine, ...]:
    return msgspec.toml.decode(_read("demands.toml"), type=_Demands).demands


def find_line(said: str) -> DemandLine:
    """Return the line that a demand's sentence was made from."""
    return next(line for line in load_demands() if all(part in said for part in _split_line(line.said)))


def _split_line(said: str) -> list[str]:
    """Return the texts between the slots of a line."""
    for slot in ("{old}", "{s}"):
        said = said.replace(slot, "{v}")
    return said.split("{v}")


def _read(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()
