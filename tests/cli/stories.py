"""What the tests of the command line tell and are told: threads made through the library, and what a command left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from tests.drafting.replies import block
from tests.histories import Json, answered, call, output, said

import threadkeep
from threadkeep import Thread, Threadkeep
from threadkeep.testing.scripted_model import ScriptedModel, says

TURNS = 4
# A process that still runs then hangs. Far longer than any takes, on a busy machine too.
LONGEST_S = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON object it printed."""
        assert self.out.count("\n") == 1, self.out
        return msgspec.json.decode(self.out)


Cli = Callable[..., Ran]


def worked(number: int) -> list[Json]:
    """Return one turn: a demand, a call, its long output, an answer."""
    return [
        said(f"Step {number}: keep port {4600 + number} for service {number}."),
        call(f"call_{number}", f'{{"cmd":"make step{number}"}}'),
        output(f"call_{number}", f"line of build {number}\n" * 200),
        answered(f"Service {number} answers."),
    ]


async def grown(tk: Threadkeep, name: str, *, turns: int = TURNS) -> Thread:
    """Return a new thread with some turns of work in it."""
    thread = await tk.thread(name)
    for number in range(1, turns + 1):
        await thread.record(worked(number))
    return thread


OLD_PORT = "The staging port is 4601."
NEW_PORT = "The staging port is now 4700, not 4601."


async def changed_mind(tk: Threadkeep) -> None:
    """Two compactions, a correction between them, and a model that quotes it: checkpoints are at #11 and #27."""
    thread = await tk.thread("moved")
    await thread.record([*worked(1), said(OLD_PORT), *worked(2)[1:]])
    await thread.compact()
    await thread.record([said(NEW_PORT), *worked(3)[1:], *worked(4), *worked(5)])
    reply = block(inactive='supersede | [2] → "The staging port is now 4700" (#13)')
    async with ScriptedModel([says(reply)], window_tokens=200_000) as model:
        await thread.compact(strategy="session", model=model, target="30%")


T = TypeVar("T")


def asked(path: Path, question: Callable[[Threadkeep], Coroutine[None, None, T]]) -> T:
    """Return what `question` finds out about the store at `path`."""

    async def ask() -> T:
        async with threadkeep.open(path) as tk:
            return await question(tk)

    return asyncio.run(ask())


def stored(path: Path, story: Callable[[Threadkeep], Awaitable[object]]) -> Path:
    """Return `path` as a store in which `story` happened."""

    async def play(tk: Threadkeep) -> None:
        await story(tk)

    asked(path, play)
    return path


def command(*arguments: str) -> list[str]:
    """Return what starts the command line as a process of its own."""
    return [sys.executable, "-m", "threadkeep.cli", *arguments]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command line as a process inside the block. After `LONGEST_S`, and at the end of the block, it is killed.

    Its SIGINT has the default handler, also where this process ignores SIGINT, as a background job of a shell does.
    """
    ours = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        running = subprocess.Popen(
            command(*arguments), env=surroundings(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
    finally:
        signal.signal(signal.SIGINT, ours)
    with running:
        alarm = threading.Timer(LONGEST_S, running.kill)
        alarm.start()
        try:
            yield running
        finally:
            alarm.cancel()
            running.kill()


def surroundings() -> dict[str, str]:
    """Return an environment in which such a process finds the package under test, installed or not."""
    return {**os.environ, "PYTHONPATH": str(Path(threadkeep.__file__).resolve().parents[1])}


def damaged(path: Path, *, thread: str, ordinal: int, body: bytes) -> None:
    """Put other bytes where a record's own were, as a broken disk would."""
    with closing(sqlite3.connect(path)) as connection, connection:
        changed = connection.execute(
            "UPDATE body SET form = 0, data = ? WHERE id ="
            " (SELECT body FROM record WHERE ordinal = ? AND thread = (SELECT id FROM thread WHERE name = ?))",
            (body, ordinal, thread),
        )
    assert changed.rowcount == 1
