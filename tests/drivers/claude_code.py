"""Drives the real Claude Code, one process a turn, as `claude -p` is used in scripts.

Everything it touches lies in folders the test gives: no login, no telemetry, and no server but the base URL it is told.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.drivers.process import RUN_SECONDS, client_environment, run_to_end

SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "IS_SANDBOX": "1",
    "TERM": "dumb",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeRun:
    """What one run left behind. `report` is the object it prints at its end, empty if it printed none."""

    exit_code: int
    session_id: str | None
    text: str | None
    report: dict[str, Any]
    stderr: str


class ClaudeCode:
    """A Claude Code installation with a home of its own, pointed at `base_url`, which has no /v1 at its end.

    Without `model` it takes its own default, whose requests have the newer shape.
    """

    def __init__(self, binary: Path, *, home: Path, cwd: Path, base_url: str, model: str | None = None) -> None:
        self.binary = binary
        self.home = home
        self.cwd = cwd
        self._base_url = base_url
        self._model = () if model is None else ("--model", model)
        home.mkdir(parents=True, exist_ok=True)
        cwd.mkdir(parents=True, exist_ok=True)

    def environment(self) -> dict[str, str]:
        """Return all a Claude Code process gets to see of the environment."""
        return client_environment(self.home, ANTHROPIC_BASE_URL=self._base_url, ANTHROPIC_API_KEY="sk-ant-mock", **SWITCHES)

    async def turn(self, prompt: str, *, resume: str | None = None, fork: bool = False) -> ClaudeRun:
        """Say `prompt` in a new session, in the one named, or in a fork of it, and return when the turn is over.

        Raises:
            TimeoutError: The turn took longer than a minute; every process of the run is gone.
        """
        which = () if resume is None else ("--resume", resume)
        branch = ("--fork-session",) if fork else ()
        freely = ("--permission-mode", "bypassPermissions", "--dangerously-skip-permissions")
        words = (str(self.binary), *self._model, "--output-format", "json", *freely, *which, *branch, "-p", prompt)
        ended = await run_to_end(words, cwd=self.cwd, environment=self.environment(), seconds=RUN_SECONDS)
        try:
            report = json.loads(ended.stdout)
        except ValueError:
            report = {}
        return ClaudeRun(
            exit_code=ended.exit_code,
            session_id=report.get("session_id"),
            text=report.get("result"),
            report=report,
            stderr=(ended.stderr or ended.stdout).decode(errors="replace"),
        )
