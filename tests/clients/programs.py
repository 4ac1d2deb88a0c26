"""Clients as a person installs and starts them: the package, the settings with a base URL, and what is typed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.doubles.script import Received, Reply, call
from tests.drivers.npm import (
    CLAUDE_CODE_2_1_328,
    CLINE,
    CODEX_0_169,
    CONTINUE,
    COPILOT,
    DROID,
    GEMINI,
    GROK,
    KILO,
    KIMI,
    OPENCODE,
    PI_1_5,
    QWEN,
    NpmClient,
)
from tests.drivers.process import Ended, client_environment, run_to_end
from tests.drivers.pypi import AIDER, VIBE, PypiClient

TURN_SECONDS = 180.0


def has_no_tools(received: Received) -> bool:
    return not received.body.get("tools")


def use(name: str, **more: object) -> Callable[[str], Reply]:
    """Return how a model asks for a shell command to be run."""
    return lambda command: call(name, {"command": command, **more})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A client, unmodified, with its default settings plus a base URL.

    In words, files and environment `{}` is what is said, `{root}` the base URL without `/v1`.

    Attributes:
        first: Its arguments in a new session; `then` those that continue it, None where it has no way to.
        look: How its model asks for a shell command to be run; None where it has no tools.
        is_side: Whether a request stands beside the conversation: a title, a note taker.
        room_tokens: How much its session grows before the window is full; less where it shortens what a command prints.
        aside: What is answered to a request beside the conversation.
        optional_tools: Tools it offers at some times only.
        moves: Why it sends an older history differently; empty where it does not.
    """

    package: NpmClient | PypiClient
    first: Sequence[str]
    then: Sequence[str] | None
    look: Callable[[str], Reply] | None
    files: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    is_side: Callable[[Received], bool] = has_no_tools
    room_tokens: int = 11_000
    aside: str = "A summary."
    optional_tools: Sequence[str] = ()
    moves: str = ""


CONTINUE_CONFIG = """name: mine
version: 0.0.1
schema: v1
models:
  - name: gpt-5.1
    provider: openai
    model: gpt-5.1
    apiKey: sk-mock
    apiBase: {root}/v1
"""
# As `cline auth anthropic` writes it, with a base URL.
CLINE_SETTINGS = {"provider": "anthropic", "apiKey": "sk-ant-mock", "model": "claude-sonnet-4-5", "baseUrl": "{root}/v1"}
CLINE_PROVIDER = {"settings": CLINE_SETTINGS, "updatedAt": "2026-11-18T15:17:41.407Z", "tokenSource": "manual"}
DROID_MODEL = {
    "model": "gpt-5.1",
    "displayName": "gpt-5.1",
    "baseUrl": "{root}/v1",
    "apiKey": "sk-mock",
    "provider": "openai",
}
KILO_CONFIG = {
    "permission": "allow",
    "model": "openai/gpt-5.1",
    "provider": {"openai": {"options": {"baseURL": "{root}/v1"}}},
}
VIBE_CONFIG = """active_model = "devstral"
enable_telemetry = false
[[providers]]
name = "gateway"
api_base = "{root}/v1"
api_key_env_var = "MISTRAL_API_KEY"
[[models]]
name = "devstral-medium-latest"
provider = "gateway"
alias = "devstral"
"""
AIDER_WORDS = (
    *("--yes-always", "--no-check-update", "--no-show-release-notes", "--analytics-disable", "--no-gitignore"),
    *("--model", "openai/gpt-5.1", "--openai-api-base", "{root}/v1"),
    # By default it summarises what is older than 8,192 tokens, long before we would.
    *("--max-chat-history-tokens", "100000"),
)

