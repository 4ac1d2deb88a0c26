"""An agent that is shown what earlier threads left to remember, looks up the rest, and is counted when it cites."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.conftest import ManualClock
from tests.session.answers import DIALECTS, calling, outputs_of

from threadkeep import Config, Session, Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.memory.settings import DAY_MS, MemorySettings
from threadkeep.testing.scripted_model import ScriptedModel
from threadkeep.tokens import estimate_text

pytestmark = pytest.mark.anyio

HOUR_MS = 3_600_000
RULE = "You must never rename the crate table."
LATER = "You must never rename the shelf table."


async def remember(tk: Threadkeep, clock: ManualClock, thread: str, text: str) -> str:
    """Have something said in a thread that comes to rest, and remembered; return the memory's name."""
    said = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    await (await tk.thread(thread)).record([said])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    return next(memory.id for memory in (await tk.memory.state()).memories if memory.text == text)


def system_of(model: ScriptedModel, number: int) -> str:
    """Return what a request said beside its history: the instructions, and nothing a person or the model said."""
    body: dict[str, Any] = model.bodies[number]
    told = [item for item in body.get("messages", []) if item["role"] == "system"]
    return str([body.get("instructions"), body.get("system"), body.get("systemInstruction"), told])


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_new_thread_is_shown_what_is_remembered(tk: Threadkeep, clock: ManualClock, dialect: str) -> None:
    """Behind the instructions, with every request, in the same bytes; no record of the thread holds a word of it."""
    await remember(tk, clock, "first", RULE)
    async with ScriptedModel(["One.", "Two."], dialect=dialect) as model:
        session = await Session.open(tk, "t", model=model, instructions="Be brief.", memory=tk.memory)
        await session.ask("Begin.")
        await remember(tk, clock, "second", LATER)
        await session.ask("Go on.")
    assert system_of(model, 0) == system_of(model, 1)
    assert system_of(model, 0).index("Be brief.") < system_of(model, 0).index(RULE)
    assert LATER not in system_of(model, 1)
    assert all(b"crate table" not in record.body for record in await session.thread.records())
    views = [session.thread.dialect.view(item).text for item in (await session.thread.history()).items]
    assert views == ["Begin.", "One.", "Go on.", "Two."]


async def test_it_is_shown_only_where_it_is_asked_for(tk: Threadkeep, clock: ManualClock) -> None:
    """A session without memory has neither the summary nor its tools."""
    await remember(tk, clock, "first", RULE)
    async with ScriptedModel(["One."]) as model:
        session = await Session.open(tk, "t", model=model)
        await session.ask("Begin.")
    assert RULE not in str(model.bodies[0])
    assert list(session.tools) == ["recall"]


async def test_it_survives_a_restart_a_compaction_and_a_fork(tk: Threadkeep, clock: ManualClock) -> None:
    """A thread is shown what it began with as long as it lives, whatever else is remembered by then."""
    await remember(tk, clock, "first", RULE)
    async with ScriptedModel(["One.", "Two.", "Three."]) as model:
        session = await Session.open(tk, "t", model=model, memory=tk.memory)
        await session.ask("Begin.")
        call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": "{}"}
        await session.thread.record(
            [call, {"type": "function_call_output", "call_id": "c1", "output": "The build is slow. " * 400}]
        )
        await remember(tk, clock, "second", LATER)
        await session.thread.compact(strategy="extractive")
        again = await Session.open(tk, "t", model=model, memory=tk.memory)
        await again.ask("Go on.")
        fork = Session(await again.thread.fork(), model=model, memory=tk.memory)
        await fork.ask("Another way.")
    assert len({system_of(model, number) for number in range(3)}) == 1
    assert (RULE in system_of(model, 2), LATER in system_of(model, 2)) == (True, False)


async def test_a_thread_that_began_without_goes_on_without(tk: Threadkeep, clock: ManualClock) -> None:
    """What is there already is bound to what it was told; its model may still search."""
    async with ScriptedModel(["One.", calling("responses", ("c1", "memory_search", {"query": "crate"})), "Two."]) as model:
        session = await Session.open(tk, "t", model=model)
        await session.ask("Begin.")
        name = await remember(tk, clock, "first", RULE)
        later = await Session.open(tk, "t", model=model, memory=tk.memory)
        await later.ask("Go on.")
    assert "crate" not in system_of(model, 1)
    assert outputs_of("responses", list(await later.window())) == {"c1": f"{name} (rule) {RULE}"}


