"""Values a tool showed once, given to a call many compactions later: they come back with the line they stood in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.retention.reuse_patterns import REUSED, TRIVIAL, Reuse

from threadkeep import Config, Thread, Threadkeep
from threadkeep.bench.retention.blindness import stands
from threadkeep.bench.retention.rendering import opening_json, turn_json
from threadkeep.compaction.bindings import BINDINGS_TOKENS, FROM_A_TOOL, value_of
from threadkeep.compaction.ledger import Section, Speaker
from threadkeep.demo import Turn, context_items, long_session
from threadkeep.demo.session import Step
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

TURNS = 60
TURNS_BETWEEN = 4
SEEN_BEFORE, USED_FROM = 18, 34
# A short figure that many records hold, a word alone on a line of a long output.
MOST_LOST = 3


def session(seed: int, *, among: int) -> list[Turn]:
    """A session in which every pattern's value is shown early and given to a call late, each output among others."""
    rng = Random(seed)
    turns = list(long_session(seed=seed, turns=TURNS).turns)
    noise = [step.output for turn in turns for step in turn.steps if len(step.output) > 500]
    for reuse in (*REUSED, *TRIVIAL):
        lines = [line for output in rng.sample(noise, among) for line in output.splitlines()]
        lines.insert(rng.randrange(len(lines) + 1), reuse.line)
        shown = Step(tool="exec_command", arguments={"cmd": f"bin/look {rng.randrange(9)}"}, output="\n".join(lines))
        used = Step(tool=reuse.tool, arguments=reuse.arguments, output="done")
        for step, turn in ((shown, rng.randrange(1, SEEN_BEFORE)), (used, rng.randrange(USED_FROM, TURNS - 1))):
            turns[turn] = replace(turns[turn], steps=(step, *turns[turn].steps))
    return turns


async def played(thread: Thread, turns: list[Turn], *, dialect: str) -> None:
    await thread.record(opening_json(tuple(context_items()), dialect=dialect))
    for number, turn in enumerate(turns):
        await thread.record(turn_json(turn, number=number, dialect=dialect))
        if number % TURNS_BETWEEN == TURNS_BETWEEN - 1:
            await thread.compact()


async def told(thread: Thread) -> list[str]:
    """The lines of the state about values that tools gave."""
    entries = (await thread.state()).section(Section.ACTIVE)
    return [entry.text for entry in entries if entry.speaker is Speaker.COMPUTED]


@pytest.mark.parametrize(("dialect", "among"), [("responses", 1), ("chat", 2), ("messages", 1)])
async def test_what_a_late_call_was_given_is_told_with_the_line_it_came_from(dialect: str, among: int, tmp_path: Path) -> None:
    """Ids, figures, words, names, in arguments, commands, sentences and files; what only looks around takes no room."""
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work", dialect=dialect)
        await played(thread, session(7, among=among), dialect=dialect)
        lines = await told(thread)
    kept = "\n".join(lines)
    lost = [reuse.value for reuse in REUSED if not stands(reuse.value, kept)]
    assert len(lost) <= MOST_LOST, lost
    assert [reuse.value for reuse in TRIVIAL if reuse.value in map(value_of, lines)] == []
    assert sum(map(estimate_text, lines)) <= BINDINGS_TOKENS
    assert all(line.startswith(FROM_A_TOOL) for line in lines)


async def test_what_nobody_used_again_is_not_told(tmp_path: Path) -> None:
    """Most of what tools print is never needed again; recall finds it."""
    turns = session(7, among=1)
    used = {id(reuse.arguments) for reuse in REUSED}
    unused = [replace(turn, steps=tuple(step for step in turn.steps if id(step.arguments) not in used)) for turn in turns]
    async with Threadkeep(Config(store=str(tmp_path / "thread.db"))) as tk:
        thread = await tk.thread("long-work")
        await played(thread, unused, dialect="responses")
        kept = "\n".join(await told(thread))
    assert [reuse.value for reuse in REUSED if stands(reuse.value, kept)] == []


async def test_a_value_of_another_thread_explains_nothing(tmp_path: Path) -> None:
    """Only what stands on the thread's own path is looked through."""
    wanted = Reuse("zz-4711-q", "berth zz-4711-q is free", "exec_command", {"cmd": "dock zz-4711-q"})
    shown = Step(tool="exec_command", arguments={"cmd": "bin/look"}, output=wanted.line)
    used = Step(tool=wanted.tool, arguments=wanted.arguments, output="done")
    turns = list(long_session(seed=3, turns=24).turns)
    async with Threadkeep(Config(store=str(tmp_path / "threads.db"))) as tk:
        other = await tk.thread("other")
        await other.record(turn_json(replace(turns[0], steps=(shown,)), number=0, dialect="responses"))
        thread = await tk.thread("own")
        late = [*turns[:20], replace(turns[20], steps=(used, *turns[20].steps)), *turns[21:]]
        await played(thread, late, dialect="responses")
        lines = await told(thread)
    assert [line for line in lines if "berth" in line] == []
