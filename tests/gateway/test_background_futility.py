"""A compaction in the background that gains nothing is not begun again for the same window."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.gateway.client import WIRES, answer, person, talk

from threadkeep import Config, Threadkeep
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.gateway.conversation.proxy_interface import Forward
from threadkeep.gateway.conversation.rules import Rules

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.doubles.wires import WireName

pytestmark = pytest.mark.anyio

# Between the soft and the hard limit of a window of 4,000 tokens.
HUGE = "Read this. " + "word " * 2_450


@pytest.mark.parametrize("wire", WIRES)
async def test_what_gained_nothing_in_the_background_is_left_until_the_window_has_grown(
    store_file: Path, clock: ManualClock, wire: WireName
) -> None:
    """Four requests with one huge message begin one compaction; what comes later begins the next, and other threads their own."""
    begun: list[CompactionAttempt] = []

    class Watching(CompactionObserver):
        def started(self, attempt: CompactionAttempt) -> None:
            begun.append(attempt)

    config = Config(store=str(store_file), model_context_window=4_000)
    async with Threadkeep(config, clock=clock) as opened:
        tk = await opened.for_tenant("watched", observer=Watching())
        client = talk(tk, wire, rules=Rules(auto_compact="background"))

        async def begun_after_sending() -> int:
            assert isinstance(await client.open(), Forward)
            await client.conversations.compactions.wait_idle()
            return len(begun)

        client.history = [person(wire, HUGE)]
        assert [await begun_after_sending() for _ in range(4)] == [1, 1, 1, 1]
        client.history += [answer(wire, "Read."), person(wire, "And this. " + "word " * 400)]
        assert await begun_after_sending() == 2
        client.history = [person(wire, f"Something else. {HUGE}")]
        assert await begun_after_sending() == 3
