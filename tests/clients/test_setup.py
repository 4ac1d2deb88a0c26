"""`threadkeep setup` and the real clients: the settings it writes are accepted, and the conversation becomes a thread."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.clients.conftest import Installed
from tests.clients.play import titles
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
KEYS = {"OPENAI_API_KEY": "sk-mock", "ANTHROPIC_API_KEY": "sk-ant-mock"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """A client of npm, its name for setup, settings that its user has already, and what is typed."""

    npm: NpmClient
    name: str
    file: str
    settings: str
    words: Sequence[str]
    environ: dict[str, str]


TALKS = {
    "codex": Talk(
        npm=CODEX_0_166,
        name="codex",
        file=".codex/config.toml",
        settings="# quiet\ncheck_for_update_on_startup = false\n\n[history]\npersistence = 'save-all'\n",
        words=("exec", "--skip-git-repo-check", "-m", "gpt-5.1", "--", "Say hello."),
        environ={},
    ),
    "claude": Talk(
        npm=CLAUDE_CODE,
        name="claude",
        file=".claude/settings.json",
        settings='{"env": {"DISABLE_TELEMETRY": "1"}, "includeCoAuthoredBy": false}\n',
        words=("--model", "claude-sonnet-4-5", "-p", "Say hello."),
        environ=dict(SWITCHES),
    ),
    "pi, OpenAI": Talk(
        npm=PI,
        name="pi",
        file=".pi/agent/models.json",
        settings='{\n  // none yet\n  "providers": {}\n}\n',
        words=("--model", "openai/gpt-5.1", "-p", "Say hello."),
        environ={"PI_OFFLINE": "1", "TERM": "dumb"},
    ),
    "pi, Anthropic": Talk(
        npm=PI,
        name="pi",
        file=".pi/agent/models.json",
        settings="{}",
        words=("--model", "anthropic/claude-sonnet-4-5", "-p", "Say hello."),
        environ={"PI_OFFLINE": "1", "TERM": "dumb"},
    ),
    "opencode, OpenAI": Talk(
        npm=OPENCODE,
        name="opencode",
        file=".config/opencode/opencode.jsonc",
        settings='{\n  // mine\n  "share": "disabled",\n}\n',
        words=("run", "--model", "openai/gpt-5.1", "Say hello."),
        environ={"npm_config_offline": "true", **OPENCODE_SWITCHES},
    ),
    "opencode, Anthropic": Talk(
        npm=OPENCODE,
        name="opencode",
        file=".config/opencode/opencode.json",
        settings='{"share": "disabled"}',
        words=("run", "--model", "anthropic/claude-sonnet-4-5", "Say hello."),
        environ={"npm_config_offline": "true", **OPENCODE_SWITCHES},
    ),
}


@pytest.mark.parametrize("name", TALKS)
async def test_a_client_that_setup_changed_works_and_is_recorded(name: str, installed: Installed, tmp_path: Path) -> None:
    """Its answer comes through the gateway, and the undo leaves what the user and the client wrote."""
    talk = TALKS[name]
    binary = await installed(talk.npm)
    home = tmp_path / "home"
    (home / "work").mkdir(parents=True)
    file = home / talk.file
    file.parent.mkdir(parents=True)
    file.write_text(talk.settings)
    environment = client_environment(home, **KEYS, **talk.environ)
    async with (
        ScriptedProvider([say("hello from afar")], beside=titles) as provider,
        gateway_process(tmp_path / "threadkeep.db", upstream=provider.url) as gateway,
    ):
        setup = (sys.executable, "-m", "threadkeep.cli", "setup", talk.name, "--yes")
        for words in ((*setup, "--url", gateway.base_url), (str(binary), *talk.words)):
            ended = await run_to_end(words, cwd=home / "work", environment=environment, seconds=SECONDS)
            assert ended.exit_code == 0, ended
        assert b"hello from afar" in ended.stdout
        ended = await run_to_end((*setup, "--undo"), cwd=home / "work", environment=environment, seconds=SECONDS)
    assert (ended.exit_code, gateway.base_url in file.read_text()) == (0, False), ended
    async with Threadkeep(Config(store=str(tmp_path / "threadkeep.db"))) as tk:
        threads = await tk.threads()
        said = [hit.text for thread in threads for hit in await (await tk.find(thread.id)).recall("hello")]
    assert any("Say hello." in text for text in said)
