"""A home of its own in which a page's commands and programs are run, with what they take for granted."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from tests.cli.stories import grown
from tests.docs.pages import ROOT
from tests.transfer import test_claude_code as claude_code
from tests.transfer import test_pi as pi
from tests.transfer.rollouts import put

import threadkeep
from threadkeep.dialects import Answer, find_dialect

SECONDS = 120
TURNS = 14
DIALECTS = {"responses": "responses", "completions": "chat", "messages": "messages"}
# Commands that go on until they are stopped; each says something once it has begun.
ENDLESS = re.compile(r"^threadkeep (serve|view)\b|--watch\b")
# What only people can do, or what `make` does for the whole project, and why a test of a page does not do it.
NOT_HERE = {
    "make": "each target is a step of .ci/run",
    "threadkeep run": "it starts a client that is not here; tests/clients/test_run.py does",
    "pip": "nothing is fetched by a test",
    "uv tool": "nothing is fetched by a test; tests/install does",
    "threadkeep service": "it changes what this machine starts; tests/cli/test_service.py does",
    "python3 -m pip": "nothing is fetched by a test",
}


@dataclass(slots=True, kw_only=True)
class Room:
    """Where a page is tried out. `stands_for` says what is put in place of names that only stand for something."""

    folder: Path
    environ: dict[str, str]
    stands_for: dict[str, str]
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def run_line(self, line: str) -> None:
        """Run one line of shell; one that does not end is left running once it has begun."""
        if ENDLESS.search(line):
            await self._begin(line)
            return
        code, said = await self._ended(["bash", "-c", self._put(line)])
        assert code == 0, f"{line}\n{said}"

    async def run_program(self, text: str) -> None:
        """Run a Python program as it stands on the page."""
        code, said = await self._ended([sys.executable, "-c", self._put(text)])
        assert code == 0, said

    async def close(self) -> None:
        """Stop what was left running; each must have been there until now, and must stop when it is told to."""
        alive = [process for process in self.running if process.returncode is None]
        for process in alive:
            process.terminate()
        for process in alive:
            async with asyncio.timeout(SECONDS):
                await process.communicate()
        assert alive == self.running, "a command that goes on until it is stopped has ended by itself"
        assert {process.returncode for process in alive} <= {0, -signal.SIGTERM}

    def _put(self, text: str) -> str:
        for name, what in self.stands_for.items():
            text = text.replace(name, what)
        return text

    async def _ended(self, command: list[str]) -> tuple[int | None, str]:
        process = await self._process(command)
        async with asyncio.timeout(SECONDS):
            said, complained = await process.communicate()
        return process.returncode, said.decode() + complained.decode()

    async def _begin(self, line: str) -> None:
        command = self._put(line.partition("#")[0].strip())
        serves = command.startswith("threadkeep serve")
        if serves:
            command += " --json"
        if serves or command.startswith("threadkeep view"):
            command += " --port 0"
        process = await self._process(["bash", "-c", f"exec {command}"])
        self.running.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            first = await process.stdout.readline()
        assert first, f"{line} ended without a word"
        if serves:
            url = json.loads(first)["base_url"].removesuffix("/v1")
            self.stands_for["http://127.0.0.1:4621"] = url

    async def _process(self, command: list[str]) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )


@asynccontextmanager
async def furnished(folder: Path, *, stands_for: Mapping[str, str]) -> AsyncIterator[Room]:
    """Give a room: a store with a compacted thread, transcripts of other programs, and a provider that answers everyone.

    `stands_for` is put in place of further names, such as the addresses of servers.
    """
    home = folder / "home"
    home.mkdir()
    shutil.copytree(ROOT / "examples", home / "examples")
    put(home / ".claude" / "projects" / "app" / "t.jsonl", claude_code.row("u1", None, claude_code.said("hello")))
    put(home / ".pi" / "agent" / "sessions" / "s.jsonl", pi.HEADER, pi.entry(pi.said("hello")))
    await _lived_in(home)
    async with _provider() as upstream:
        room = Room(
            folder=home,
            environ={
                "HOME": str(home),
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                # Benchmarks run in a checkout, as their page says.
                "PYTHONPATH": str(ROOT),
                "EDITOR": "true",
                "OPENAI_API_KEY": "sk-none",
                "ANTHROPIC_API_KEY": "sk-none",
                "OPENAI_AGENTS_DISABLE_TRACING": "1",
                "THREADKEEP_OPENAI_UPSTREAM": upstream,
                "THREADKEEP_ANTHROPIC_UPSTREAM": upstream,
                "OPENAI_BASE_URL": f"{upstream}/v1",
            },
            stands_for={
                **stands_for,
                "https://api.openai.com": upstream,
                "https://api.anthropic.com": upstream,
                "qwen@http://127.0.0.1:8080/v1": f"qwen@{upstream}/v1",
                "THREAD": "ship-it",
                "FILE": "thread.out",
            },
        )
        try:
            yield room
        finally:
            await room.close()


async def _lived_in(home: Path) -> None:
    """Make the user's own store, with a thread that was compacted, and a rollout of it where Codex keeps its own."""
    from threadkeep.cli import main

    async with threadkeep.open(home / ".local" / "share" / "threadkeep" / "threadkeep.db") as tk:
        thread = await grown(tk, "ship-it", turns=TURNS)
        await thread.compact(target="50%")
        await grown(tk, "ship-it", turns=2)
    sessions = home / ".codex" / "sessions"
    sessions.mkdir(parents=True)
    store = str(home / ".local" / "share" / "threadkeep" / "threadkeep.db")
    wrote = await asyncio.to_thread(
        main, ["export", "ship-it", "--format", "codex", "-o", str(sessions), "--store", store, "--json"]
    )
    assert wrote == 0


@asynccontextmanager
async def _provider() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        asked = await request.json()
        wire = find_dialect(DIALECTS[request.path.rsplit("/", 1)[-1]]).wire
        said = Answer(text="All is well.", response_id="resp_1", message_id="msg_1", model="m", created_at=1)
        if asked.get("stream"):
            return web.Response(body=wire.render_answer_stream(said), headers={"content-type": "text/event-stream"})
        return web.Response(body=wire.render_answer(said), content_type="application/json")

    application = web.Application(client_max_size=2**26)
    application.router.add_post("/{path:.*}", answer)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
