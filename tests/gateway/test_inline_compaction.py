"""A client whose provider compacts on the way to an answer (`context_management`), through the gateway."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.doubles.provider_rules import ProviderRules
from tests.gateway.client import Client, answer, person, talk, text_of, threads
from tests.gateway.test_continuation import DEMAND, LONG, rewritten

from threadkeep.dialects import find_dialect
from threadkeep.gateway.conversation.proxy_interface import Forward

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
# No provider compacts Chat Completions by itself.
OFFERED: tuple[WireName, ...] = ("responses", "messages")
SEALED = "c2VhbGVk" * 12


def compacted(wire: WireName, text: str) -> list[Json]:
    """An answer in whose middle the provider compacted."""
    if wire == "messages":
        block = {"type": "compaction", "content": None, "encrypted_content": SEALED}
        return [{"role": "assistant", "content": [block, {"type": "text", "text": text}]}]
    return [{"type": "compaction", "id": "cmp_1", "encrypted_content": SEALED}, answer(wire, text)]


async def asked(client: Client, text: str, items: list[Json]) -> None:
    """Say something, and have the provider answer with these items."""
    client.history.append(person(client.wire, text))
    decision = await client.open()
    assert isinstance(decision, Forward)
    whole: Json = {"id": "resp_1", "status": "completed", "output": items}
    if client.wire == "messages":
        whole = {"id": "msg_1", "type": "message", "stop_reason": "end_turn", **items[0]}
    await decision.finished(find_dialect(client.wire).wire.read_reply(json.dumps(whole).encode()))
    client.history.extend(items)


async def worked(client: Client) -> None:
    client.provider.rules = ProviderRules(issued=[SEALED])
    await client.ask(f"{DEMAND} Begin with the readme.")
    for turn in range(3):
        await client.ask(f"Step {turn}. {LONG}")
    await asked(client, f"Step 4. {LONG}", compacted(client.wire, "Going on after a rest."))


@pytest.mark.parametrize("wire", OFFERED)
async def test_a_history_with_it_goes_upstream_as_it_is(tk: Threadkeep, wire: WireName) -> None:
    """What the provider wrote for itself is in no way touched."""
    client = talk(tk, wire)
    await worked(client)
    await client.ask("And now?")
    assert client.provider.requests[-1].raw == client.forked(length=-1).body()
    assert len(await threads(tk)) == 1


@pytest.mark.parametrize("wire", OFFERED)
async def test_a_compaction_of_ours_does_not_leave_it_in_front_of_the_state(tk: Threadkeep, wire: WireName) -> None:
    """Its provider reads nothing before it: the state, and what a person demanded, would be unseen."""
    client = talk(tk, wire)
    await worked(client)
    await client.ask("And now?")
    await client.ask("/compact")
    await client.ask("What must not be touched?")
    told = text_of(client.provider.last)
    assert DEMAND in told
    assert SEALED not in told
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("wire", OFFERED)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.moves_prefix(reason="the client drops what the provider no longer reads")
async def test_a_client_that_drops_what_stood_before_it_goes_on_in_the_same_story(
    tk: Threadkeep, wire: WireName, *, named: bool
) -> None:
    """The provider's own advice. What was demanded before is remembered, and is in the state after the next compaction."""
    client = talk(tk, wire, x_session_id="ses_1") if named else talk(tk, wire)
    await worked(client)
    client.history = compacted(wire, "Going on after a rest.")
    for turn in range(4):
        await client.ask(f"Later {turn}. {LONG}")
    assert await rewritten(tk) == [1]
    await client.ask("/compact")
    await client.ask("What must not be touched?")
    assert DEMAND in text_of(client.provider.last)
