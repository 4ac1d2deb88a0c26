"""Single-choice questions with four options, in an order that comes from a seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random

LETTERS = "ABCD"

# The kinds a table has a column for. A correction is also something a person stated.
USER, CORRECTION, TOOL_REUSED, TOOL_ONCE, WORK = "user-stated", "correction", "tool reused", "tool once", "work"
AGENT_SHARED, AGENT_OTHER = "agent-stated, same words", "agent-stated, other words"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question before its options are ordered: `stale` is the value that was right earlier."""

    kind: str
    text: str
    right: str
    wrong: tuple[str, str, str]
    stale: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A question as the reader sees it, with the letters of the right and the stale option."""

    kind: str
    letter: str
    stale_letter: str | None
    query: str
    text: str

    def as_line(self, *, before: str = "") -> list[str | None]:
        """Return it in the form `ask.py` reads; `before` is shown ahead of the question."""
        return [self.kind, self.letter, self.stale_letter, f"\n\n{before}{self.text}"]


def order_options(questions: Sequence[Question], *, seed: int) -> list[Asked]:
    """Return the questions with shuffled options; each letter is right equally often, up to one."""
    rng = Random(f"{seed}:readers")
    letters = [LETTERS[at % len(LETTERS)] for at in range(len(questions))]
    rng.shuffle(letters)
    return [_ask(question, letter, rng) for question, letter in zip(questions, letters, strict=True)]


def _ask(question: Question, letter: str, rng: Random) -> Asked:
    options = list(question.wrong)
    rng.shuffle(options)
    options.insert(LETTERS.index(letter), question.right)
    stale = LETTERS[options.index(question.stale)] if question.stale in options else None
    lines = [f"{name}) {option}" for name, option in zip(LETTERS, options, strict=True)]
    text = "\n".join((f"Question: {question.text}", *lines, "Answer with the letter of the right option only."))
    return Asked(kind=question.kind, letter=letter, stale_letter=stale, query=question.text, text=text)


def with_near_options(questions: Sequence[Question], *, seed: int) -> list[Question]:
    """Return questions whose wrong options are right answers to other questions of the session.

    A reader can answer a usual question by looking which option occurs at all; these it cannot. Left out are questions for
    which the session has fewer than two other values of the same shape.
    """
    rng = Random(f"{seed}:near")
    near = []
    for question in questions:
        same = {
            other.right
            for other in questions
            if shape_of(other.right) == shape_of(question.right) and other.text != question.text
        }
        same -= {question.right, *filter(None, [question.stale])}
        if len(same) < 2:
            continue
        picked = rng.sample(sorted(same), min(3, len(same)))
        stale = [question.stale] if question.stale else []
        first, second, third = [*stale, *picked, *question.wrong][:3]
        near.append(
            Question(
                kind=f"{question.kind}, near options",
                text=question.text,
                right=question.right,
                wrong=(first, second, third),
                stale=question.stale,
            )
        )
    return near


def shape_of(value: str) -> str:
    """Return a value with every run of letters and every run of digits written as one sign."""
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", value))


def holds_answer(text: str, questions: Iterable[Question]) -> list[str]:
    """Return the right answers that stand in `text`."""
    return [question.right for question in questions if question.right in text]
