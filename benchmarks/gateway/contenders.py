"""The proxies under test, each in a process of its own on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import aiohttp

from benchmarks import build_child_environ
from threadkeep import __version__

DIRECT: Final = "direct"
BARE: Final = "bare pass-through"
THREADKEEP: Final = "threadkeep"
LITELLM: Final = "LiteLLM proxy"
HEADROOM: Final = "headroom proxy"
# Those that another environment may have.
OTHERS: Final = ("litellm", "headroom")
NOBODY: Final[Mapping[str, str]] = {}
# LiteLLM's proxy imports for half a minute on a slow machine.
START_SECONDS: Final = 120

LITELLM_CONFIG: Final = """\
model_list:
  - model_name: "*"
    litellm_params:
      model: "openai/*"
      api_base: {upstream}/v1
      api_key: none
"""

# No window is full here: a compaction in the middle would be measured as latency. The others are told not to call home, and that
# nobody but this process can reach them.
ENVIRON: Final = {
    "THREADKEEP_MODEL_CONTEXT_WINDOW": "100000000",
    "HEADROOM_TELEMETRY": "off",
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
    "OPENAI_API_KEY": "none",
}

Command = Callable[[int, str, Path], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """One that stands between. `version` is None where its package is not installed.

    Attributes:
        command: Given a port, the upstream's address and a folder, what to start.
        ready: The path that answers once it is up.
    """

    name: str
    version: str | None
    command: Command
    ready: str = "/healthz"
    note: str = ""


def list_proxies(pythons: Mapping[str, str] = NOBODY) -> list[Proxy]:
    """Return everyone, installed or not.

    Args:
        pythons: For `litellm` and `headroom`, the interpreter of another environment that has it.
    """
    litellm, headroom = (pythons.get(name, sys.executable) for name in OTHERS)
    return [
        Proxy(name=BARE, version=__version__, command=_bare, ready="/", note="same server and client, no thought"),
        Proxy(name=THREADKEEP, version=__version__, command=_threadkeep, note="records every request, auto-compaction on"),
        Proxy(
            name=LITELLM, version=_installed("litellm", litellm), command=partial(_litellm, litellm), ready="/health/liveliness"
        ),
        Proxy(name=HEADROOM, version=_installed("headroom-ai", headroom), command=partial(_headroom, headroom), ready="/health"),
    ]


@asynccontextmanager
async def provider() -> AsyncIterator[str]:
    """Run the provider inside the block, which is given its address."""
    port = free_port()
    command = [sys.executable, "-m", "benchmarks.gateway.provider", str(port)]
    async with _running(command, url=f"http://127.0.0.1:{port}", ready="/", environ={}) as url:
        yield url


@asynccontextmanager
async def running(proxy: Proxy, *, upstream: str, folder: Path) -> AsyncIterator[str]:
    """Run a proxy inside the block, which is given its address."""
    port = free_port()
    command = proxy.command(port, upstream, folder)
    async with _running(command, url=f"http://127.0.0.1:{port}", ready=proxy.ready, environ=ENVIRON) as url:
        yield url


def free_port() -> int:
    """Return a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@asynccontextmanager
async def _running(command: Sequence[str], *, url: str, ready: str, environ: dict[str, str]) -> AsyncIterator[str]:
    quiet = subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        *command, stdout=quiet, stderr=quiet, stdin=quiet, env=build_child_environ({**os.environ, **environ})
    )
    try:
        await _answers(url + ready, process)
        yield url
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(10):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _answers(url: str, process: asyncio.subprocess.Process) -> None:
    async with aiohttp.ClientSession() as session, asyncio.timeout(START_SECONDS):
        while True:
            if process.returncode is not None:
                raise RuntimeError(f"what should answer at {url} ended with {process.returncode}")
            try:
                async with session.get(url) as answer:
                    await answer.read()
                    return
            except aiohttp.ClientError:
                await asyncio.sleep(0.1)


def _bare(port: int, upstream: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "benchmarks.gateway.pass_through", str(port), upstream]


def _threadkeep(port: int, upstream: str, folder: Path) -> list[str]:
    serve = [sys.executable, "-m", "threadkeep.cli", "serve", "--port", str(port), "--openai-upstream", upstream]
    return [*serve, "--store", str(folder / "gateway.db"), "--auto-compact", "on", "--access-log", "off"]


def _litellm(python: str, port: int, upstream: str, folder: Path) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(LITELLM_CONFIG.format(upstream=upstream), encoding="utf-8")
    return [str(Path(python).with_name("litellm")), "--config", str(config), "--port", str(port), "--host", "127.0.0.1"]


def _headroom(python: str, port: int, upstream: str, folder: Path) -> list[str]:
    proxy = [str(Path(python).with_name("headroom")), "proxy", "--host", "127.0.0.1", "--port", str(port)]
    return [*proxy, "--openai-api-url", upstream]


def _installed(package: str, python: str) -> str | None:
    if python == sys.executable:
        try:
            return version(package)
        except PackageNotFoundError:
            return None
    asked = [python, "-I", "-c", f"from importlib.metadata import version; print(version({package!r}))"]
    try:
        found = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None
    return found
