"""Drives the real Codex CLI, so that a test meets what users run and not what we believe they run.

Everything a run touches lies in folders the test gives: home, configuration, threads, working directory. No login, no
proxy, and no server but the base URL it is told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

INSTALL_SECONDS = 300.0
RUN_SECONDS = 60.0
LOOPBACK = "127.0.0.1,localhost"

# Out of reach: in a test it is holdfast, or an explicit request, that compacts.
AUTO_COMPACT_TOKENS = 1_000_000_000

# Codex lowers any limit to nine tenths of the window of 272,000 tokens that it assumes for a model it does not know;
# `model_context_window` does not raise it. A provider that reports more than this makes Codex compact all the same.
REPORTABLE_TOKENS = 244_000

CONFIG = """\
model = "mock-model"
model_provider = "mock"
model_auto_compact_token_limit = {auto_compact_tokens}
approval_policy = "never"
sandbox_mode = "read-only"
check_for_update_on_startup = false

[model_providers.mock]
name = "mock"
base_url = {base_url}
env_key = "MOCK_API_KEY"
wire_api = "responses"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 2

[analytics]
enabled = false
"""


class ClientUnavailable(Exception):
    """The client cannot be had on this machine; `reason` says why, for a skip or a failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexRun:
    """What one run of `codex exec` left behind. `events` are its `--json` lines, in order."""

    exit_code: int
    thread_id: str | None
    events: tuple[dict[str, Any], ...]
    last_message: str | None
    stderr: str


class Ended(NamedTuple):
    """A process that has ended, and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


async def install(version: str, into: Path) -> Path:
    """Return the `codex` command of `version`, installing it below `into` if it is not there yet.

    A finished install appears under its name at once and whole, so an interrupted one is never taken for it and two
    processes may install side by side.

    Raises:
        ClientUnavailable: npm is absent, or the install failed.
    """
    place = into / f"codex-{version}"
    command = place / "node_modules" / ".bin" / "codex"
    if command.exists():
        return command
    npm = shutil.which("npm")
    if npm is None:
        raise ClientUnavailable("npm is not installed")
    into.mkdir(parents=True, exist_ok=True)
    package = f"@openai/codex@{version}"
    partial = Path(tempfile.mkdtemp(prefix=f"codex-{version}-", dir=into))
    try:
        words = (npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(partial), package)
        ended = await run_to_end(words, cwd=into, environment=None, seconds=INSTALL_SECONDS)
        if ended.exit_code != 0:
            raise ClientUnavailable(f"npm could not install {package}: {ended.stderr.decode(errors='replace').strip()}")
        # Fails only where another process put the same version there first; theirs is as good.
        with contextlib.suppress(OSError):
            partial.rename(place)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if not command.exists():
        raise ClientUnavailable(f"{package} was installed but brought no codex command")
    return command


async def run_to_end(words: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None, seconds: float) -> Ended:
    """Run a command without input and return how it ended. Its whole process group is killed when time or the caller runs out.

    Raises:
        TimeoutError: It was still running after `seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        cwd=cwd,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            stdout, stderr = await process.communicate()
    finally:
        await end_group(process)
    return Ended(exit_code=process.returncode or 0, stdout=stdout, stderr=stderr)


async def end_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process that leads its own group, and all of that group, unless it has ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


class CodexCli:
    """A Codex installation with a home of its own, pointed at `base_url`.

    Making one writes its configuration; runs of one home share their threads. Codex does not compact by
    itself here while the provider reports no more than `REPORTABLE_TOKENS`.
    """

    def __init__(self, binary: Path, *, home: Path, cwd: Path, base_url: str) -> None:
        self.binary = binary
        self.home = home
        self.cwd = cwd
        self.codex_home = home / ".codex"
        self.codex_home.mkdir(parents=True, exist_ok=True)
        cwd.mkdir(parents=True, exist_ok=True)
        config = CONFIG.format(auto_compact_tokens=AUTO_COMPACT_TOKENS, base_url=json.dumps(base_url))
        (self.codex_home / "config.toml").write_text(config)

    def environment(self) -> dict[str, str]:
        """Return all a Codex process gets to see of the environment: no proxy, no credential, no user's own settings."""
        node = shutil.which("node")
        if node is None:
            raise ClientUnavailable("node is not installed")
        return {
            "PATH": os.pathsep.join((str(Path(node).parent), os.defpath)),
            "HOME": str(self.home),
            "CODEX_HOME": str(self.codex_home),
            "MOCK_API_KEY": "dummy",
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }

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
        ended = await run_to_end((str(self.binary), *words), cwd=self.cwd, environment=self.environment(), seconds=RUN_SECONDS)
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
