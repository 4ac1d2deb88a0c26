"""Runs client programs as child processes to their end, and leaves none behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

RUN_SECONDS = 60.0
# One line may hold a whole history; asyncio's default of 64 KiB is too short for that.
MAX_LINE_BYTES = 64 * 1024 * 1024
LOOPBACK = "127.0.0.1,localhost"


class ClientUnavailable(Exception):
    """The client cannot be had on this machine; `reason` says why, for a skip or a failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Ended(NamedTuple):
    """A process that has ended, and what it wrote."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def client_environment(home: Path, **more: str) -> dict[str, str]:
    """Return all a client gets to see of the environment: no proxy, no credential, no user's own settings.

    Raises:
        ClientUnavailable: There is no node to run it with.
    """
    node = shutil.which("node")
    if node is None:
        raise ClientUnavailable("node is not installed")
    return {
        "PATH": os.pathsep.join((str(Path(node).parent), os.defpath)),
        "HOME": str(home),
        "NO_PROXY": LOOPBACK,
        "no_proxy": LOOPBACK,
        **more,
    }


async def run_to_end(
    words: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None, seconds: float, stdin: bytes = b""
) -> Ended:
    """Run a command with `stdin` as its input and return how it ended.

    Its whole process group is killed when time or the caller runs out.

    Raises:
        TimeoutError: It was still running after `seconds`.
    """
    process = await _started(words, cwd=cwd, environment=environment, piped=bool(stdin))
    try:
        async with asyncio.timeout(seconds):
            stdout, stderr = await process.communicate(stdin or None)
    finally:
        await end_group(process)
    return Ended(exit_code=process.returncode or 0, stdout=stdout, stderr=stderr)


async def _started(
    words: Sequence[str], *, cwd: Path, environment: Mapping[str, str] | None, piped: bool
) -> asyncio.subprocess.Process:
    """Start a process that leads its own group. A caller cancelled meanwhile leaves none of the group behind.

    Cancelled in the middle of it, asyncio ends the process alone, and waits for as long as a child of it holds a pipe.
    """
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.PIPE if piped else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        await end_group(await starting)
        raise


@contextlib.asynccontextmanager
async def piped_process(
    words: Sequence[str], *, cwd: Path, environment: Mapping[str, str], log: Path
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a command that is talked to over its standard input and output; its whole process group is gone on leaving."""
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=MAX_LINE_BYTES,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        await end_group(process)


async def end_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process that leads its own group, and all of that group, unless it has ended by itself."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
