"""A tool output that no window holds: what the model gets of it fits the room there is."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, talk

from threadkeep import Config, Threadkeep
from threadkeep.gateway.conversation.rules import Rules
from threadkeep.tokens import estimate_bytes

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

WINDOW = 40_000


@pytest.fixture
async def small() -> AsyncIterator[Threadkeep]:
    async with Threadkeep(Config(store="memory:", model_context_window=WINDOW)) as tk:
        yield tk


def make_log(name: str, lines: int) -> str:
    return "\n".join(f"{name} line {number}: key{number} is {number * 7919 % 10_007}" for number in range(lines))


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.moves_prefix(reason="each output makes a checkpoint, of a size and with a state like the one before")
async def test_an_output_larger_than_the_window_keeps_head_and_tail(small: Threadkeep, wire: WireName) -> None:
    """Three quarters of the limit are used, no request is over it, and what is said next repeats the same bytes."""
    client = talk(small, wire, rules=Rules(auto_compact="on"))
    await client.ask("Never touch vendor/. Find the port.", call("bash", {"cmd": "cat log"}, call_id="call_1"))
    for name in ("first", "second"):
        read = call("bash", {"cmd": "cat more"}, call_id="call_2") if name == "first" else say("Found it.")
        await client.tool({"call_1" if name == "first" else "call_2": make_log(name, 9_000)}, read)
        sent = client.provider.requests[-1]
        shown = json.dumps(sent.history)
        assert 0.7 * 0.9 * WINDOW < estimate_bytes(len(sent.raw)) <= 0.9 * WINDOW
        assert [f"{name} line {number}: key" in shown for number in (0, 50, 4_500, 8_950, 8_999)] == [
            True,
            True,
            False,
            True,
            True,
        ]
        assert "Never touch vendor/." in shown
    await client.ask("Go on.")
    assert json.dumps(client.provider.last).startswith(shown[:-1])
