"""Claude Code asks its provider to manage the history in every request; with one that refuses, it works all the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CLAUDE_CODE_2_1_328

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

RULE = "Never touch vendor/. Staging listens on 7443."


async def test_a_provider_without_context_management(installed: Installed, tmp_path: Path) -> None:
    """The first refusal is answered by asking again without the field and its header; later requests never have them."""
    script = [
        say("one"),
        call("Bash", {"command": "echo anchored", "description": "look"}, call_id="toolu_1"),
        say("two " + "The build log follows for reference. " * 400),
        say("three"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True, manages=False, beside=titles) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        client = ClaudeCode(
            await installed(CLAUDE_CODE_2_1_328),
            home=tmp_path / "home",
            cwd=tmp_path / "work",
            base_url=gateway.base_url.removesuffix("/v1"),
        )
        runs = [await client.turn(RULE)]
        runs += [await client.turn(text, resume=runs[0].session_id) for text in ("TWO", "tk compact", "THREE")]
    assert [(run.text or "")[:5] for run in runs] == ["one", "two T", "Compa", "three"]
    refused, *served = provider.requests
    assert "context_management" in refused.body
    assert ["context_management" in request.body for request in served] == [False] * 4
    assert not any("context-management" in request.headers["anthropic-beta"] for request in served)
    assert all(RULE in str(request.history) for request in served)
    assert "session_compact_state" in str(served[-1].history)