PROGRAMS: dict[str, Program] = {
    "qwen": Program(
        package=QWEN,
        first=("--auth-type", "openai", "-y", "-p", "{}"),
        then=("--auth-type", "openai", "-y", "-c", "-p", "{}"),
        look=use("run_shell_command"),
        environment={"OPENAI_API_KEY": "sk-mock", "OPENAI_MODEL": "qwen3-coder-plus", "OPENAI_BASE_URL": "{root}/v1"},
        is_side=lambda received: has_no_tools(received) or b"managed memory extraction subagent" in received.raw,
        moves="it writes reminders into its newest message only",
    ),
    "cline": Program(
        package=CLINE,
        first=("{}",),
        # It resumes a session in a terminal only.
        then=None,
        room_tokens=5_000,
        look=lambda command: call("run_commands", {"commands": [command]}),
        files={
            ".cline/data/settings/providers.json": json.dumps(
                {"version": 1, "lastUsedProvider": "anthropic", "modes": {}, "providers": {"anthropic": CLINE_PROVIDER}}
            )
        },
    ),
    "kilo": Program(
        package=KILO,
        first=("run", "--auto", "{}"),
        then=("run", "--auto", "-c", "{}"),
        look=use("bash", description="look"),
        environment={"OPENAI_API_KEY": "sk-mock", "KILO_CONFIG_CONTENT": json.dumps(KILO_CONFIG), "npm_config_offline": "true"},
    ),
    "continue": Program(
        package=CONTINUE,
        first=("--auto", "-p", "{}"),
        then=("--auto", "--resume", "-p", "{}"),
        look=use("Bash"),
        files={".continue/config.yaml": CONTINUE_CONFIG},
        environment={"CONTINUE_METRICS_ENABLED": "0", "CONTINUE_CLI_ENABLE_TELEMETRY": "0"},
    ),
    "gemini": Program(
        package=GEMINI,
        first=("-y", "--skip-trust", "-p", "{}"),
        # Without us, too, it sends each response twice in a session that it resumed, which the API refuses.
        then=None,
        look=use("run_shell_command"),
        files={".gemini/settings.json": json.dumps({"security": {"auth": {"selectedType": "gemini-api-key"}}})},
        environment={"GEMINI_API_KEY": "mock", "GOOGLE_GEMINI_BASE_URL": "{root}"},
        # It asks a small model how hard the task is.
        aside='{"complexity_reasoning": "simple", "complexity_score": 20}',
    ),
    "copilot": Program(
        package=COPILOT,
        first=("--allow-all-tools", "-p", "{}"),
        then=("--allow-all-tools", "--continue", "-p", "{}"),
        look=use("bash", description="look"),
        environment={
            "COPILOT_PROVIDER_BASE_URL": "{root}/v1",
            "COPILOT_PROVIDER_API_KEY": "sk-mock",
            "COPILOT_MODEL": "gpt-5.4",
            "COPILOT_OFFLINE": "true",
        },
        moves="it spells the arguments of earlier calls differently when resumed",
    ),
    "kimi": Program(
        package=KIMI,
        first=("-p", "{}"),
        then=("-c", "-p", "{}"),
        look=use("Bash"),
        environment={
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
            "KIMI_MODEL_NAME": "kimi-k2.5",
            "KIMI_MODEL_API_KEY": "sk-mock",
            "KIMI_MODEL_BASE_URL": "{root}/v1",
            "KIMI_MODEL_PROVIDER_TYPE": "kimi",
        },
        optional_tools=("ReadMediaFile",),
    ),
    "droid": Program(
        package=DROID,
        first=("exec", "--auto", "high", "-m", "custom:gpt-5.1", "{}"),
        # It resumes a session only for a user who is logged in.
        then=None,
        room_tokens=3_000,
        look=use("Execute", summary="look", riskLevel="low", riskLevelReason="reads"),
        files={".factory/settings.json": json.dumps({"customModels": [DROID_MODEL]})},
    ),
    "grok": Program(
        package=GROK,
        first=("-p", "{}"),
        then=None,
        look=use("bash"),
        environment={"GROK_API_KEY": "sk-mock", "GROK_BASE_URL": "{root}/v1"},
    ),
    "aider": Program(
        package=AIDER,
        first=(*AIDER_WORDS, "--message", "{}"),
        then=(*AIDER_WORDS, "--restore-chat-history", "--message", "{}"),
        look=None,
        environment={"OPENAI_API_KEY": "sk-mock"},
        is_side=lambda received: received.body.get("model") != "gpt-5.1",
        moves="it words its history anew when it restores it",
    ),
    "vibe": Program(
        package=VIBE,
        first=("--trust", "--auto-approve", "-p", "{}"),
        then=("--trust", "--auto-approve", "-c", "-p", "{}"),
        look=use("bash"),
        files={".vibe/config.toml": VIBE_CONFIG},
        environment={"MISTRAL_API_KEY": "mock"},
    ),
}


