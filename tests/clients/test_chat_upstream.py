"""Codex and Claude Code, with the models they choose by themselves, on a server that speaks Chat Completions alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import call, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CLAUDE_CODE_2_1_328, CODEX_0_169

from threadkeep import Config, Threadkeep

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.clients,
    pytest.mark.moves_prefix(reason="a checkpoint is made by the client's own compaction"),
]

RULE = "Never touch vendor/. Staging listens on 7443."
LONG = "The build log follows for reference. " * 400


@pytest.mark.parametrize(("upstream_dialect", "websocket"), [("auto", "auto"), ("chat", "auto"), ("chat", "on")])
async def test_codex_compacts_remotely_with_a_server_that_has_no_compaction(
    installed: Installed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, upstream_dialect: str, websocket: str
) -> None:
    """A shell command, a script in free text and Codex' own compaction: the server gets rule, state and recent work, in pairs."""
    monkeypatch.setenv("THREADKEEP_UPSTREAM_DIALECT", upstream_dialect)
    monkeypatch.setenv("THREADKEEP_GATEWAY_WEBSOCKET", websocket)
    script = [
        call("exec", {"input": "text('anch' + 'ored')"}, call_id="call_1"),
        say("one " + LONG),
        say("two"),
        say("three"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True, only_chat=True) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        codex = CodexCli(
            await installed(CODEX_0_169),
            home=tmp_path / "home",
            cwd=tmp_path / "work",
            base_url=gateway.base_url,
            provider_name="OpenAI",
            remote_v2=True,
            websockets=True,
            model=None,
        )
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            turns = [await server.turn(thread_id, RULE)]
            turns += [await server.compact(thread_id)]
            turns += [await server.turn(thread_id, text) for text in ("TWO", "THREE")]
    assert [turn.status for turn in turns] == ["completed"] * 4
    assert provider.refusals == []
    assert "anchored" in str(provider.requests[1].body["messages"][-1])
    for request in provider.requests[-2:]:
        sent = str(request.body["messages"])
        assert [word in sent for word in ("session_compact_state", RULE, LONG, "threadkeep:")] == [True, True, False, False]
        assert {"exec", "wait"} < {tool["function"]["name"] for tool in request.body["tools"]}
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        assert [(thread.dialect, thread.checkpoints) for thread in await tk.threads()] == [("responses", 1)]


async def test_claude_code_with_context_management(installed: Installed, tmp_path: Path) -> None:
    """It asks for its history to be managed in every request, calls a tool, and is compacted: the server is asked for none."""
    script = [
        say("one"),
        call("Bash", {"command": "echo anch''ored", "description": "look"}, call_id="toolu_1"),
        say("two " + LONG),
        say("three"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True, only_chat=True, beside=titles) as provider,
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
    assert provider.refusals == []
    assert "anchored" in str(provider.requests[2].body["messages"][-1])
    assert all(RULE in str(request.body["messages"]) for request in provider.requests)
    assert "session_compact_state" in str(provider.requests[-1].body["messages"])
