"""Whatever happens to a thread, the model knows the world it was told last, or is told all of it again."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.histories import answered, said

from threadkeep import Config, Thread, Threadkeep
from threadkeep.errors import CompactionError, InvalidTarget

WORLDS: list[dict[str, Any]] = [
    {"cwd": "/a", "env": {"x": 1, "y": {"z": 2}}},
    {"cwd": "/b", "env": {"x": 1, "y": {"z": 3}}},
    {"env": {"x": 2}, "rules": "be kind\n" * 30},
    {"rules": "be kind\n" * 29 + "be brief\n"},
    {},
]

steps = st.lists(
    st.sampled_from(
        ["turn 0", "turn 1", "turn 2", "turn 3", "turn 4", "talk", "compact", "undo", "rollback 1", "rollback 2", "fork"]
    ),
    max_size=14,
)


async def turn(thread: Thread, world: dict[str, Any]) -> None:
    async with thread.turn([said("Go.")], context=world) as open_turn:
        await open_turn.window()
        await open_turn.record([answered("Done. " * 40)])


async def take(thread: Thread, step: str) -> Thread:
    """Do one step; what cannot be done there is not done."""
    name, _, number = step.partition(" ")
    try:
        match name:
            case "turn":
                await turn(thread, WORLDS[int(number)])
            case "talk":
                await thread.record([said("Hello."), answered("Words. " * 80)])
            case "compact":
                await thread.compact(strategy="extractive", target="30%")
            case "undo":
                await thread.undo()
            case "rollback":
                await thread.rollback(turns=int(number))
            case _:
                return await thread.fork()
    except (CompactionError, InvalidTarget):
        return thread
    return thread


async def play(store: Path, plan: list[str]) -> None:
    async with Threadkeep(Config(store=str(store), model_context_window=3_000, compact_strategy="extractive")) as tk:
        thread = await tk.thread("t")
        for step in plan:
            thread = await take(thread, step)
            known = await thread.told()
            assert known is None or known in WORLDS
            if step.startswith("turn"):
                assert (known or {}) == WORLDS[int(step[-1])]
        for world in WORLDS[:3]:
            await thread.tell(world)
            assert await thread.told() == world
            assert await thread.tell(world) is None


@given(steps)
@settings(max_examples=25)
def test_after_every_turn_the_window_tells_the_world_as_it_is(plan: list[str]) -> None:
    """Compactions, undone ones, rollbacks and forks in any order: a turn leaves its world told, and nothing is told twice."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(play(Path(folder) / "threads.db", plan))
