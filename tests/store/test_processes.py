"""Processes that share a store, or are killed in the middle of appends and compactions: on a file and on a server.

After each kill the store can prove itself, and every window can be read.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.postgres import PostgresServer
from tests.store.appender import record, run_together
from tests.store.lives import make_turn

from threadkeep import Config, Threadkeep
from threadkeep.cli import main as threadkeep_command
from threadkeep.dialects import CHAT
from threadkeep.items import decode_json, find_open_calls, find_orphans
from threadkeep.store import NewThread, Record, Span
from threadkeep.store.locations import open_database

LIVES = Path(__file__).with_name("lives.py")
# A kill comes after at most so many lines of a life.
MOST_LINES = 16


@pytest.fixture(params=["sqlite", "postgres"])
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path / "s.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    # Nothing is in it, not even a schema.
    return asyncio.run(server.new_database())


def test_processes_that_open_a_new_store_at_once_agree(location: str) -> None:
    """Of several processes that open a store at the moment of its making none fails, and all get the same key."""
    keys = run_together(location, *[("open",)] * 4)
    assert (len(set(keys)), len(keys[0])) == (1, 64)


async def read_shared(location: str) -> list[Record]:
    store = await (await open_database(location)).open_tenant()
    found = await store.read(Span(thread_id="shared", start=0, stop=10**9))
    await store.close()
    return found


async def make_shared(location: str) -> None:
    store = await (await open_database(location)).open_tenant()
    await store.create(NewThread(id="shared", dialect="chat", created_at_ms=0), [])
    await store.close()


def test_processes_share_a_thread(location: str) -> None:
    """Two processes race for the same ordinals: every record of both is there, each one's in its own order."""
    asyncio.run(make_shared(location))
    run_together(location, *[("race", name, "100") for name in ("left", "right")])
    found = asyncio.run(read_shared(location))
    assert [each.ordinal for each in found] == list(range(200))
    for name in ("left", "right"):
        own = [each.body for each in found if each.body.startswith(name.encode())]
        assert own == [record(f"{name}-{number}").body for number in range(100)]


class Killer:
    """Begins lives, and kills each in the middle of its work; keeps what was acknowledged."""

    def __init__(self, process: subprocess.Popen[str], location: str) -> None:
        self._process = process
        self._location = location
        # How many turns of a lane were acknowledged, and its newest checkpoint.
        self.recorded: dict[str, int] = {}
        self.compacted: dict[str, int] = {}
        # The last lines of the lives: what each was at when it was killed.
        self.last: list[str] = []

    def kill_one(self, number: int, *, after_lines: int) -> None:
        """Begin a life, and kill it after so many lines."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{self._location} {number}\n")
        self._process.stdin.flush()
        process, lines, last = 0, 0, ""
        for line in self._process.stdout:
            match line.split():
                case ["ended"]:
                    break
                case ["began", process_id]:
                    process = int(process_id)
                case words:
                    lines, last = lines + 1, words[1]
                    if last == "recorded":
                        self.recorded[words[0]] = int(words[2]) + 1
                    elif last == "compacted":
                        self.compacted[words[0]] = int(words[2])
            if process and lines == after_lines:
                os.kill(process, signal.SIGKILL)
        self.last.append(last)


@pytest.fixture
def killer(location: str) -> Iterator[Killer]:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(LIVES)], stdin=pipe, stdout=pipe, text=True) as process:
        yield Killer(process, location)
        process.terminate()


async def check_threads(location: str, killer: Killer) -> None:
    """Check that all that was acknowledged is there and nothing is half there, and that the windows can be read."""
    async with Threadkeep(Config(store=location)) as tk:
        for lane in killer.recorded:
            thread = await tk.find(lane)
            records = await thread.records()
            items = [decode_json(record.body) for record in records if record.kind == "item"]
            turns = len(items) // len(make_turn(0))
            assert turns >= killer.recorded[lane]
            assert items == [item for number in range(turns) for item in make_turn(number)]
            checkpoints = [record.ordinal for record in records if record.kind == "checkpoint"]
            assert lane not in killer.compacted or killer.compacted[lane] in checkpoints
            window = await thread.window()
            assert window.checkpoint == (checkpoints[-1] if checkpoints else None)
            assert f"part {turns - 1} of the parser." in str(list(window))
            views = [CHAT.view(CHAT.parse(item)) for item in window]
            assert (find_orphans(views), find_open_calls(views)) == ([], [])


def kill_many(kills: int, killer: Killer, location: str, *, read_output: Callable[[], str]) -> None:
    chance = random.Random(20)
    for number in range(kills):
        killer.kill_one(number, after_lines=chance.randint(1, MOST_LINES))
        assert threadkeep_command(["verify", "--json", "--store", location]) == 0
        verdict = json.loads(read_output())
        assert (verdict["ok"], verdict["problems"]) == (True, [])
        asyncio.run(check_threads(location, killer))


def test_what_was_acknowledged_outlives_a_kill(killer: Killer, location: str, capsys: pytest.CaptureFixture[str]) -> None:
    """After each kill in the middle of appends and compactions `threadkeep verify` finds nothing, and all windows are whole."""
    kill_many(4, killer, location, read_output=lambda: capsys.readouterr().out)


@pytest.mark.chaos
@pytest.mark.timeout(1_200)
def test_a_hundred_kills_lose_nothing(killer: Killer, location: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A hundred kills in mid-append and mid-compaction, on a file and on a server: `verify` finds nothing, no window is torn."""
    kill_many(100, killer, location, read_output=lambda: capsys.readouterr().out)
    assert killer.last.count("records") >= 10
    assert killer.last.count("compacts") >= 10
