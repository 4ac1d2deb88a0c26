"""Drives the real Codex CLI, so that a test meets what users run and not what we believe they run.

Everything a run touches lies in folders the test gives: home, configuration, threads, working directory. No login, no
proxy, and no server but the base URL it is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.drivers.process import RUN_SECONDS, client_environment, run_to_end

from threadkeep.launch.clients import CLIENTS
from threadkeep.launch.plan import Place, fill_plan

# Out of reach: in a test it is threadkeep, or an explicit request, that compacts.
AUTO_COMPACT_TOKENS = 1_000_000_000

# Codex lowers any limit to nine tenths of the window of 272,000 tokens that it assumes for a model it does not know;
# `model_context_window` does not raise it. A provider that reports more than this makes Codex compact all the same.
REPORTABLE_TOKENS = 244_000

CONFIG = """\
{model}model_provider = "mock"
model_auto_compact_token_limit = {auto_compact_tokens}
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[features]
remote_compaction_v2 = {remote_v2}

[model_providers.mock]
name = {provider_name}
base_url = {base_url}
env_key = "MOCK_API_KEY"
wire_api = "responses"
supports_websockets = {websockets}
request_max_retries = 0
stream_max_retries = 2

[analytics]
enabled = false
"""

# What a user who has no provider of their own has in their configuration.
OWN_CONFIG = """\
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false
[analytics]
enabled = false
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexRun:
    """What one run of `codex exec` left behind. `events` are its `--json` lines, in order."""

    exit_code: int
    thread_id: str | None
    events: tuple[dict[str, Any], ...]
    last_message: str | None
    stderr: str


class CodexCli:
    """A Codex installation with a home of its own, pointed at `base_url`.

    Making one writes its configuration; runs of one home share their threads. Codex does not compact by
    itself here while the provider reports no more than `REPORTABLE_TOKENS`. Asked to, it writes a summary itself; a provider
    named OpenAI is asked to compact instead: by an item in an ordinary request or, without `remote_v2`, at its own endpoint.
    `model=None` leaves the choice to Codex: the default model of its release, and the form of request that goes with it.
    """

    def __init__(
        self,
        binary: Path,
        *,
        home: Path,
        cwd: Path,
        base_url: str,
        provider_name: str = "mock",
        remote_v2: bool = True,
        model: str | None = "mock-model",
        websockets: bool = False,
    ) -> None:
        self.binary = binary
        self.home = home
        self.cwd = cwd
        self.codex_home = home / ".codex"
        self.codex_home.mkdir(parents=True, exist_ok=True)
        self.words: tuple[str, ...] = ()
        self.variables = {"MOCK_API_KEY": "dummy"}
        cwd.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(
            model="" if model is None else f"model = {json.dumps(model)}\n",
            auto_compact_tokens=AUTO_COMPACT_TOKENS,
            base_url=json.dumps(base_url),
            provider_name=json.dumps(provider_name),
            remote_v2=json.dumps(remote_v2),
            websockets=json.dumps(websockets),
        )
        (self.codex_home / "config.toml").write_text(config)

    @classmethod
    def as_run(cls, binary: Path, *, home: Path, cwd: Path, gateway_url: str, login: bool) -> CodexCli:
        """Return Codex with the settings that `threadkeep run codex` gives it, with a login or with a key in a variable only."""
        codex = cls(binary, home=home, cwd=cwd, base_url="")
        (codex.codex_home / "config.toml").write_text(OWN_CONFIG)
        if login:
            (codex.codex_home / "auth.json").write_text(json.dumps({"auth_mode": "apikey", "OPENAI_API_KEY": "sk-mock"}))
        variables = {} if login else {"OPENAI_API_KEY": "sk-mock"}
        codex.variables = {**codex.variables, **variables}
        place = Place(environ=codex.environment(), home=home, folder=cwd, program=str(binary))
        codex.words = fill_plan(CLIENTS["codex"].plan(place), place, url=gateway_url, folder=cwd).words[1:]
        return codex

    def environment(self) -> dict[str, str]:
        """Return all a Codex process gets to see of the environment: no proxy, no credential, no user's own settings."""
        return client_environment(self.home, CODEX_HOME=str(self.codex_home), **self.variables)

    async def exec(self, prompt: str) -> CodexRun:
        """Start a thread with `prompt` and return when its turn is over.

        Raises:
            TimeoutError: The turn took longer than a minute; every process of the run is gone.
        """
        return await self._run("exec", "--skip-git-repo-check", "--json", "--", prompt)

    async def resume(self, prompt: str, *, thread_id: str | None = None) -> CodexRun:
        """Continue a thread, the newest one if none is named, in a new process; as `exec` otherwise."""
        which = "--last" if thread_id is None else thread_id
        return await self._run("exec", "resume", which, "--skip-git-repo-check", "--json", "--", prompt)

    async def _run(self, *words: str) -> CodexRun:
        command = (str(self.binary), *self.words, *words)
        ended = await run_to_end(command, cwd=self.cwd, environment=self.environment(), seconds=RUN_SECONDS)
        events = tuple(json.loads(line) for line in ended.stdout.splitlines() if line.strip())
        started = [event["thread_id"] for event in events if event["type"] == "thread.started"]
        completed = [event["item"] for event in events if event["type"] == "item.completed"]
        spoken = [item["text"] for item in completed if item["type"] == "agent_message"]
        return CodexRun(
            exit_code=ended.exit_code,
            thread_id=started[-1] if started else None,
            events=events,
            last_message=spoken[-1] if spoken else None,
            stderr=ended.stderr.decode(errors="replace"),
        )
