"""Codex asks a provider named OpenAI to compact for it; with one that cannot, the gateway does."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, http_error, say
from tests.drivers.codex import CodexCli
from tests.drivers.codex_app_server import app_server
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CODEX_0_150, CODEX_0_166, CODEX_0_169, NpmClient

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

RULE = "Never touch vendor/. Staging listens on 7443."
LONG = "The build log follows for reference. " * 400


@pytest.mark.parametrize(
    ("client", "model", "lacking"),
    [
        pytest.param(CODEX_0_150, "mock-model", http_error(404, "Not Found"), id="0.150.1, endpoint"),
        pytest.param(CODEX_0_166, "mock-model", http_error(400, "no item type compaction_trigger"), id="0.166.0, trigger"),
        pytest.param(CODEX_0_169, None, say("Compact what?"), id="0.169.0 with its own model, trigger"),
    ],
)
async def test_remote_compaction_works_with_a_provider_that_cannot(
    client: NpmClient, model: str | None, lacking: Reply, installed: Installed, tmp_path: Path
) -> None:
    """Codex keeps an item that names our checkpoint; the provider gets rule, state and recent work, and one thread goes on."""
    script = [
        call("exec_command", {"cmd": "echo anchored"}, call_id="call_1"),
        say("one " + LONG),
        lacking,
        say("two"),
        say("three"),
    ]
    async with (
        ScriptedProvider(script, enforcing=True) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        codex = CodexCli(
            await installed(client),
            home=tmp_path / "home",
            cwd=tmp_path / "work",
            base_url=gateway.base_url,
            provider_name="OpenAI",
            remote_v2=client is not CODEX_0_150,
            model=model,
        )
        async with app_server(codex) as server:
            thread_id = await server.start(cwd=str(codex.cwd))
            turns = [await server.turn(thread_id, RULE)]
            turns += [await server.compact(thread_id)]
            turns += [await server.turn(thread_id, text) for text in ("TWO", "THREE")]
    assert [turn.status for turn in turns] == ["completed"] * 4
    for request in provider.requests[-2:]:
        sent = str(request.input)
        assert [word in sent for word in ("session_compact_state", RULE, LONG, "threadkeep:")] == [True, True, False, False]
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        assert [thread.checkpoints for thread in await tk.threads()] == [1]
