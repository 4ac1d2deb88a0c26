"""A provider's answer, item by item: what is whole is history while the rest is still coming in."""

from __future__ import annotations

import asyncio

import pytest
from tests.doubles.model_server import ModelServer, events
from tests.histories import answered, reasoning, said

from threadkeep import Session, Threadkeep
from threadkeep.llm import open_model
from threadkeep.testing.model_checks import EVENTS, HttpReply

pytestmark = pytest.mark.anyio


async def test_an_item_is_history_while_its_provider_still_speaks(tk: Threadkeep) -> None:
    """The thought is recorded while the rest of the answer is held back; mail that waits ends it there, and is heard."""
    pytest.importorskip("openai")
    thread = await tk.thread("t")
    begun = events({"type": "response.output_item.done", "output_index": 0, "item": reasoning("r1")}).chunks
    over = asyncio.Event()
    hanging = HttpReply(headers=EVENTS, chunks=begun, hold=over)
    done = {"id": "r", "status": "completed", "output": [answered("Done.")]}
    ending = events(
        {"type": "response.output_item.done", "output_index": 0, "item": answered("Done.")},
        {"type": "response.completed", "response": done},
    )
    async with ModelServer([hanging, ending]) as server:
        environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{server.origin}/v1"}
        async with open_model("openai:m-1", environ=environ) as model:
            session = Session(thread, model=model, recall=False)
            await (await tk.thread("t")).deliver("Wrong file.", sender="reviewer")
            answer = await session.ask("Fix it.")
        over.set()
    assert answer.text == "Done."
    shown = [thread.dialect.parse(item) for item in (said("Fix it."), reasoning("r1"))]
    assert list((await thread.history()).items)[:2] == shown
    assert "Wrong file." in str(server.requests[1].history)
