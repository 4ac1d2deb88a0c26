"""Many agents write to each other in one store: nothing is lost, doubled or out of order.

At full size: `THREADKEEP_AGENTS=1000 THREADKEEP_MESSAGES=100000`, as `python -m benchmarks.agents` runs it with figures.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.agents import run_exchange
from threadkeep import Config, Threadkeep

pytestmark = pytest.mark.anyio

AGENTS = int(os.environ.get("THREADKEEP_AGENTS", "40"))
MESSAGES = int(os.environ.get("THREADKEEP_MESSAGES", "600"))


@pytest.mark.chaos
async def test_every_message_is_heard_once_and_in_order(store_file: Path) -> None:
    """While all of them are at work at the same time."""
    found = await run_exchange(store_file, agents=AGENTS, messages=MESSAGES)
    assert (found.heard, found.lost, found.doubled, found.disordered) == (MESSAGES, 0, 0, 0)
    async with Threadkeep(Config(store=str(store_file))) as tk:
        assert (await tk.verify()).problems == ()
