"""Runs `threadkeep serve` as a process of its own that a test may kill."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

START_SECONDS = 30.0
STOP_SECONDS = 30.0


class _Announced(msgspec.Struct):
    """The first line of `threadkeep serve --json`."""

    base_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProcess:
    """A running gateway. `base_url` is what a client is given."""

    base_url: str
    process: asyncio.subprocess.Process

    async def kill(self) -> None:
        """Kill it as a power cut would: no handler runs, nothing is flushed."""
        self.process.kill()
        await self.process.wait()


@asynccontextmanager
async def gateway_process(
    store: Path, *, upstream: str, port: int = 0, flags: Sequence[str] = ()
) -> AsyncIterator[GatewayProcess]:
    """Run `threadkeep serve` on loopback inside the block, with `upstream` as the provider of every wire; leaving it stops the
    process if it still runs.
    """
    words = (sys.executable, "-m", "threadkeep.cli", "serve", "--json", "--store", str(store), "--port", str(port))
    process = await asyncio.create_subprocess_exec(
        *words,
        *("--openai-upstream", upstream, "--anthropic-upstream", upstream),
        *flags,
        stdout=asyncio.subprocess.PIPE,
        cwd=store.parent,
        env={**os.environ, "THREADKEEP_GEMINI_UPSTREAM": upstream.removesuffix("/v1")},
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = await process.stdout.readline()
        yield GatewayProcess(base_url=msgspec.json.decode(line, type=_Announced).base_url, process=process)
    finally:
        if process.returncode is None:
            process.terminate()
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
