"""Single-choice questions with the answer in another place every time, the same for every arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.retention.blindness import gives_away
from benchmarks.retention.facts import Fact

LETTERS = "ABCD"
CHANCE = 1 / len(LETTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A question, its options in the order they are shown, and the letter of the right one."""

    fact: Fact
    options: tuple[str, ...]
    letter: str

    @property
    def question(self) -> str:
        return self.fact.question

    @property
    def wrong(self) -> tuple[str, ...]:
        return tuple(option for option in self.options if option != self.fact.value)

    @property
    def leaks(self) -> bool:
        """Whether the question alone tells the right option from the others."""
        return gives_away(self.question, right=self.fact.value, wrong=self.wrong)


def make_probes(facts: Sequence[Fact], *, seed: int) -> list[Probe]:
    """Return a probe a fact. Every letter is right equally often, up to one; which comes from the seed alone.

    Where a fact took the place of another, the old value is one of the options.
    """
    rng = Random(f"{seed}:options")
    letters = [LETTERS[at % len(LETTERS)] for at in range(len(facts))]
    rng.shuffle(letters)
    return [_probe(fact, letter, rng) for fact, letter in zip(facts, letters, strict=True)]


def _probe(fact: Fact, letter: str, rng: Random) -> Probe:
    wrong = list(fact.likes) if fact.stale is None else [fact.stale, *fact.likes[:2]]
    rng.shuffle(wrong)
    wrong.insert(LETTERS.index(letter), fact.value)
    return Probe(fact=fact, options=tuple(wrong), letter=letter)