CODEX_FLAGS = (
    *("-c", 'model_provider="direct"'),
    *("-c", 'model_providers.direct={name="d",base_url="{root}/v1",env_key="OPENAI_API_KEY",supports_websockets=false}'),
)


def run_in_codex(command: str) -> Reply:
    """Answer as Codex' default models do, whose one tool runs a script that calls the others."""
    script = f"const done = await tools.exec_command({{cmd: {json.dumps(command)}}}); text(done.output);"
    return Reply(items=({"type": "custom_tool_call", "name": "exec", "input": script},))


# Clients that have tests and a page of their own.
NAMED: dict[str, Program] = {
    "codex": Program(
        package=CODEX_0_169,
        first=("exec", "--skip-git-repo-check", *CODEX_FLAGS, "{}"),
        then=None,
        look=run_in_codex,
        files={".codex/config.toml": 'approval_policy = "never"\nsandbox_mode = "danger-full-access"\n'},
        environment={"OPENAI_API_KEY": "sk-mock"},
        is_side=lambda received: False,
    ),
    "claude-code": Program(
        package=CLAUDE_CODE_2_1_328,
        first=("--dangerously-skip-permissions", "-p", "{}"),
        then=None,
        look=use("Bash", description="look"),
        environment={
            "ANTHROPIC_BASE_URL": "{root}",
            "ANTHROPIC_API_KEY": "sk-ant-mock",
            "IS_SANDBOX": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    ),
    "opencode": Program(
        package=OPENCODE,
        first=("run", "{}"),
        then=None,
        look=use("bash", description="look"),
        environment={
            "OPENAI_API_KEY": "sk-mock",
            "npm_config_offline": "true",
            "OPENCODE_CONFIG_CONTENT": json.dumps(
                {"permission": "allow", "provider": {"openai": {"options": {"baseURL": "{root}/v1"}}}}
            ),
        },
    ),
    "pi": Program(
        package=PI_1_5,
        first=("--model", "openai/gpt-5.1", "-p", "{}"),
        then=None,
        look=use("bash"),
        files={".pi/agent/models.json": json.dumps({"providers": {"openai": {"baseUrl": "{root}/v1"}}})},
        environment={"OPENAI_API_KEY": "sk-mock", "PI_OFFLINE": "1"},
    ),
}

CLIENTS: dict[str, Program] = {**NAMED, **PROGRAMS}


class Installation:
    """A client's command, with a home that holds the user's settings for one base URL and nothing of another session."""

    def __init__(self, program: Program, command: Path, *, node: Path, home: Path, root: str) -> None:
        self._program, self._command, self._node, self._home, self._root = program, command, node, home, root
        home.mkdir(parents=True, exist_ok=True)
        for name, text in program.files.items():
            file = home / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text.replace("{root}", root))

    async def say(self, text: str, *, folder: Path, new: bool) -> Ended:
        """Say `text` in a folder's newest session, or in a new one."""
        words = self._program.first if new else self._program.then
        assert words is not None
        filled = [word.replace("{root}", self._root) for word in words]
        return await self._run([text if word == "{}" else word for word in filled], folder)

    async def _run(self, words: Sequence[str], folder: Path) -> Ended:
        folder.mkdir(parents=True, exist_ok=True)
        given = {name: value.replace("{root}", self._root) for name, value in self._program.environment.items()}
        environment = client_environment(self._home, TERM="dumb", **given)
        environment["PATH"] = os.pathsep.join((str(self._node.parent), os.defpath, "/usr/local/bin"))
        return await run_to_end((str(self._command), *words), cwd=folder, environment=environment, seconds=TURN_SECONDS)
