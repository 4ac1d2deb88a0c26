"""Drives the real opencode through its own server, so that one start serves a whole conversation.

Everything it touches lies in folders the test gives. It speaks one of three wires, chosen by the provider of its model.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from aiohttp import ClientSession, ClientTimeout
from tests.doubles.script import JsonObject
from tests.drivers.process import RUN_SECONDS, client_environment, piped_process

START_SECONDS = 60.0
Wire = Literal["responses", "chat", "messages"]
# Without a wire, opencode asks its own provider `openai` for the model that it chooses itself.
OWN_PROVIDER = "openai"

PACKAGES: dict[Wire, str] = {
    "responses": "@ai-sdk/openai",
    "chat": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
}
MODELS: dict[Wire, str] = {"responses": "gpt-5.1-codex", "chat": "local-model", "messages": "claude-sonnet-4-5"}
QUIET: JsonObject = {
    "$schema": "https://opencode.ai/config.json",
    "autoupdate": False,
    "share": "disabled",
    "permission": "allow",
}
# Out of reach: in a test it is threadkeep, or an explicit request, that compacts.
CONTEXT_TOKENS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A finished turn: the ids of the user's message and of the answer, and what the answer says."""

    message_id: str
    answer_id: str
    text: str
    error: JsonObject | None


class OpencodeError(Exception):
    """opencode refused a call, or did not start."""


class Opencode:
    """A running opencode server. Made by `opencode_server`; every call raises OpencodeError where opencode refuses it."""

    def __init__(self, session: ClientSession, *, url: str, model: JsonObject) -> None:
        self._session = session
        self._url = url
        self._model = model

    async def choose_model(self) -> None:
        """Use the model that opencode chooses itself, if no other is set."""
        if not self._model:
            found = await self._call("GET", "/config/providers", {})
            self._model = {"providerID": OWN_PROVIDER, "modelID": found["default"][OWN_PROVIDER]}

    async def start(self, *, title: str | None = None) -> str:
        """Begin a session and return its id; without a title, opencode asks a model for one beside the first turn."""
        named = {} if title is None else {"title": title}
        return str((await self._call("POST", "/session", named))["id"])

    async def turn(self, session_id: str, text: str) -> Said:
        """Say `text` and return when the turn is over."""
        body = {"model": self._model, "parts": [{"type": "text", "text": text}]}
        answer = await self._call("POST", f"/session/{session_id}/message", body)
        info = answer["info"]
        spoken = "".join(part["text"] for part in answer["parts"] if part["type"] == "text")
        return Said(message_id=info["parentID"], answer_id=info["id"], text=spoken, error=info.get("error"))

    async def summarize(self, session_id: str) -> None:
        """Have opencode compact the session itself and return when it has."""
        await self._call("POST", f"/session/{session_id}/summarize", self._model | {"auto": False})

    async def fork(self, session_id: str, *, before: str | None = None) -> str:
        """Branch off, before the named message or at the end, and return the new session's id."""
        where = {} if before is None else {"messageID": before}
        return str((await self._call("POST", f"/session/{session_id}/fork", where))["id"])

    async def revert(self, session_id: str, *, to: str) -> None:
        """Take back the named message and everything after it."""
        await self._call("POST", f"/session/{session_id}/revert", {"messageID": to})

    async def _call(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        async with self._session.request(method, self._url + path, json=body) as response:
            raw = await response.read()
        if response.status >= 400:
            raise OpencodeError(f"{method} {path}: {response.status} {raw[:400].decode(errors='replace')}")
        return json.loads(raw)


def configuration(*, base_url: str, wire: Wire | None) -> JsonObject:
    """Return an opencode.json with one provider of the given wire and nothing that reaches out."""
    if wire is None:
        own = {OWN_PROVIDER: {"options": {"baseURL": base_url, "apiKey": "sk-mock"}}}
        return {**QUIET, "enabled_providers": [OWN_PROVIDER], "provider": own}
    model: JsonObject = {
        "name": "m",
        "limit": {"context": CONTEXT_TOKENS, "output": 4_000},
        "reasoning": wire != "chat",
        "tool_call": True,
    }
    options = {"baseURL": base_url, "apiKey": "sk-mock"}
    if wire == "messages":
        model["options"] = {"thinking": {"type": "enabled", "budgetTokens": 2_000}}
    provider = {"npm": PACKAGES[wire], "options": options, "models": {MODELS[wire]: model}}
    named = f"mock/{MODELS[wire]}"
    return {
        **QUIET,
        "model": named,
        "small_model": named,
        "enabled_providers": ["mock"],
        "provider": {"mock": provider},
    }


@contextlib.asynccontextmanager
async def opencode_server(binary: Path, *, home: Path, cwd: Path, base_url: str, wire: Wire | None) -> AsyncIterator[Opencode]:
    """Run `opencode serve` on loopback with its configuration written anew; it is gone on leaving, whatever happened.

    Raises:
        OpencodeError: It did not say where it listens.
    """
    home.mkdir(parents=True, exist_ok=True)
    cwd.mkdir(parents=True, exist_ok=True)
    (cwd / "opencode.json").write_text(json.dumps(configuration(base_url=base_url, wire=wire)))
    switches = ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")
    # It installs a package for plugins beside its configuration; there are none here, and no test may reach out.
    environment = client_environment(home, **{f"OPENCODE_DISABLE_{name}": "1" for name in switches}, npm_config_offline="true")
    words = (str(binary), "serve", "--port", "0", "--hostname", "127.0.0.1")
    async with (
        piped_process(words, cwd=cwd, environment=environment, log=home / "opencode.log") as process,
        ClientSession(timeout=ClientTimeout(total=RUN_SECONDS)) as session,
    ):
        named = {} if wire is None else {"providerID": "mock", "modelID": MODELS[wire]}
        opencode = Opencode(session, url=await listening(process), model=named)
        await opencode.choose_model()
        yield opencode


async def listening(process: asyncio.subprocess.Process) -> str:
    """Return the URL at which an opencode server says it listens."""
    assert process.stdout is not None
    async with asyncio.timeout(START_SECONDS):
        async for line in process.stdout:
            if found := re.search(rb"http://127\.0\.0\.1:\d+", line):
                return found[0].decode()
    raise OpencodeError("opencode ended before it listened")
