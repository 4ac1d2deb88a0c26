"""The work in hand when a session is compacted: the file, the next step, the blocker, and the command that shows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from benchmarks.story import words
from benchmarks.story.session import CWD, Step

_VERBS = ("compare", "reconcile", "replay", "recount", "re-sign")
_OBJECTS = ("totals", "tickets", "ledgers", "batches", "slips")
_SUFFIXES = ("bridge", "shim", "sweep", "guard", "intake", "fanout")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One of the four things to know about the work, with its question and values that look like it."""

    name: str
    value: str
    question: str
    likes: tuple[str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A ticket in hand: the steps that show it, and what can be asked about it."""

    ticket: str
    steps: tuple[Step, ...]
    parts: tuple[Part, ...]


def make_open_work(rng: Random, *, number: int) -> Work:
    """Return the work on ticket `number`; no two tickets share a value."""
    ticket = f"QBW-{1000 + number}"
    files = _draw_four(
        rng, number, lambda n: f"src/quillback/{rng.choice(words.AREAS)}/{rng.choice(words.NOUNS)}_{rng.choice(_SUFFIXES)}{n}.py"
    )
    next_steps = _draw_four(
        rng, number, lambda n: f"{rng.choice(_VERBS)} the {rng.choice(words.NOUNS)} {rng.choice(_OBJECTS)} of week {n}"
    )
    blockers = _draw_four(rng, number, lambda n: f"LeaseHeld: row {n} of {rng.choice(words.NOUNS)}s belongs to {words.host(rng)}")
    commands = _draw_four(rng, number, lambda n: f"just try-{rng.choice(words.NOUNS).replace('_', '-')} --case {n}")
    parts = (
        Part(name="file", value=files[0], question=f"Which file has the half-finished change for {ticket}?", likes=files[1:]),
        Part(name="next step", value=next_steps[0], question=f"What is the next step for {ticket}?", likes=next_steps[1:]),
        Part(name="blocker", value=blockers[0], question=f"What stops {ticket} at the moment?", likes=blockers[1:]),
        Part(name="command", value=commands[0], question=f"Which invocation shows how {ticket} fails?", likes=commands[1:]),
    )
    return Work(ticket=ticket, steps=_build_steps(ticket, parts), parts=parts)


def _draw_four(rng: Random, number: int, draw: Callable[[int], str]) -> tuple[str, str, str, str]:
    endings = rng.sample(range(100, 1_000), 4)
    one, two, three, four = (draw(number * 1_000 + ending) for ending in endings)
    return one, two, three, four


def _build_steps(ticket: str, parts: tuple[Part, ...]) -> tuple[Step, ...]:
    path, next_step, blocker, command = (part.value for part in parts)
    plan = [
        {"step": f"{ticket}: reproduce", "status": "completed"},
        {"step": next_step, "status": "in_progress"},
        {"step": "write down what changed", "status": "pending"},
    ]
    change = f"@@\n-    return None\n+    raise NotImplementedError('{ticket}')"
    patch = f"*** Begin Patch\n*** Update File: {path}\n{change}\n*** End Patch"
    failed = words.exit_text(f"1 case\n{blocker}\n1 failed", code=1, took="3.1 s")
    return (
        Step(tool="update_plan", arguments={"plan": plan}, output="plan noted"),
        Step(tool="apply_patch", arguments={"input": patch}, output=f"Patched 1 file:\nM {path}"),
        Step(tool="exec_command", arguments={"cmd": command, "workdir": CWD}, output=failed),
    )
