"""What the state says of the work is said once, and does not grow from one compaction to the next."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.doubles.script import call, say
from tests.gateway.client import WIRES, talk, text_of

if TYPE_CHECKING:
    from tests.doubles.wires import WireName

    from threadkeep import Threadkeep

pytestmark = pytest.mark.anyio

LONG = "The build log follows for reference. " * 40


@pytest.mark.parametrize("wire", WIRES)
async def test_a_shell_call_is_named_once_and_requests_do_not_grow(tk: Threadkeep, wire: WireName) -> None:
    """A command of the last turns stands in one line of the state; after the ninth compaction as after the third."""
    client = talk(tk, wire)
    sizes = []
    for turn in range(9):
        await client.ask(
            f"Never touch folder{turn}/. {LONG if turn < 3 else ''}",
            call("bash", {"cmd": f"make check-{turn}"}, call_id=f"call_{turn}"),
        )
        await client.tool({f"call_{turn}": f"passed in {turn} s"}, say(f"Done with {turn}."))
        await client.ask("/compact")
        await client.ask("Go on.", say("Going on."))
        if turn < 2:
            continue
        shown = text_of(client.provider.last)
        start, stop = shown.find("<session_compact_state>"), shown.rfind("</session_compact_state>")
        assert 0 <= start < stop
        assert shown[start:stop].count(f"make check-{turn}") <= 1
        sizes.append(len(json.dumps(client.provider.last)))
    # What a person said is added, nothing else.
    assert max(sizes) <= sizes[0] + 6 * 100, sizes
