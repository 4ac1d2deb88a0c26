"""The real Codex CLI through a gateway whose models recall: its sessions go on, and it never hears of the tool."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, message, reasoning, say
from tests.drivers.codex import CodexCli
from tests.drivers.gateway_process import gateway_process

from threadkeep.gateway.conversation.recall_tool import NAME

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

FACT = "The staging port is 7443."


async def test_codex_goes_on_after_its_model_recalled(
    codex_at: Callable[[str], CodexCli], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three turns, each in a process of its own, are one history for the provider, with what was recalled in its place."""
    monkeypatch.setenv("THREADKEEP_GATEWAY_RECALL_TOOL", "yes")
    recalled = {"type": "function_call", "name": NAME, "arguments": json.dumps({"query": "staging port"}), "call_id": "call_r"}
    script = [
        say("noted"),
        Reply(items=(reasoning("SEALED"), message("Let me look."), recalled)),
        call("exec_command", {"cmd": "echo anchored"}, call_id="call_e"),
        say("It is 7443."),
        say("welcome"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        codex = codex_at(gateway.base_url)
        runs = [await codex.exec(FACT), await codex.resume("Which port does staging use?"), await codex.resume("Thanks.")]
    assert [(run.exit_code, run.last_message) for run in runs] == [(0, "noted"), (0, "It is 7443."), (0, "welcome")]
    last = [item for item in provider.requests[-1].input if item.get("call_id") == "call_r"]
    assert [item["type"] for item in last] == ["function_call", "function_call_output"]
    assert FACT in last[1]["output"]
    assert NAME not in "".join(json.dumps(event) for run in runs for event in run.events)
