"""Many agents write to each other in one store: nothing is lost, doubled or out of order.

At full size: `HOLDFAST_AGENTS=1000 HOLDFAST_MESSAGES=100000`, as `python -m holdfast.bench.agents` runs it with figures.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast import Config, Holdfast
from holdfast.bench.agents import run_exchange

pytestmark = pytest.mark.anyio

AGENTS = int(os.environ.get("HOLDFAST_AGENTS", "40"))
MESSAGES = int(os.environ.get("HOLDFAST_MESSAGES", "600"))


@pytest.mark.chaos
async def test_every_message_is_heard_once_and_in_order(store_file: Path) -> None:
    """While all of them are at work at the same time."""
    found = await run_exchange(store_file, agents=AGENTS, messages=MESSAGES)
    assert (found.heard, found.lost, found.doubled, found.disordered) == (MESSAGES, 0, 0, 0)
    async with Holdfast(Config(store=str(store_file))) as hf:
        assert (await hf.verify()).problems == ()
