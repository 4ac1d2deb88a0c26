"""The newest Codex with the model it chooses by itself: tools and instructions arrive among the items of its history."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.codex import CodexCli
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_169

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

LONG_ASK = "Run the check. " + "The build log follows for reference. " * 400
HEAD = [("additional_tools", "developer"), *[("message", "developer")] * 4]


async def test_tools_and_instructions_begin_every_request(tmp_path: Path, installed: Installed) -> None:
    """Five turns, two with a command that really runs, and `/compact` in the middle: the head is the same in every request."""
    script = [
        say("one done"),
        call("exec_command", {"cmd": "echo anchored"}, call_id="call_1"),
        say("two done"),
        say("three done"),
        say("four done"),
        call("exec_command", {"cmd": "echo still anchored"}, call_id="call_2"),
        say("five done"),
    ]
    binary = await installed(CODEX_0_169)
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        codex = CodexCli(binary, home=tmp_path / "home", cwd=tmp_path / "work", base_url=gateway.base_url, model=None)
        runs = [await codex.exec("Never touch vendor/. Staging listens on 7443.")]
        runs += [await codex.resume(text) for text in (LONG_ASK, "THREE", "/compact mind the port", "FOUR", "FIVE")]
    assert [run.exit_code for run in runs] == [0] * 6
    assert (runs[3].last_message or "").startswith("Compacted: ")
    histories = [request.input for request in provider.requests]
    head = histories[0][:5]
    assert [(item["type"], item["role"]) for item in head] == HEAD
    assert [history[:5] for history in histories] == [head] * 7
    assert ["session_compact_state" in str(history[6]) for history in histories] == [False] * 4 + [True] * 3
    kinds = [item["type"] for item in histories[-1]]
    assert kinds.count("additional_tools") == 1
    assert "Never touch vendor/." in str(histories[-1])
