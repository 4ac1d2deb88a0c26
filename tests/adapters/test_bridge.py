"""The bridge between hosts with a synchronous contract and threadkeep."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import threadkeep
from threadkeep.adapters.bridge import Bridge, shared
from threadkeep.errors import BadInput


@pytest.fixture
def bridge() -> Iterator[Bridge]:
    bridge = Bridge()
    yield bridge
    bridge.close()


async def _where() -> int:
    await asyncio.sleep(0)
    return threading.get_ident()


async def _failing() -> None:
    raise KeyError("needle")


def test_every_call_runs_on_one_thread_of_the_bridges_own(bridge: Bridge) -> None:
    """Calls from many threads run on one other thread."""
    with ThreadPoolExecutor(8) as pool:
        places = set(pool.map(lambda _: bridge.run(_where()), range(50)))
    assert len(places) == 1
    assert threading.get_ident() not in places


def test_what_a_coroutine_raises_reaches_the_caller(bridge: Bridge) -> None:
    """An error passes the bridge as it is."""
    with pytest.raises(KeyError, match="needle"):
        bridge.run(_failing())


@pytest.mark.anyio
async def test_it_can_be_called_inside_a_running_loop(bridge: Bridge) -> None:
    """A synchronous host that is itself called from a coroutine gets its answer, and an asynchronous one need not block."""
    blocking = bridge.run(_where())
    assert await bridge.run_async(_where()) == blocking != threading.get_ident()


def test_within_its_own_loop_it_refuses_to_wait_for_itself(bridge: Bridge) -> None:
    """A call that would never return is an error, and awaiting works there too."""

    async def inside() -> int:
        with pytest.raises(BadInput, match="wait for itself"):
            bridge.run(_where())
        with pytest.raises(BadInput, match="from its own loop"):
            bridge.close()
        return await bridge.run_async(_where())

    assert bridge.run(inside()) == bridge.run(_where())


def test_what_is_opened_is_opened_once_and_closed_with_the_bridge() -> None:
    """Everybody who asks for a key gets the same open thing; closing closes it on the loop; the next call opens it anew."""
    happened: list[str] = []

    @asynccontextmanager
    async def thing() -> AsyncIterator[object]:
        happened.append("open")
        await asyncio.sleep(0)
        yield object()
        happened.append("close")

    bridge = Bridge()
    with ThreadPoolExecutor(8) as pool:
        got = set(pool.map(lambda _: bridge.run(bridge.open("key", thing)), range(20)))
    assert (len(got), happened) == (1, ["open"])
    bridge.close()
    assert happened == ["open", "close"]
    assert bridge.run(bridge.open("key", thing)) not in got
    bridge.close()
    bridge.close()
    assert happened == ["open", "close", "open", "close"]


def test_an_opening_that_fails_is_tried_again(bridge: Bridge) -> None:
    """The first error is told and not remembered."""
    attempts: list[int] = []

    @asynccontextmanager
    async def thing() -> AsyncIterator[int]:
        attempts.append(len(attempts))
        if len(attempts) == 1:
            raise OSError("not yet")
        yield len(attempts)

    with pytest.raises(OSError, match="not yet"):
        bridge.run(bridge.open("key", thing))
    assert bridge.run(bridge.open("key", thing)) == 2


def test_closing_cancels_what_still_runs(bridge: Bridge) -> None:
    """Whoever waits for something endless is let go when the bridge closes."""
    begun = threading.Event()

    async def endless() -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(bridge.run, endless())
        begun.wait()
        bridge.close()
        assert waiting.exception() is not None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_after_a_fork_the_child_begins_with_a_loop_and_a_store_of_its_own(bridge: Bridge, tmp_path: Path) -> None:
    """Parent and child both write to the store they open through the bridge."""

    def record(name: str) -> None:
        tk = bridge.run(bridge.open("store", lambda: threadkeep.open(tmp_path / "store.db")))

        async def write() -> None:
            thread = await tk.thread(name, dialect="chat")
            await thread.record([{"role": "user", "content": name}])

        bridge.run(write())

    record("parent")
    gc.collect()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            record("child")
            bridge.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    tk = bridge.run(bridge.open("store", lambda: threadkeep.open(tmp_path / "store.db")))
    assert {summary.id for summary in bridge.run(tk.threads())} == {"parent", "child"}


def test_a_process_that_just_ends_leaves_a_closed_store(tmp_path: Path) -> None:
    """Nobody calls close, nothing is printed, and the store's write-ahead log was folded in."""
    program = (
        "import sys, threadkeep\n"
        "from threadkeep.adapters.bridge import shared\n"
        "tk = shared.run(shared.open('store', lambda: threadkeep.open(sys.argv[1])))\n"
        "thread = shared.run(tk.thread('t', dialect='chat'))\n"
        "shared.run(thread.record([{'role': 'user', 'content': 'hello'}]))\n"
    )
    path = tmp_path / "store.db"
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert sorted(file.name for file in tmp_path.iterdir() if file.suffix != ".lock") == ["store.db"]


def test_adapters_share_one_bridge() -> None:
    """The module's own instance is a bridge, and nothing runs before its first call."""
    assert isinstance(shared, Bridge)
