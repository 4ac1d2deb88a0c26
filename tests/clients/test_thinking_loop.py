"""The newest Claude Code with its default model in a long tool loop, thinking before every call: no window waits for its end."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.clients.test_automatic import allowed
from tests.doubles.prefix_growth import prefix_faults
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CLAUDE_CODE_2_1_328

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

STEPS = 24
WINDOW = 26_000
DEMAND = "Never touch vendor/. Look at every list."


async def test_a_loop_that_thinks_is_compacted_on_its_way(tmp_path: Path, installed: Installed) -> None:
    """Every request fits the window and is accepted, the demand is in each, and each checkpoint moves the prefix once."""
    looking = [
        call(
            "Bash",
            {"command": f"seq {number} {number + 1_400}", "description": "look"},
            call_id=f"toolu_{number}",
            encrypted_reasoning=f"why {number}",
        )
        for number in range(STEPS)
    ]
    script = [*looking, say("All are fine.", encrypted_reasoning="so"), say("Nothing.")]
    flags = allowed(tmp_path, window=WINDOW)
    binary = await installed(CLAUDE_CODE_2_1_328)
    async with (
        ScriptedProvider(script, enforcing=True, counting=True, beside=titles) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url, flags=flags) as gateway,
    ):
        root = gateway.base_url.removesuffix("/v1")
        claude = ClaudeCode(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=root)
        first = await claude.turn(DEMAND)
        second = await claude.turn("What next?", resume=first.session_id)
    assert [first.text, second.text] == ["All are fine.", "Nothing."]
    assert provider.refusals == []
    requests = provider.requests
    assert max(len(request.raw) // 4 for request in requests) <= WINDOW
    states = [request.raw.split(b"<session_compact_state>")[1:2] for request in requests]
    assert sum(1 for one, other in pairwise(states) if bool(one) < bool(other) or (one and one != other)) >= 2
    assert prefix_faults(requests) == []
    assert [request for request in requests if "Never touch vendor/." not in json.dumps(request.history)] == []
    bindings = [request.body["thinking"].get("block_binding") for request in requests]
    assert sum(1 for one, other in pairwise(bindings) if one != other) == 1
