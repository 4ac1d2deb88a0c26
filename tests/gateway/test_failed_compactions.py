"""A compaction in the path of requests that asks a model and comes to nothing: its bill is recorded, the conversation goes on."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from tests.gateway.client import WIRES, records, talk

from threadkeep import Config, Threadkeep
from threadkeep.gateway.control.events import follow
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.gateway.conversation.thread_cache import load_known
from threadkeep.store import RecordKind
from threadkeep.testing.scripted_model import ScriptedModel, says
from threadkeep.threads import is_failed_attempt

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

# Past the hard limit of a window of 4,000 tokens, and a person's own words, which no summary shortens.
HUGE = "Read this. " + "word " * 3_400
PRICED = says("Something was read.", input_tokens=5_000, output_tokens=20, cached_tokens=4_500, cost_usd=0.02)


@pytest.mark.parametrize("wire", WIRES)
async def test_the_conversation_goes_on_in_its_thread_as_if_nothing_had_been_written(
    store_file: Path, clock: ManualClock, wire: WireName
) -> None:
    """One thread, every request in it once, the provider's newest count still known; and what was paid stands beside it."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_user_message_tokens=20_000)
    async with Threadkeep(config, clock=clock) as tk, ScriptedModel([PRICED], dialect=wire, window_tokens=200_000) as model:
        object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, model=model, strategy="handoff"))
        client = talk(tk, wire, rules=Rules(auto_compact="on"))
        await client.ask("Look around.")
        await client.ask(HUGE)
        (before,) = await records(tk)
        (paid,) = [record for record in before if is_failed_attempt(record)]
        await client.ask("And what now?")
        (after,) = await records(tk)
    assert after[: len(before)] == before
    assert [record.ordinal for record in after if is_failed_attempt(record)] == [paid.ordinal]
    assert [record.depth for record in after if record.kind is RecordKind.ITEM] == [1, 2, 3, 4, 5]
    sent = [len(request.history) for request in client.provider.requests]
    assert [length - sent[0] for length in sent] == [0, 2, 4]


@pytest.mark.parametrize("wire", WIRES)
async def test_what_the_provider_counted_last_is_known_after_it(store_file: Path, clock: ManualClock, wire: WireName) -> None:
    """A gateway that starts anew reads the answer of the turn, not the bill behind it; who follows is told that."""
    config = Config(store=str(store_file), model_context_window=4_000, compact_user_message_tokens=20_000)
    async with Threadkeep(config, clock=clock) as tk, ScriptedModel([PRICED], dialect=wire, window_tokens=200_000) as model:
        object.__setattr__(tk.backend, "policy", replace(tk.backend.policy, model=model, strategy="handoff"))
        client = talk(tk, wire, rules=Rules(auto_compact="on"))
        await client.ask("Look around.")
        (row,) = await tk.backend.store.threads()
        before = await load_known(tk.backend, row.id, seed=b"")
        await client.ask(HUGE)
        (written,) = await records(tk)
        (paid,) = [record for record in written if is_failed_attempt(record)]
        known = await load_known(tk.backend, row.id, seed=b"", stop=paid.ordinal + 1)
        told = await told_of(tk, row.id, paid.ordinal)
    assert (known.usage, known.active, known.tip.depth) == (before.usage, None, 3)
    assert before.usage is not None
    attempts = [(each["strategy"], each["outcome"], each.get("cost_micro_usd")) for each in told["figures"].pop("attempts")]
    assert (told["kind"], told["figures"]) == ("reply", {"outcome": "nothing_to_compact"})
    assert attempts == [("handoff", "nothing_to_compact", 20_000), ("extractive", "nothing_to_compact", None)]


async def told_of(tk: Threadkeep, thread_id: str, ordinal: int) -> dict[str, Any]:
    """Return what whoever follows a thread is told of a record."""
    stopping, found = asyncio.Event(), []
    async for page in follow(tk.backend.store, thread_id, after=ordinal - 1, stopping=stopping):
        found += [line.removeprefix("data: ") for line in page.decode().splitlines() if line.startswith("data: ")]
        if found:
            stopping.set()
    told: dict[str, Any] = json.loads(found[0])
    return told
