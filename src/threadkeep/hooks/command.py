"""One command, run to its end: never past its time, its output bounded, nothing of it left behind if it is cut off."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from threadkeep.hooks.hook import CommandHook

SHELL: Final = ("/bin/sh", "-c")
OUTPUT_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Printed:
    """What was printed, bytes that are no UTF-8 replaced; `cut` if there was more."""

    text: str
    cut: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandEnd:
    """How a command ended: `exit_code` is negative for the signal that ended it."""

    exit_code: int
    stdout: Printed
    stderr: Printed


class Catch:
    """One end of a pipe, read as it fills. The first bytes are kept and the rest let go, so that no writer waits for room.

    A pipe of our own, because asyncio's lasts until its last writer closes it, and that may be something the command left running
    in the background: the command is over when it exits.
    """

    def __init__(self) -> None:
        self._kept = bytearray()
        self._cut = False
        self._open = True
        self._source, self.into = os.pipe()
        os.set_blocking(self._source, False)

    def __enter__(self) -> Catch:
        asyncio.get_running_loop().add_reader(self._source, self._take)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.hand_over()
        self._stop_listening()
        os.close(self._source)

    def hand_over(self) -> None:
        """Close our copy of the end that is written to, once the command has its own."""
        if self.into >= 0:
            os.close(self.into)
            self.into = -1

    def printed(self) -> Printed:
        """Return what has been printed up to now."""
        # Something left in the background may print without end; past the bound nothing more is wanted.
        while self._open and not self._cut and self._take():
            pass
        return Printed(text=self._kept.decode("utf-8", errors="replace"), cut=self._cut)

    def _take(self) -> bool:
        """Read what is there; False once nothing is."""
        try:
            chunk = os.read(self._source, OUTPUT_BYTES)
        except BlockingIOError:
            return False
        if not chunk:
            self._stop_listening()
            return False
        room = OUTPUT_BYTES - len(self._kept)
        self._kept += chunk[:room]
        self._cut = self._cut or len(chunk) > room
        return True

    def _stop_listening(self) -> None:
        if self._open:
            asyncio.get_running_loop().remove_reader(self._source)
            self._open = False


async def run_command(hook: CommandHook, *, stdin: bytes, cwd: str, environ: Mapping[str, str]) -> CommandEnd:
    """Start the command in `cwd` with exactly `environ`, give it `stdin`, and return how it ended.

    It gets a process group of its own. If its time runs out, or the caller is cancelled, the whole group is killed and gone when
    this returns; what a command that ended by itself left in the background is left alone.

    Raises:
        OSError, ValueError: It could not be started.
        TimeoutError: Its time ran out.
    """
    arguments = (*SHELL, hook.command) if isinstance(hook.command, str) else hook.command
    with Catch() as stdout, Catch() as stderr:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *arguments,
                stdin=asyncio.subprocess.PIPE,
                stdout=stdout.into,
                stderr=stderr.into,
                cwd=cwd,
                env=dict(environ),
                start_new_session=True,
            )
        )
        try:
            # Cancelled in the middle of it, asyncio would end the command alone, and not what it had already started.
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            await _end(await starting)
            raise
        stdout.hand_over()
        stderr.hand_over()
        try:
            async with asyncio.timeout(hook.timeout_s):
                await _give(process, stdin)
                exit_code = await process.wait()
        finally:
            await _end(process)
        return CommandEnd(exit_code=exit_code, stdout=stdout.printed(), stderr=stderr.printed())


async def _give(process: asyncio.subprocess.Process, stdin: bytes) -> None:
    """Write `stdin` and close it; a command that does not care to read it is none the worse for it."""
    # It may be gone already, and its pipe with it.
    if process.stdin is None or process.stdin.is_closing():
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.write(stdin)
        await process.stdin.drain()
    process.stdin.close()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kill what still runs, everything the command started included, and wait until it is gone."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
