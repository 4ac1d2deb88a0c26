"""Builds a session from its recipe: turns, the work in hand at each hop, and the same noise for every variant."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from benchmarks.cases.manifest import Bundle, SessionRecipe, StepRecipe
from benchmarks.retention.wire_items import Json, turn_json
from benchmarks.story.session import Step, Turn
from benchmarks.story.words import exit_text

DIALECT = "chat"


def build_turns(session: SessionRecipe, *, noisy: bool = True) -> list[Turn]:
    """Return the session's turns; the last of each hop also shows the work under way. Tools print noise too, if `noisy`."""
    rng = Random(f"cases:{session.seed}")
    work = {bundle.hop: bundle for bundle in session.work}
    last = {turn.hop: number for number, turn in enumerate(session.turns)}
    made: list[Turn] = []
    for number, turn in enumerate(session.turns):
        steps = tuple(
            Step(tool=step.tool, arguments=step.arguments, output=_output(step, session, rng, noisy=noisy)) for step in turn.steps
        )
        shown = work_steps(work[turn.hop]) if turn.hop in work and last[turn.hop] == number else ()
        made.append(Turn(user=turn.user, steps=(*steps, *shown), answer=turn.answer))
    return made


def items_by_hop(session: SessionRecipe, *, noisy: bool = True) -> Iterator[list[Json]]:
    """Yield what each hop adds to the history.

    Every other hop ends in the middle of a turn: its answer, without which the turn goes on, comes with the next hop.
    """
    made = build_turns(session, noisy=noisy)
    waiting: list[Json] = []
    for hop in range(1, session.hops + 1):
        items = waiting
        for number, turn in enumerate(made):
            if session.turns[number].hop == hop:
                items = [*items, *turn_json(turn, number=number, dialect=DIALECT)]
        waiting = items[-1:] if hop % 2 == 0 else []
        yield items[:-1] if waiting else items


def said_by(session: SessionRecipe, *, turn: int) -> dict[str, str]:
    """Return what the user, the tools and the calls say in a turn, counted from one."""
    made = build_turns(session)[turn - 1]
    return {
        "user": made.user,
        "tool": "\n".join(step.output for step in made.steps),
        "call": "\n".join(str(value) for step in made.steps for value in step.arguments.values()),
    }


def text_of(session: SessionRecipe) -> str:
    """Return everything the session says, as one text."""
    numbers = range(1, len(session.turns) + 1)
    said = (text for number in numbers for text in said_by(session, turn=number).values())
    return "\n".join((*said, *(turn.answer for turn in session.turns)))


def work_steps(bundle: Bundle) -> tuple[Step, ...]:
    """Return the calls that show what is under way: a plan, a change, and a command that fails."""
    plan = [
        {"step": "look at what is there", "status": "completed"},
        {"step": bundle.next_step, "status": "in_progress"},
        {"step": "tell the user", "status": "pending"},
    ]
    patch = f"*** Begin Patch\n*** Update File: {bundle.file}\n@@\n-    pass\n+    raise NotImplementedError\n*** End Patch"
    return (
        Step(tool="update_plan", arguments={"plan": plan}, output="plan noted"),
        Step(tool="apply_patch", arguments={"input": patch}, output=f"M {bundle.file}"),
        Step(tool="exec_command", arguments={"cmd": bundle.command}, output=exit_text(bundle.blocker, code=1, took="2.4 s")),
    )


def _output(step: StepRecipe, session: SessionRecipe, rng: Random, *, noisy: bool) -> str:
    # Four figures: no value of a case has as many, so that noise never says one.
    lines = [
        rng.choice(session.noise).format(a=rng.randrange(1000, 4000), b=rng.randrange(4000, 7000), c=rng.randrange(7000, 10_000))
        for _ in range(step.noise_lines if noisy else 0)
    ]
    return "\n".join((step.output, *lines))
