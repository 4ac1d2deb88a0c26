"""A home folder in which the commands and programs of a page run, with the files and servers they need."""

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
# Commands that run until they are stopped; each prints a line when it is ready.
LONG_RUNNING = re.compile(r"^threadkeep (serve|view)\b|--watch\b")
# Commands that a test of a page does not run, and why.
NOT_RUN = {
    "make": "each target is a step of .ci/run",
    "threadkeep run": "it needs an installed client; tests/clients/test_run.py runs it",
    "pip": "a test downloads nothing",
    "uv tool": "a test downloads nothing; tests/install runs it",
    "threadkeep service": "it changes what this machine starts; tests/cli/test_service.py runs it",
    "python3 -m pip": "a test downloads nothing",
}


@dataclass(slots=True, kw_only=True)
class Sandbox:
    """A place to run a page. `replacements` maps placeholders on the page to real names."""

    folder: Path
    environ: dict[str, str]
    replacements: dict[str, str]
    running: list[asyncio.subprocess.Process] = field(default_factory=list)

    async def run_line(self, line: str) -> None:
        """Run one line of shell; a command that does not end stays running when it is ready."""
        if LONG_RUNNING.search(line):
            await self._start(line)
            return
        code, output = await self._run(["bash", "-c", self._fill_in(line)])
        assert code == 0, f"{line}\n{output}"

    async def run_program(self, text: str) -> None:
        """Run a Python program of the page."""
        code, output = await self._run([sys.executable, "-c", self._fill_in(text)])
        assert code == 0, output

    async def close(self) -> None:
        """Stop the commands that still run. All of them must be running, and must stop on SIGTERM."""
        alive = [process for process in self.running if process.returncode is None]
        for process in alive:
            process.terminate()
        for process in alive:
            async with asyncio.timeout(SECONDS):
                await process.communicate()
        assert alive == self.running, "a command that should run until it is stopped has ended"
        assert {process.returncode for process in alive} <= {0, -signal.SIGTERM}

    def _fill_in(self, text: str) -> str:
        for name, value in self.replacements.items():
            text = text.replace(name, value)
        return text

    async def _run(self, command: list[str]) -> tuple[int | None, str]:
        process = await self._start_process(command)
        async with asyncio.timeout(SECONDS):
            output, errors = await process.communicate()
        return process.returncode, output.decode() + errors.decode()

    async def _start(self, line: str) -> None:
        command = self._fill_in(line.partition("#")[0].strip())
        serves = command.startswith("threadkeep serve")
        if serves:
            command += " --json"
        if serves or command.startswith("threadkeep view"):
            command += " --port 0"
        process = await self._start_process(["bash", "-c", f"exec {command}"])
        self.running.append(process)
        assert process.stdout is not None
        async with asyncio.timeout(SECONDS):
            first = await process.stdout.readline()
        assert first, f"{line} printed nothing"
        if serves:
            url = json.loads(first)["base_url"].removesuffix("/v1")
            self.replacements["http://127.0.0.1:4621"] = url

    async def _start_process(self, command: list[str]) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            *command, cwd=self.folder, env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=pipe, stderr=pipe
        )


@asynccontextmanager
async def open_sandbox(folder: Path, *, replacements: Mapping[str, str]) -> AsyncIterator[Sandbox]:
    """Open a sandbox: a store with a compacted thread, transcripts of other programs, and a provider that answers everything.

    `replacements` are further placeholders, such as the addresses of servers.
    """
    home = folder / "home"
    home.mkdir()
    shutil.copytree(ROOT / "examples", home / "examples")
    put(home / ".claude" / "projects" / "app" / "t.jsonl", claude_code.row("u1", None, claude_code.said("hello")))
    put(home / ".pi" / "agent" / "sessions" / "s.jsonl", pi.HEADER, pi.entry(pi.said("hello")))
    await _make_store(home)
    async with _serve_provider() as upstream:
        sandbox = Sandbox(
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
            replacements={
                **replacements,
                "https://api.openai.com": upstream,
                "https://api.anthropic.com": upstream,
                "qwen@http://127.0.0.1:8080/v1": f"qwen@{upstream}/v1",
                "THREAD": "ship-it",
                "FILE": "thread.out",
            },
        )
        try:
            yield sandbox
        finally:
            await sandbox.close()


async def _make_store(home: Path) -> None:
    """Make the user's store with a compacted thread, and a rollout of it where Codex has its own."""
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
async def _serve_provider() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        name = DIALECTS.get(request.path.rsplit("/", 1)[-1])
        if name is None:
            raise web.HTTPNotFound
        asked, wire = await request.json(), find_dialect(name).wire
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
