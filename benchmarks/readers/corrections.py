"""Rules stated early, corrected in the middle, then a long stretch of work with long messages.

The correction lies far behind what a window quotes of the user's newest words. Some rules are corrected twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from benchmarks.readers.agent_facts import draw_values
from benchmarks.readers.questions import CORRECTION, Question
from benchmarks.story.session import Turn

EARLY, FIRST, SECOND, PASTED = (0.0, 0.12), (0.25, 0.38), (0.4, 0.5), 0.55
PASTE_LINES = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule with a value `{v}`: as first stated, as corrected, and the question."""

    stated: str
    corrected: str
    values: tuple[str, ...]
    question: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The user's messages that differ from the session's, by turn, and the questions."""

    users: dict[int, str]
    questions: tuple[Question, ...]


RULES = (
    Rule(
        stated="Releases go out on branch {v}.",
        corrected="Small change of plan: we release from {v} now.",
        values=("ship-##", "cut-##", "out-##", "drop-##"),
        question="From which branch do we release?",
    ),
    Rule(
        stated="Please keep functions under {v} lines.",
        corrected="About function length, make that {v} lines, the linter was changed.",
        values=("3#", "4#", "5#", "6#"),
        question="How many lines may a function have?",
    ),
    Rule(
        stated="Send the nightly report to {v}.",
        corrected="The nightly report has a new reader, it goes to {v}.",
        values=("harbour-desk@ex.test", "mill-desk@ex.test", "tower-desk@ex.test", "yard-desk@ex.test"),
        question="To which address does the nightly report go?",
    ),
    Rule(
        stated="The staging database is {v}.",
        corrected="They moved staging, its database is {v} these days.",
        values=("pg-alder-#", "pg-maple-#", "pg-rowan-#", "pg-cedar-#"),
        question="Which database does staging have?",
    ),
    Rule(
        stated="Feature flags start with {v}.",
        corrected="The flag service was replaced. Flags start with {v} there.",
        values=("ff_n#_", "sw_k#_", "tg_r#_", "op_d#_"),
        question="With what does the name of a feature flag start?",
    ),
    Rule(
        stated="Log times in the zone {v}, please.",
        corrected="Sorry, I told you the wrong zone for logs. It is {v}.",
        values=("Asia/Thimphu", "America/Belem", "Africa/Maseru", "Pacific/Niue"),
        question="In which time zone are times logged?",
    ),
    Rule(
        stated="Integration tests may take {v} seconds.",
        corrected="We got more machines, integration tests may take {v} seconds.",
        values=("1##7", "2##3", "3##9", "4##1"),
        question="How many seconds may the integration tests take?",
    ),
    Rule(
        stated="The person to ask about billing is {v}.",
        corrected="Handover is done: billing questions are answered by {v}.",
        values=("Ottoline Varga", "Benedikt Osei", "Marisol Lindgren", "Tadeusz Amara"),
        question="Who answers questions about billing?",
    ),
)
PASTED_WORDS = ("accepted", "buffer", "closing", "deferred", "epoch", "flush", "granted", "handle", "idle", "joined")


def plant_corrections(turns: Sequence[Turn], *, seed: int) -> Changes:
    """Return the messages with rules and corrections in them, and a question a rule; three rules are corrected twice."""
    rng = Random(f"{seed}:corrections")
    said = "\n".join(turn.user for turn in turns)
    more: defaultdict[int, list[str]] = defaultdict(list)
    questions: list[Question] = []
    twice = set(rng.sample(range(len(RULES)), 3))
    for number, rule in enumerate(RULES):
        old, between, now, never = draw_values(rule.values, rng, apart_from=said)
        more[_turn(rng, len(turns), EARLY)].append(rule.stated.format(v=old))
        if number in twice:
            more[_turn(rng, len(turns), FIRST)].append(rule.corrected.format(v=between))
            more[_turn(rng, len(turns), SECOND)].append(rule.corrected.format(v=now))
        else:
            more[_turn(rng, len(turns), (FIRST[0], SECOND[1]))].append(rule.corrected.format(v=now))
        wrong = (old, between, never)
        questions.append(Question(kind=CORRECTION, text=rule.question, right=now, wrong=wrong, stale=old))
    users = {turn: "\n\n".join((turns[turn].user, *texts)) for turn, texts in more.items()}
    for turn in range(int(len(turns) * PASTED), len(turns), 2):
        users[turn] = f"{turns[turn].user}\n\n{_paste(rng)}"
    return Changes(users=users, questions=tuple(questions))


def _turn(rng: Random, turns: int, shares: tuple[float, float]) -> int:
    return rng.randrange(int(turns * shares[0]), max(int(turns * shares[1]), int(turns * shares[0]) + 1))


def _paste(rng: Random) -> str:
    """Return lines of a log as a user pastes them; they hold letters only, so no value stands in them by chance."""
    lines = (" ".join(rng.choices(PASTED_WORDS, k=7)) for _ in range(PASTE_LINES))
    return "\n".join(f"worker {rng.choice('abcdef')}: {line}" for line in lines)
