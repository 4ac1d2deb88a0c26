"""A real terminal, held by tmux: what is typed into it, and what a person would see."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self
from uuid import uuid4

import pytest

COLUMNS, ROWS = 110, 50
PATIENCE_S = 120


class Terminal:
    """A tmux server of its own with one pane, in which a command runs; use it as an async context manager.

    A client in control mode is told of every change, so nothing here waits for time to pass.
    """

    def __init__(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str]) -> None:
        # A socket's path has room for about a hundred characters; the folder of a test may be deeper than that.
        self._private = Path(tempfile.gettempdir()) / f"tk-tmux-{uuid4().hex[:12]}"
        self._socket = str(self._private / "s")
        settings = [
            f"{name}={value}" for name, value in environ.items() if name.startswith(("THREADKEEP_", "PYTHONPATH", "HOME"))
        ]
        self._line = shlex.join(["env", "-C", str(folder), *settings, *arguments])
        self._client: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        if shutil.which("tmux") is None:
            pytest.skip("tmux is not installed; it is what holds the terminal")
        self._private.mkdir(mode=0o700)
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self._client = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self._socket, "-f", "/dev/null", "-u", "-C", "new-session", *size, self._line),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=1 << 24,
        )
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self._tmux("kill-server")
        if self._client is not None:
            await self._client.communicate()
        shutil.rmtree(self._private)

    async def types(self, line: str) -> None:
        """Type a line and press Enter."""
        await self._tmux("send-keys", "-l", line)
        await self._tmux("send-keys", "Enter")

    async def presses(self, key: str) -> None:
        """Press one key, as tmux names it."""
        await self._tmux("send-keys", key)

    async def shows(self, text: str, *, times: int = 1) -> str:
        """Return everything the terminal shows, what scrolled away included, once `text` is in it so many times."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                seen = await self._tmux("capture-pane", "-p", "-J", "-S", "-2000")
                if seen.count(text) >= times:
                    return seen
                await self._changes(seen, wanted=text)

    async def ends(self) -> None:
        """Return once the command has ended, and the terminal with it."""
        assert self._client is not None
        assert self._client.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while await self._client.stdout.readline():
                continue

    async def _changes(self, seen: str, *, wanted: str) -> None:
        assert self._client is not None
        assert self._client.stdout is not None
        if not await self._client.stdout.readline():
            raise AssertionError(f"the terminal was closed before it showed {wanted!r}; it showed:\n{seen}")

    async def _tmux(self, *arguments: str) -> str:
        running = await asyncio.create_subprocess_exec(
            *("tmux", "-S", self._socket, *arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        out, _ = await running.communicate()
        return out.decode("utf-8", "replace")
