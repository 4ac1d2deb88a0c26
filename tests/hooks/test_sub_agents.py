"""What hooks are told of a sub-agent's thread."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gateway.client import talk
from tests.histories import said, turns

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.hooks import Facts, FunctionHook, HookEvent, Hooks

pytestmark = pytest.mark.anyio

EVENTS = (HookEvent.PRE_COMPACT, HookEvent.POST_COMPACT, HookEvent.SESSION_START)
NAMES = ("session_id", "agent_id", "agent_type")


def noting(told: list[Facts]) -> Hooks:
    async def note(facts: Facts) -> None:
        told.append(facts)

    hooks = Hooks()
    for event in EVENTS:
        hooks = hooks.on(event, FunctionHook(function=note))
    return hooks


def named(told: list[Facts]) -> list[tuple[str, dict[str, object]]]:
    return [(str(facts.event), {key: facts.payload()[key] for key in NAMES if key in facts.payload()}) for facts in told]


async def test_a_spawned_agent_is_named_with_its_session(store_file: Path) -> None:
    """By its own thread, by what it was spawned as, and by the thread at the root; who was not spawned has neither key."""
    told: list[Facts] = []
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000), hooks=noting(told)) as tk:
        lead = await tk.thread("lead")
        reviewer = await lead.spawn("Review it.", name="reviewer", new_id="reviewer-1")
        nameless = await reviewer.spawn("Look up the port.", new_id="finder-1")
        for thread in (lead, reviewer, nameless):
            await thread.record(turns(1, 14))
            await thread.compact()
            async with thread.turn([said("Go on.")]) as turn:
                await turn.window()
    names = [
        {"session_id": "lead"},
        {"session_id": "lead", "agent_id": "reviewer-1", "agent_type": "reviewer"},
        {"session_id": "lead", "agent_id": "finder-1", "agent_type": ""},
    ]
    assert named(told) == [(str(event), each) for each in names for event in EVENTS]
    assert [facts.thread_id for facts in told[::3]] == ["lead", "reviewer-1", "finder-1"]


async def test_a_clients_sub_agent_is_called_what_its_client_calls_it(store_file: Path) -> None:
    """Through a gateway nobody was spawned; the client says who speaks."""
    told: list[Facts] = []
    async with Threadkeep(Config(store=str(store_file), model_context_window=4_000), hooks=noting(told)) as tk:
        client = talk(tk, "messages", rules=Rules(), x_claude_code_agent_id="explorer-7")
        for step in range(4):
            await client.ask(f"Step {step}. " + "Look at every file of it. " * 60)
        await client.ask("/compact")
        (thread_id,) = {facts.thread_id for facts in told}
    assert named(told) == [
        (str(event), {"session_id": thread_id, "agent_id": "explorer-7", "agent_type": ""}) for event in EVENTS[:2]
    ]


async def test_a_sub_agent_with_a_part_of_a_history_was_not_compacted(store_file: Path) -> None:
    """What keeps the rest out of its window is no compaction, so nothing starts anew after it."""
    told: list[Facts] = []
    async with Threadkeep(Config(store=str(store_file)), hooks=noting(told)) as tk:
        lead = await tk.thread("lead")
        await lead.record(turns(1, 4))
        child = await lead.spawn("Review it.", history=1)
        async with child.turn([]) as turn:
            window = await turn.window()
    assert (window.checkpoint is not None, told) == (True, [])
