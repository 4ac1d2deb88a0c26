"""Draws values that mean one thing each, and keeps generated text free of them. Frozen: see the package's docstring."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from random import Random

from benchmarks.frozen.lines import PrintedLine, SaidLine
from benchmarks.frozen.shapes import SHAPES
from benchmarks.retention.blindness import gives_away, stands
from benchmarks.retention.facts import FactKind
from benchmarks.story.session import Step

MOST_DRAWS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A line with its values. `old` is the value it takes back."""

    line: SaidLine | PrintedLine
    value: str
    old: str | None

    @property
    def sentences(self) -> str:
        """Everything the line puts into the session, as one text."""
        texts = [self.line.say, self.line.earlier or ""] if isinstance(self.line, SaidLine) else [self.line.line]
        return "\n".join(text.format(v=self.value, old=self.old) for text in texts)


class Values:
    """Draws values that occur in no other line, whole or as a part that could be taken for them."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._drawn: list[Drawn] = []

    def draw(self, line: SaidLine | PrintedLine) -> Drawn:
        """Return the line with values of its own."""
        for _ in range(MOST_DRAWS):
            old = None
            if isinstance(line, SaidLine) and line.earlier is not None:
                old = SHAPES[line.old or line.v](self._rng)
            drawn = Drawn(line=line, value=SHAPES[line.v](self._rng), old=old)
            if self._apart(drawn):
                self._drawn.append(drawn)
                return drawn
        raise AssertionError(f"no value of its own for {line!r}")

    def reserved(self) -> list[str]:
        """Return every value that must occur only where its line says it."""
        return [value for drawn in self._drawn for value in (drawn.value, drawn.old) if value is not None]

    def _apart(self, drawn: Drawn) -> bool:
        if drawn.old is not None and (drawn.old in drawn.value or drawn.value in drawn.old):
            return False
        wrong = () if drawn.old is None else (drawn.old,)
        if gives_away(drawn.line.ask, right=drawn.value, wrong=wrong):
            return False
        return not any(_is_in_sentences(drawn, other) or _is_in_sentences(other, drawn) for other in self._drawn)


def _is_in_sentences(one: Drawn, other: Drawn) -> bool:
    text = other.sentences
    return one.value in text or (one.old is not None and one.old in text)


def keep_apart(text: str, reserved: Collection[str]) -> str:
    """Return generated text in which no reserved value stands; figures are turned until none does.

    Words of values are in no generated text; only figures meet by chance.
    """
    figures = [value for value in reserved if any(letter.isdigit() for letter in value)]
    pattern = re.compile("|".join(re.escape(value) for value in sorted(figures, key=len, reverse=True)))
    for turn in range(1, 9):
        if not pattern.search(text):
            return text
        text = pattern.sub(partial(_turn_digits, by=turn), text)
    raise AssertionError("a value cannot be kept apart from generated text")


def step_apart(step: Step, reserved: Collection[str]) -> Step:
    """Return a generated step in which no reserved value stands."""
    arguments: dict[str, object] = {
        name: keep_apart(given, reserved) if isinstance(given, str) else given for name, given in step.arguments.items()
    }
    return Step(tool=step.tool, arguments=arguments, output=keep_apart(step.output, reserved))


def _turn_digits(found: re.Match[str], *, by: int) -> str:
    return "".join(str((int(letter) - 1 + by) % 9 + 1) if letter in "123456789" else letter for letter in found[0])


def find_look_alikes(drawn: Drawn, *, rng: Random, text: str, taken: set[str]) -> tuple[str, str, str]:
    """Return three values of the line's shape that stand nowhere in `text` and keep the question blind; none is given out twice.

    Where a line is told apart from look-alikes, they differ from its value in one figure, if it has any.
    """
    figures = any(letter.isdigit() for letter in drawn.value)
    near = figures and isinstance(drawn.line, SaidLine) and drawn.line.kind is FactKind.LOOK_ALIKE
    found: list[str] = []
    for _ in range(MOST_DRAWS):
        like = _change_digit(drawn.value, rng) if near else SHAPES[drawn.line.v](rng)
        known = (drawn.value, *found) if drawn.old is None else (drawn.value, drawn.old, *found)
        if like in taken or any(like in other or other in like for other in known) or stands(like, text):
            continue
        wrong = (*found, like) if drawn.old is None else (drawn.old, *found, like)
        if gives_away(drawn.line.ask, right=drawn.value, wrong=wrong):
            continue
        found.append(like)
        if len(found) == 3:
            taken.update(found)
            return found[0], found[1], found[2]
    raise AssertionError(f"no look-alikes for {drawn.value!r}")


def _change_digit(value: str, rng: Random) -> str:
    at = rng.choice([at for at, letter in enumerate(value) if letter.isdigit()])
    return f"{value[:at]}{rng.randrange(1, 10)}{value[at + 1 :]}"
