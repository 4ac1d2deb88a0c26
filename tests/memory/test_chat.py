"""`threadkeep chat` is shown what is remembered, unless it is told not to; from end to end, with no model and no network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.chat.chat_process import piped
from tests.doubles.model_server import ModelServer, streamed
from tests.memory.conftest import user

from threadkeep import Config, Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.memory.settings import MemorySettings

pytestmark = pytest.mark.anyio

RULE = "You must never rename the crate table."


async def remembered(store: Path) -> str:
    """Have a rule remembered in a store; return its name."""
    async with Threadkeep(Config(store=str(store))) as tk:
        await (await tk.thread("first")).record([user(RULE)])
        memories = Memories(tk.backend, MemorySettings(idle_ms=0))
        await memories.run()
        (memory,) = (await memories.state()).memories
        return memory.id


async def used(store: Path) -> int:
    async with Threadkeep(Config(store=str(store))) as tk:
        return sum(memory.used for memory in (await tk.memory.state()).memories)


async def test_a_chat_is_shown_what_is_remembered_and_counted_when_it_cites(tmp_path: Path) -> None:
    """The summary stands in the system's message and the tools are offered; the answer's citation is in the store."""
    name = await remembered(tmp_path / "chat.db")
    async with ModelServer([streamed("chat", f"No [memory:{name}].")]) as server:
        talked = await piped(tmp_path, "May I rename crate?\n", "--model", f"tiny@{server.origin}/v1")
    assert (talked.code, talked.err) == (0, "")
    system = [item["content"] for item in server.requests[0].history if item["role"] == "system"]
    assert RULE in system[0]
    offered = {tool["function"]["name"] for tool in server.requests[0].body["tools"]}
    assert {"recall", "memory_search", "memory_read"} <= offered
    assert await used(tmp_path / "chat.db") == 1


async def test_a_chat_may_be_told_to_go_without(tmp_path: Path) -> None:
    """With `chat_memory` off, nothing of it goes out."""
    await remembered(tmp_path / "chat.db")
    async with ModelServer([streamed("chat", "Yes.")]) as server:
        talked = await piped(tmp_path, "May I?\n", "--model", f"tiny@{server.origin}/v1", THREADKEEP_CHAT_MEMORY="off")
    assert talked.code == 0
    sent = json.dumps(server.requests[0].body)
    assert [word for word in ("crate", "memory_search") if word in sent] == []