async def test_what_was_taken_back_is_shown_no_more(tk: Threadkeep, clock: ManualClock) -> None:
    """An edit reaches a session that is under way with its next turn."""
    await remember(tk, clock, "first", RULE)
    async with ScriptedModel(["One.", "Two.", "Three."]) as model:
        session = await Session.open(tk, "t", model=model, memory=tk.memory)
        await session.ask("Begin.")
        await tk.memory.edit("## Rules\n- Ask Ana first.\n")
        await session.ask("Go on.")
        await session.ask("And on.")
    assert (RULE in system_of(model, 1), "Ask Ana first." in system_of(model, 1)) == (False, True)
    assert system_of(model, 1) == system_of(model, 2)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_searches_and_reads_what_the_summary_leaves_out(tk: Threadkeep, clock: ManualClock, dialect: str) -> None:
    """Under a cap that has no room for any, both tools still find it, and say where it was said."""
    name = await remember(tk, clock, "first", RULE)
    asks = calling(
        dialect,
        ("c1", "memory_search", {"query": "may I rename crate?"}),
        ("c2", "memory_read", {"name": name}),
        ("c3", "memory_read", {"name": "m0000000000"}),
    )
    capped = Memories(tk.backend, MemorySettings(summary_tokens=10))
    async with ScriptedModel([asks, "No."], dialect=dialect) as model:
        session = await Session.open(tk, "t", model=model, memory=capped)
        await session.ask("May I?")
    assert RULE not in system_of(model, 0)
    assert outputs_of(dialect, list(await session.window())) == {
        "c1": f"{name} (rule) {RULE}",
        "c2": f"{name} (rule) {RULE}\nsaid in first#2",
        "c3": "No memory matches.",
    }


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_citations_count_and_disuse_retires(tk: Threadkeep, clock: ManualClock, dialect: str) -> None:
    """Each answer that cites a memory uses it once; what is never cited is gone after thirty days."""
    name = await remember(tk, clock, "first", RULE)
    await remember(tk, clock, "second", LATER)
    clock.ms += 20 * DAY_MS
    async with ScriptedModel(
        [f"No [memory:{name}] [memory:{name}].", f"Still no [memory:{name}].", "Yes."], dialect=dialect
    ) as model:
        session = await Session.open(tk, "t", model=model, memory=tk.memory)
        for question in ("May I?", "Sure?", "And the shelf?"):
            await session.ask(question)
    assert {memory.text: memory.used for memory in (await tk.memory.state()).memories} == {RULE: 2, LATER: 0}
    clock.ms += 20 * DAY_MS
    await tk.memory.run()
    assert [memory.text for memory in (await tk.memory.state()).memories] == [RULE]


async def test_the_cap_holds_for_what_goes_out(tmp_path: Path, clock: ManualClock) -> None:
    """However much is remembered, what a request carries of it costs no more than was set, and is counted in its window."""
    async with Threadkeep(Config(store=str(tmp_path / "s.db"), memory_summary_tokens=120), clock=clock) as tk:
        for number in range(20):
            await remember(tk, clock, f"thread-{number}", f"You must never rename table number {number} of the archive.")
        async with ScriptedModel(["One."], dialect="chat") as model:
            session = await Session.open(tk, "t", model=model, memory=tk.memory)
            await session.ask("Begin.")
        (told,) = [item["content"] for item in model.bodies[0]["messages"] if item["role"] == "system"]
    assert 0 < estimate_text(told) <= 120
    assert "more: search the memory)" in told


async def test_a_store_without_memory_changes_nothing(tk: Threadkeep) -> None:
    """Nothing remembered, nothing shown, and nothing recorded for it."""
    async with ScriptedModel(["One."]) as model:
        session = await Session.open(tk, "t", model=model, instructions="Be brief.", memory=tk.memory)
        await session.ask("Begin.")
    assert model.bodies[0]["instructions"] == "Be brief."
    assert [row.id for row in await tk.backend.store.threads(limit=9)] == ["t"]
