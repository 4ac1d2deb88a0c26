"""Conversations through the gateway after something in them was erased: pairs hold, and nothing is written again."""

from __future__ import annotations

import pytest
from tests.gateway.talking import talk, text_of, threads

from holdfast import Holdfast
from holdfast.runtime.retention import erase, plan_erasure
from holdfast.store import RecordKind
from holdfast.testing.script import call, say
from holdfast.testing.speech import WireName

pytestmark = pytest.mark.anyio

SECRET = "kadarkuti"
LONG = "The build is slow and the tests are slower, so look at every file of it. " * 12


async def erased(hf: Holdfast, thread_id: str, ordinals: list[int]) -> None:
    async def recompact(thread_id: str) -> object:
        return await (await hf.find(thread_id)).compact(strategy="extractive")

    plan = await plan_erasure(hf.backend, thread_id, ordinals)
    await erase(hf.backend, plan, reason="asked to", memories=hf.memory, recompact=recompact)


async def outputs_holding(hf: Holdfast, thread_id: str, word: str) -> list[int]:
    thread = await hf.find(thread_id)
    items = [record for record in await thread.records() if record.kind is RecordKind.ITEM and word.encode() in record.body]
    return [record.ordinal for record in items]


@pytest.mark.moves_prefix(reason="a checkpoint that quoted what was erased is superseded by a new one")
@pytest.mark.parametrize("wire", ["responses", "chat", "messages"])
async def test_a_conversation_goes_on_after_an_erasure(hf: Holdfast, wire: WireName) -> None:
    """Its provider, which refuses half a call, accepts every request, compacted or not; the store holds no word of it."""
    client = talk(hf, wire)
    await client.ask("Begin.", call("bash", {"command": "ls"}, call_id="c1"))
    await client.tool({"c1": f"the name is {SECRET}"}, say("Seen."))
    for turn in range(3):
        await client.ask(f"Step {turn}. {LONG}")
    (thread,) = await threads(hf)
    await erased(hf, thread.id, await outputs_holding(hf, thread.id, SECRET))
    await client.ask("Go on.")
    await client.ask("/compact")
    assert "Compacted" in client.answers[-1] or "compacted" in client.answers[-1]
    await client.ask("After it.")
    await erased(hf, thread.id, await outputs_holding(hf, thread.id, "Step 1."))
    await client.ask("And on.")
    fork = client.forked(length=4)
    await fork.ask("Another way.")
    for each in await threads(hf):
        assert all(SECRET.encode() not in record.body for record in await each.records())
    assert "Step 1." not in text_of([dict(item) for item in await (await hf.find(thread.id)).window()])
    assert (await hf.verify()).problems == ()
