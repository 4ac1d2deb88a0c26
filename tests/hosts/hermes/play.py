"""A home for the host, a provider that plays its model, and one process of the host after another."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web
from tests.doubles.provider import ScriptedProvider
from tests.doubles.script import Reply, call, say
from tests.hosts.said import Laid, laid_out

from threadkeep.client import Config, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.threads.reader import load_live_path

DRIVER = Path(__file__).with_name("driver.py")
REPOSITORY = Path(__file__).parents[3]
CONFIG = """
plugins:
  enabled: [{enabled}]
context:
  engine: {engine}
model:
  context_length: 64000
compression:
  enabled: {compression}
  in_place: {in_place}
"""


class HermesModel(ScriptedProvider):
    """The scripted provider, which has nothing of what the host looks for beside completions."""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if not request.path.endswith("/chat/completions"):
            return web.json_response({"error": "not found"}, status=404)
        return await super()._serve(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A home of the host's in a folder of its own, with a store beside it."""

    folder: Path

    @property
    def store(self) -> Path:
        return self.folder / "threads.db"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def configure(
        self, *, enabled: str = "threadkeep", engine: str = "threadkeep", compression: str = "true", in_place: str = "true"
    ) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        text = CONFIG.format(enabled=enabled, engine=engine, compression=compression, in_place=in_place)
        (self.home / "config.yaml").write_text(text, encoding="utf-8")

    @property
    def environ(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return inherited | {
            "HOME": str(self.folder),
            "HERMES_HOME": str(self.home),
            "THREADKEEP_STORE": str(self.store),
            "NO_PROXY": "127.0.0.1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    async def run(
        self, model: ScriptedProvider, says: Sequence[str], *, session: str = "20260101_120000_aaaaaa", **plan: Any
    ) -> Ran:
        """Run one process of the host; it says these things one after another."""
        written = json.dumps({"url": model.url, "session": session, "says": list(says), **plan}).encode()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(DRIVER),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.folder,
            env=self.environ,
        )
        out, err = await process.communicate(written)
        lines = out.decode().splitlines()
        report = json.loads(lines[-1]) if lines and lines[-1].startswith("{") else {}
        return Ran(status=process.returncode or 0, report=report, out=out.decode(), err=err.decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a process of the host left: its exit status, what the driver reports, and all that was printed."""

    status: int
    report: Mapping[str, Any]
    out: str
    err: str


LINES = 300


def part(number: int) -> str:
    """Return a file that is worth reading, and whose every line is its own."""
    said = "nothing to report, and nothing to add to that either, as on any other day of which we know now"
    return "\n".join(f"part {number} line {line}: {said}" for line in range(LINES))


def asks(number: int) -> str:
    return f"Please look at part {number}. Always keep port {8000 + number} free."


def reads(host: Host, number: int) -> list[Reply]:
    """Return what the model does when it is asked to look at a part: it reads the file, then says so."""
    path = host.folder / f"part{number}.txt"
    path.write_text(part(number), encoding="utf-8")
    return [call("read_file", {"path": str(path), "offset": 1, "limit": LINES}), say(f"Part {number} is read.")]


async def states(host: Host, session: str) -> list[Laid]:
    """Return what each checkpoint of a session's thread puts before a request; the store must prove itself."""
    async with Threadkeep(Config(store=str(host.store))) as tk:
        assert (await tk.verify()).problems == ()
        thread = await tk.find(session)
        return laid_out(await thread.records())


async def recorded(host: Host, session: str) -> list[dict[str, Any]]:
    """Return every item on the live path of a session's thread."""
    async with Threadkeep(Config(store=str(host.store))) as tk:
        path = await load_live_path(tk.backend.store, session, whole=True)
        records = [each for span in reversed(path.spans) for each in await tk.backend.store.read(span, kinds={RecordKind.ITEM})]
        return [json.loads(record.body) for record in records]
