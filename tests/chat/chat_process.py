"""A chat as a process beside a model's server in the test's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cli.stories import command, surroundings


@dataclass(frozen=True, slots=True, kw_only=True)
class Talked:
    """What a chat left behind."""

    code: int
    out: str
    err: str


def around(home: Path, **settings: str) -> dict[str, str]:
    """The environment of a person with an empty home, whose compactions ask no model."""
    return {
        **surroundings(),
        "HOME": str(home),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "THREADKEEP_STORE": str(home / "chat.db"),
        "THREADKEEP_COMPACT_STRATEGY": "extractive",
        **settings,
    }


async def piped(home: Path, lines: str | bytes, *arguments: str, starter: Sequence[str] = (), **settings: Any) -> Talked:
    """Run a chat in `home` whose input is `lines`; `starter` is a command line that ends in its own."""
    running = await asyncio.create_subprocess_exec(
        *starter,
        *command("chat", *arguments),
        cwd=home,
        env=around(home, **settings),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, err = await running.communicate(lines.encode() if isinstance(lines, str) else lines)
    assert running.returncode is not None
    return Talked(code=running.returncode, out=out.decode(), err=err.decode())
