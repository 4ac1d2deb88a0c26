"""The real Codex over WebSocket, with its default model, through the gateway to providers with and without WebSocket."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, say
from tests.drivers.codex import CodexCli
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_169

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

RULE = "Never touch vendor/. Staging listens on 7443."
LONG_ASK = "Run the check. " + "The build log follows for reference. " * 400
HEAD = ["additional_tools", *["message"] * 4]


@pytest.mark.moves_prefix(reason="two sessions go on from one, and one of them is compacted")
@pytest.mark.parametrize("transport", ["http", "websocket"])
async def test_a_session_with_a_tool_a_broken_answer_a_compaction_and_a_fork(
    tmp_path: Path, installed: Installed, monkeypatch: pytest.MonkeyPatch, transport: str
) -> None:
    """Each process connects anew and sends its history; within a turn only what is new. The provider gets all, every time."""
    monkeypatch.setenv("THREADKEEP_GATEWAY_WEBSOCKET", "on")
    script = [
        say("one done"),
        call("exec_command", {"cmd": "echo anchored"}, call_id="call_1"),
        Reply(items=say("half").items, drop=True),
        say("two done"),
        say("three done"),
        say("four done"),
        call("exec_command", {"cmd": "echo still anchored"}, call_id="call_2"),
        say("five done"),
        say("other done"),
    ]
    binary = await installed(CODEX_0_169)
    async with (
        ScriptedProvider(script, enforcing=True, sockets=transport == "websocket") as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):

        def codex(home: str) -> CodexCli:
            return CodexCli(
                binary, home=tmp_path / home, cwd=tmp_path / "work", base_url=gateway.base_url, model=None, websockets=True
            )

        first = codex("home")
        runs = [await first.exec(RULE), await first.resume("TWO")]
        # Codex indexes its sessions by absolute paths, and makes the index anew where it is missing.
        shutil.copytree(tmp_path / "home", tmp_path / "other", ignore=shutil.ignore_patterns("*.sqlite*"))
        runs += [await first.resume(text) for text in (LONG_ASK, "THREE", "tk compact mind the port", "FIVE")]
        runs.append(await codex("other").resume("OTHER"))
    assert [run.exit_code for run in runs] == [0] * 7
    assert [run.last_message for run in runs[:4]] == ["one done", "two done", "three done", "four done"]
    assert (runs[4].last_message or "").startswith("Compacted")
    assert [run.last_message for run in runs[5:]] == ["five done", "other done"]
    histories = [request.input for request in provider.requests]
    assert [[item["type"] for item in history[:5]] for history in histories] == [HEAD] * 9
    assert all(RULE in str(history) for history in histories)
    assert ["session_compact_state" in str(history) for history in histories] == [False] * 6 + [True, True, False]
    assert [text in str(histories[-1]) for text in ("TWO", "OTHER", "THREE", "FIVE")] == [True, True, False, False]
    assert not any("tk compact" in str(history) for history in histories)
    assert not any("previous_response_id" in request.body for request in provider.requests)
    assert any(len(frame["input"]) == 1 for frame in provider.socket_frames) == (transport == "websocket")
