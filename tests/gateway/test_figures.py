"""How full a window is: one figure in the chat, on the command line and in the viewer, with system text and tools in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest
from tests.doubles.script import say
from tests.gateway.client import WIRES, Client, talk, threads

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.rules import AutoCompact, Rules
from threadkeep.threads.pressure import measure_recorded_pressure

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

TOOLS = [{"name": "bash", "description": "Runs a command. " * 400, "input_schema": {"type": "object"}}]


async def read_status(client: Client) -> tuple[int, int]:
    """Return what `tk status` says: tokens, and of how many."""
    await client.ask("tk status")
    found = re.search(r"Window: ([\d,]+) of ([\d,]+) tokens", client.answers[-1])
    assert found is not None
    return int(found[1].replace(",", "")), int(found[2].replace(",", ""))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("compacted", [False, True])
async def test_the_chat_and_the_records_say_the_same_figure(tk: Threadkeep, wire: WireName, *, compacted: bool) -> None:
    """Before and after a compaction, corrected by what the provider counted."""
    client = talk(tk, wire, rules=Rules(auto_compact="on"))
    for turn in range(4):
        await client.ask(f"Step {turn}. {'The log follows. ' * 100}", say("done", input_tokens=5_000 + turn * 400))
    if compacted:
        await client.ask("/compact")
        await client.ask("Go on.", say("done", input_tokens=3_000))
    told = await read_status(client)
    [thread] = await threads(tk)
    recorded = await measure_recorded_pressure(tk.backend, thread.id)
    assert (recorded.tokens, recorded.limits.full) == told


@pytest.mark.parametrize("configured", [None, 50_000])
async def test_a_claude_model_has_the_window_its_client_asks_for(configured: int | None) -> None:
    """200,000 tokens, or a million where the request says so, unless a person chose; tools count."""
    config = Config(store="memory:") if configured is None else Config(store="memory:", model_context_window=configured)
    full, long = (190_000, 950_000) if configured is None else (47_500, 47_500)
    async with Threadkeep(config) as tk:
        client = talk(tk, "messages")
        client.fields["tools"] = TOOLS
        await client.ask("Begin.")
        told = await read_status(client)
        assert (told[0] > 1_500, told[1]) == (True, full)
        client.headers["anthropic-beta"] = "interleaved-thinking-2025-05-14,context-1m-2025-08-07"
        await client.ask("Go on.")
        assert (await read_status(client))[1] == long
        [thread] = await threads(tk)
        assert (await measure_recorded_pressure(tk.backend, thread.id)).limits.full == long


async def test_a_window_that_a_provider_lists_counts_for_every_face(tk: Threadkeep) -> None:
    """What one process learned from a list stands in the records, for another that never asked."""
    client = talk(tk, "chat")
    tk.backend.add_windows({"m": 32_768})
    await client.ask("Begin.")
    tk.backend.listed.clear()
    [thread] = await threads(tk)
    assert (await measure_recorded_pressure(tk.backend, thread.id)).limits == tk.backend.of_window(32_768)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_status_says_why_a_compaction_waits(wire: WireName) -> None:
    """One request larger than the window leaves nothing to compact; and where nothing is allowed to, it says so."""
    async with Threadkeep(Config(store="memory:", model_context_window=2_000)) as tk:
        for mode, reason in (("on", "nothing to compact"), ("off", "automatic compaction is off for this conversation")):
            client = talk(tk, wire, rules=Rules(auto_compact=cast(AutoCompact, mode)))
            await client.ask(f"{mode}: {'The build log follows. ' * 400}")
            await client.ask("tk status")
            assert "A compaction is due and waits: " in client.answers[-1]
            assert reason in client.answers[-1]
