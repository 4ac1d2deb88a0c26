"""Real clients from npm start the server by themselves, and their model gets back what was compacted away."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.clients.conftest import CODEX, Installed, installed, installed_once
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, say
from tests.drivers.claude_code import ClaudeCode
from tests.drivers.codex import CodexCli
from tests.drivers.npm import CLAUDE_CODE, OPENCODE
from tests.drivers.process import run_to_end
from tests.mcp.sessions import NEEDLE

__all__ = ["installed", "installed_once"]

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

ASKED = json.dumps({"query": "which port does the staging database listen on"})
LIST_SECONDS = 60.0


def words(store: Path) -> list[str]:
    return ["-m", "threadkeep.cli", "mcp", "--store", str(store), "--thread", "ship-it"]


@pytest.mark.parametrize("version", CODEX)
async def test_codex_lists_the_server_and_its_model_recalls_a_needle(
    store: Path, tmp_path: Path, installed: Installed, version: str
) -> None:
    """As docs/mcp.md has it in config.toml; the tools and the instructions go out with the first request."""
    call = {"type": "function_call", "namespace": "mcp__threadkeep", "name": "recall", "arguments": ASKED, "call_id": "c1"}
    async with ScriptedProvider([Reply(items=(call,)), say("Port 54871.")]) as provider:
        codex = CodexCli(await installed(CODEX[version]), home=tmp_path / "home", cwd=tmp_path / "work", base_url=provider.url)
        config = codex.codex_home / "config.toml"
        server = f"command = {json.dumps(sys.executable)}\nargs = {json.dumps(words(store))}\nrequired = true\n"
        config.write_text(f"{config.read_text()}\n[mcp_servers.threadkeep]\n{server}")
        listing = (str(codex.binary), "mcp", "list", "--json")
        listed = await run_to_end(listing, cwd=codex.cwd, environment=codex.environment(), seconds=LIST_SECONDS)
        assert [(each["name"], each["enabled"]) for each in json.loads(listed.stdout)] == [("threadkeep", True)]
        run = await codex.exec("Which port does staging use?")
    assert (run.exit_code, run.last_message) == (0, "Port 54871."), run.stderr
    first, second = (json.loads(request.raw) for request in provider.requests)
    (offered,) = (tool for tool in first["tools"] if tool.get("name") == "mcp__threadkeep")
    assert [tool["name"] for tool in offered["tools"]] == ["note", "pin", "recall", "state", "threads"]
    assert offered["description"].startswith("threadkeep keeps the whole history of long sessions.")
    assert f"> {NEEDLE}" in json.dumps(second["input"][-1])


async def test_claude_code_connects_and_its_model_recalls_a_needle(store: Path, tmp_path: Path, installed: Installed) -> None:
    """Added by its own command, it is connected, and the model's call comes back with the original."""
    call = {"type": "function_call", "name": "mcp__threadkeep__recall", "arguments": ASKED, "call_id": "c1"}
    async with ScriptedProvider([Reply(items=(call,)), say("Port 54871.")]) as provider:
        base_url = provider.url.removesuffix("/v1")
        claude = ClaudeCode(await installed(CLAUDE_CODE), home=tmp_path / "home", cwd=tmp_path / "work", base_url=base_url)

        async def command(*more: str) -> str:
            line = (str(claude.binary), "mcp", *more)
            ended = await run_to_end(line, cwd=claude.cwd, environment=claude.environment(), seconds=LIST_SECONDS)
            return ended.stdout.decode()

        await command("add", "--scope", "user", "threadkeep", "--", sys.executable, *words(store))
        assert "Connected" in await command("list")
        run = await claude.turn("Which port does staging use?")
    assert (run.exit_code, run.text) == (0, "Port 54871."), run.stderr
    assert f"> {NEEDLE}" in json.dumps(results_in(json.loads(provider.requests[-1].raw)))


def results_in(body: dict[str, Any]) -> list[Any]:
    blocks = [block for message in body["messages"] for block in message["content"] if isinstance(block, dict)]
    return [block["content"] for block in blocks if block["type"] == "tool_result"]


async def test_opencode_connects(store: Path, tmp_path: Path, installed: Installed) -> None:
    """As docs/mcp.md has it in opencode.json."""
    binary = await installed(OPENCODE)
    home, cwd = tmp_path / "home", tmp_path / "work"
    for folder in (home, cwd):
        folder.mkdir()
    server = {"type": "local", "command": [sys.executable, *words(store)], "enabled": True}
    (cwd / "opencode.json").write_text(json.dumps({"mcp": {"threadkeep": server}}))
    environment = {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", "OPENCODE_DISABLE_AUTOUPDATE": "1"}
    ended = await run_to_end((str(binary), "mcp", "list"), cwd=cwd, environment=environment, seconds=LIST_SECONDS)
    told = ended.stdout.decode() + ended.stderr.decode()
    assert "threadkeep" in told
    assert "connected" in told
