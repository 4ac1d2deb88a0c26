"""Conversations through the gateway after something in them was erased: pairs hold, and nothing is written again."""

from __future__ import annotations

import pytest
from tests.doubles.script import call, say
from tests.doubles.wires import WireName
from tests.gateway.client import WIRES, talk, text_of, threads

from threadkeep import Threadkeep
from threadkeep.erasure.erase import erase, plan_erasure
from threadkeep.store import RecordKind

pytestmark = pytest.mark.anyio

SECRET = "kadarkuti"
LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12


async def erased(tk: Threadkeep, thread_id: str, ordinals: list[int]) -> None:
    async def recompact(thread_id: str) -> object:
        return await (await tk.find(thread_id)).compact(strategy="extractive")

    plan = await plan_erasure(tk.backend, thread_id, ordinals)
    await erase(tk.backend, plan, reason="asked to", memories=tk.memory, recompact=recompact)


async def outputs_holding(tk: Threadkeep, thread_id: str, word: str) -> list[int]:
    thread = await tk.find(thread_id)
    items = [record for record in await thread.records() if record.kind is RecordKind.ITEM and word.encode() in record.body]
    return [record.ordinal for record in items]


@pytest.mark.moves_prefix(reason="a checkpoint that quoted what was erased is superseded by a new one")
@pytest.mark.parametrize("wire", WIRES)
async def test_a_conversation_goes_on_after_an_erasure(tk: Threadkeep, wire: WireName) -> None:
    """Its provider, which refuses half a call, accepts every request, compacted or not; the store holds no word of it."""
    client = talk(tk, wire)
    await client.ask("Begin.", call("bash", {"command": "ls"}, call_id="c1"))
    await client.tool({"c1": f"the name is {SECRET}"}, say("Seen."))
    for turn in range(3):
        await client.ask(f"Step {turn}. {LONG}")
    (thread,) = await threads(tk)
    await erased(tk, thread.id, await outputs_holding(tk, thread.id, SECRET))
    await client.ask("Go on.")
    await client.ask("/compact")
    assert "Compacted" in client.answers[-1] or "compacted" in client.answers[-1]
    await client.ask("After it.")
    await erased(tk, thread.id, await outputs_holding(tk, thread.id, "Step 1."))
    await client.ask("And on.")
    fork = client.forked(length=4)
    await fork.ask("Another way.")
    for each in await threads(tk):
        assert all(SECRET.encode() not in record.body for record in await each.records())
    assert "Step 1." not in text_of([dict(item) for item in await (await tk.find(thread.id)).window()])
    assert (await tk.verify()).problems == ()
