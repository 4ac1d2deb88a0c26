"""The settings that docs/clients tells people to write, written as they stand there: each client's requests arrive recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
from tests.docs.pages import read_examples
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import say
from tests.drivers.claude_code import SWITCHES
from tests.drivers.gateway_process import gateway_process
from tests.drivers.npm import CLAUDE_CODE, CODEX_0_166, OPENCODE, PI, NpmClient
from tests.drivers.process import client_environment, run_to_end

from threadkeep import Config, Threadkeep

pytestmark = [pytest.mark.anyio, pytest.mark.clients]

SECONDS = 120.0
OPENCODE_SWITCHES = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """A client, the file a page tells to write, from the home, and what is typed."""

    npm: NpmClient
    page: str
    language: str
    file: str
    words: Sequence[str]
    environ: dict[str, str]
    before: str = ""


CLIENTS = {
    "codex": Documented(
        npm=CODEX_0_166,
        page="docs/clients/codex.md",
        language="toml",
        file=".codex/config.toml",
        words=("exec", "--skip-git-repo-check", "-m", "gpt-5.1", "--", "Say hello."),
        environ={"OPENAI_API_KEY": "sk-mock"},
        before="check_for_update_on_startup = false\n",
    ),
    "claude code": Documented(
        npm=CLAUDE_CODE,
        page="docs/clients/claude-code.md",
        language="json",
        file=".claude/settings.json",
        words=("--model", "claude-sonnet-4-5", "-p", "Say hello."),
        environ={"ANTHROPIC_API_KEY": "sk-ant-mock", **SWITCHES},
    ),
    "pi": Documented(
        npm=PI,
        page="docs/clients/pi.md",
        language="json",
        file=".pi/agent/models.json",
        words=("--model", "openai/gpt-5.1", "-p", "Say hello."),
        environ={"OPENAI_API_KEY": "sk-mock", "PI_OFFLINE": "1", "TERM": "dumb"},
    ),
    "opencode": Documented(
        npm=OPENCODE,
        page="docs/clients/opencode.md",
        language="json",
        file="work/opencode.json",
        words=("run", "--model", "openai/gpt-5.1", "Say hello."),
        environ={"OPENAI_API_KEY": "sk-mock", "npm_config_offline": "true", **OPENCODE_SWITCHES},
    ),
}


@pytest.mark.parametrize("name", CLIENTS)
async def test_a_client_set_up_as_its_page_says_is_recorded(name: str, installed: Installed, tmp_path: Path) -> None:
    """Its answer comes through, and the conversation is a thread."""
    client = CLIENTS[name]
    binary = await installed(client.npm)
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    async with (
        ScriptedProvider([say("hello from afar")], beside=titles) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        here = gateway.base_url.removesuffix("/v1")
        written = next(shown.text for shown in read_examples(client.page) if shown.language == client.language)
        assert "http://127.0.0.1:4621" in written
        file = home / client.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(client.before + written.replace("http://127.0.0.1:4621", here))
        environment = client_environment(home, **client.environ)
        ended = await run_to_end((str(binary), *client.words), cwd=home / "work", environment=environment, seconds=SECONDS)
    assert (ended.exit_code, b"hello from afar" in ended.stdout) == (0, True), ended
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        threads = await tk.threads()
        said = [hit.text for thread in threads for hit in await (await tk.find(thread.id)).recall("hello")]
    assert any("Say hello." in text for text in said)
