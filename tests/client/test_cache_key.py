"""The prompt-cache key outlives the process: a provider's cache is warm when an agent comes back."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from tests.doubles.wires import WireName
from tests.gateway.client import talk
from tests.histories import turns

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.rules import Rules

pytestmark = pytest.mark.anyio

ASKED = """
import asyncio, sys
from threadkeep import Config, Threadkeep

async def main():
    async with Threadkeep(Config(store=sys.argv[1])) as tk:
        thread = await tk.thread("t")
        print(thread.cache_key, (await thread.window()).cache_key)

asyncio.run(main())
"""


async def test_the_cache_key_survives_a_restart(store_file: Path) -> None:
    """After a compaction and a restart the thread and its window have the same key, in another process too."""
    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config) as first:
        thread = await first.thread("t")
        await thread.record(turns(1, 4))
        key = thread.cache_key
        await thread.compact()
    async with Threadkeep(config) as second:
        resumed = await second.thread("t")
        assert (resumed.cache_key, (await resumed.window()).cache_key) == (key, key)
    asked = await anyio.run_process([sys.executable, "-c", ASKED, str(store_file)])
    assert asked.stdout.decode().split() == [key, key]


@pytest.mark.parametrize("wire", ["responses", "chat"])
async def test_the_key_a_gateway_makes_survives_a_restart(store_file: Path, wire: WireName) -> None:
    """A client that sends no key gets the same one from a restarted gateway on the same store."""
    config, rules = Config(store=str(store_file)), Rules(derives_cache_key=True)
    async with Threadkeep(config) as first:
        client = talk(first, wire, rules=rules)
        await client.ask("Begin.")
        await client.ask("Go on.")
        await client.conversations.close()
    async with Threadkeep(config) as second:
        client.conversations = talk(second, wire, rules=rules).conversations
        await client.ask("And on.")
        await client.conversations.close()
    keys = [request.body["prompt_cache_key"] for request in client.provider.requests]
    assert len(keys) == 3
    assert len(set(keys)) == 1
