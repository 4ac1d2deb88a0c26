"""Drives the real pi in its RPC mode, one process for many turns, on any of the three wires.

It speaks JSON over stdio, one object a line. Everything it touches lies in folders the test gives; `PI_OFFLINE` keeps it from
asking for updates.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Literal

from tests.doubles.script import JsonObject
from tests.drivers.process import RUN_SECONDS, client_environment, piped_process

Wire = Literal["responses", "chat", "messages"]

APIS: dict[Wire, str] = {"responses": "openai-responses", "chat": "openai-completions", "messages": "anthropic-messages"}
MODELS: dict[Wire, str] = {"responses": "gpt-5.1-codex", "chat": "local-model", "messages": "claude-sonnet-4-5"}
# Out of reach: in a test it is threadkeep, or an explicit request, that compacts.
CONTEXT_TOKENS = 1_000_000


class PiError(Exception):
    """pi refused a command, or ended."""


class Pi:
    """A running pi with one session open. Made by `pi_process`; its commands are given one after the other.

    Every method raises PiError where pi refuses, and TimeoutError where it does not answer within a minute.
    """

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def turn(self, text: str) -> str | None:
        """Say `text` and return the answer when the turn is over; None where it ended in an error."""
        await self._command({"type": "prompt", "message": text})
        over = await self._next(lambda message: message.get("type") == "agent_end")
        last = over["messages"][-1]
        if last.get("stopReason") == "error":
            return None
        return "".join(part["text"] for part in last["content"] if part["type"] == "text")

    async def session_file(self) -> Path:
        """Return the file of the open session."""
        return Path((await self._command({"type": "get_state"}))["sessionFile"])

    async def said(self) -> list[str]:
        """Return the ids of what was said in the open session, turn by turn."""
        listed = (await self._command({"type": "get_fork_messages"}))["messages"]
        return [entry["entryId"] for entry in listed]

    async def fork(self, *, before: str | None = None) -> None:
        """Open a new session that shares everything, or everything before the named entry."""
        await self._command({"type": "clone"} if before is None else {"type": "fork", "entryId": before})

    async def switch(self, session: Path) -> None:
        """Open another session."""
        await self._command({"type": "switch_session", "sessionPath": str(session)})

    async def compact(self) -> str:
        """Have pi compact the open session itself and return its summary."""
        return str((await self._command({"type": "compact"}))["summary"])

    async def _command(self, command: JsonObject) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        await self._process.stdin.drain()
        answer = await self._next(lambda message: message.get("type") == "response" and message["command"] == command["type"])
        if not answer["success"]:
            raise PiError(f"{command['type']}: {answer.get('error')}")
        return answer.get("data")

    async def _next(self, wanted: Callable[[JsonObject], bool]) -> JsonObject:
        """Return the first message that is wanted; what comes before it is progress that no test looks at."""
        assert self._process.stdout is not None
        async with asyncio.timeout(RUN_SECONDS):
            while line := await self._process.stdout.readline():
                message: JsonObject = json.loads(line)
                if wanted(message):
                    return message
        raise PiError("pi ended")


def _configure(home: Path, *, base_url: str, wire: Wire) -> None:
    agent = home / ".pi" / "agent"
    agent.mkdir(parents=True, exist_ok=True)
    model = {"id": MODELS[wire], "reasoning": wire != "chat", "contextWindow": CONTEXT_TOKENS, "maxTokens": 4_000}
    # Its Anthropic client adds /v1 by itself.
    url = base_url.removesuffix("/v1") if wire == "messages" else base_url
    provider = {"baseUrl": url, "api": APIS[wire], "apiKey": "sk-mock", "models": [model]}
    (agent / "models.json").write_text(json.dumps({"providers": {"mock": provider}}))
    # A few tokens: a short conversation is enough to have something to compact.
    (agent / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 50}}))


@contextlib.asynccontextmanager
async def pi_process(
    binary: Path, *, home: Path, cwd: Path, base_url: str, wire: Wire, session: Path | None = None
) -> AsyncIterator[Pi]:
    """Run pi with its configuration written anew, in a new session or in the one whose file is given; it is gone on leaving."""
    _configure(home, base_url=base_url, wire=wire)
    cwd.mkdir(parents=True, exist_ok=True)
    which = () if session is None else ("--session", str(session))
    thinking = () if wire == "chat" else ("--thinking", "medium")
    words = ("--mode", "rpc", "--model", f"mock/{MODELS[wire]}", *thinking, "--session-dir", str(home / "sessions"), *which)
    environment = client_environment(home, PI_OFFLINE="1", TERM="dumb")
    async with piped_process((str(binary), *words), cwd=cwd, environment=environment, log=home / "pi.log") as process:
        yield Pi(process)
