"""Whatever becomes of opening and closing, no thread and no connection outlives it.

Of one backend alone: only a file is opened by threads of this process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from threadkeep import Config, Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.errors import StoreClosed, StoreError
from threadkeep.llm.provider import ProviderModel, Server


class Connections:
    """Every connection that was made, kept, so that none is closed by being forgotten."""

    def __init__(self) -> None:
        self.made: list[sqlite3.Connection] = []
        self.is_made = threading.Event()
        self._connect = sqlite3.connect

    def connect(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*arguments, **options)
        self.made.append(connection)
        self.is_made.set()
        return connection

    def still_open(self) -> int:
        count = 0
        for connection in self.made:
            with contextlib.suppress(sqlite3.ProgrammingError):
                connection.total_changes  # noqa: B018  # a closed connection refuses to say
                count += 1
        return count


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("threadkeep-")]


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    kept = Connections()
    monkeypatch.setattr(sqlite3, "connect", kept.connect)
    return kept


@pytest.fixture
def path(tmp_path: Path, connections: Connections) -> Iterator[Path]:
    """Where a store is to be; afterwards nothing of it is open, and no log is left."""
    yield tmp_path / "threads.db"
    assert connections.made
    assert (threads(), connections.still_open(), [file.name for file in tmp_path.iterdir()]) == ([], 0, ["threads.db"])


async def opened_and_left(path: Path) -> None:
    async with Threadkeep(Config(store=f"sqlite:///{path}")):
        pass


async def cancelled_once(path: Path, *, reached: Callable[[], bool]) -> None:
    """Cancel opening as soon as the event loop sees that it has come so far."""
    opening = asyncio.ensure_future(opened_and_left(path))
    while not reached():  # noqa: ASYNC110  # threads that know no event are what is waited for
        await asyncio.sleep(0)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening


def test_opening_that_fails_once_the_file_is_open_closes_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tenant that cannot be made is the caller's only trouble."""
    start = threading.Thread.start

    def no_writer(thread: threading.Thread) -> None:
        if thread.name == "threadkeep-writer":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", no_writer)
    with pytest.raises(StoreError, match="no more threads"):
        asyncio.run(opened_and_left(path))


def test_opening_that_is_cancelled_once_the_file_is_open_closes_it(path: Path) -> None:
    """A reader was at work for it already."""
    asyncio.run(cancelled_once(path, reached=lambda: threads() != []))


def test_opening_that_is_cancelled_while_the_file_is_opened_closes_it(path: Path, connections: Connections) -> None:
    """The thread that opens it goes on, and closes what nobody waits for any more."""
    asyncio.run(cancelled_once(path, reached=lambda: connections.made != []))


def test_opening_that_is_cancelled_before_it_heard_that_the_file_is_open_closes_it(path: Path, connections: Connections) -> None:
    """The answer of the thread that opened it waits in the loop's queue."""

    async def cancelled() -> None:
        opening = asyncio.ensure_future(opened_and_left(path))
        # The loop stands still while the connection is made, so that it hears nothing.
        while not connections.made:
            await asyncio.sleep(0)
            connections.is_made.wait(timeout=0.01)
        assert connections.still_open() == 1
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening

    asyncio.run(cancelled())


class Clinging(ProviderModel):
    """A model that cannot be let go of."""

    def __init__(self, closing: Callable[[], Awaitable[None]]) -> None:
        super().__init__(
            "m", model="m", dialect=find_dialect("chat"), path="/", transport=Server("m", base_url="http://127.0.0.1:9")
        )
        self._closing = closing

    async def aclose(self) -> None:
        await self._closing()


async def fails() -> None:
    raise ConnectionResetError


async def never_ends() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(("closing", "raised"), [(fails, ConnectionResetError), (never_ends, asyncio.CancelledError)])
def test_a_model_that_does_not_close_does_not_keep_the_store_open(
    path: Path, closing: Callable[[], Awaitable[None]], raised: type[BaseException]
) -> None:
    """Its failure is told, or the caller's patience ends, and the store is closed all the same."""

    async def left() -> None:
        tk = await Threadkeep(Config(store=f"sqlite:///{path}")).__aenter__()
        models = tk.backend.models
        models._opened["m"] = Clinging(closing)
        leaving = asyncio.ensure_future(tk.__aexit__(None, None, None))
        while models._opened:  # noqa: ASYNC110  # the very moment at which models are being closed
            await asyncio.sleep(0)
        if raised is asyncio.CancelledError:
            leaving.cancel()
        with pytest.raises(raised):
            await leaving
        with pytest.raises(StoreClosed):
            await tk.thread("t")

    asyncio.run(left())


def test_closing_that_is_cancelled_before_a_thread_was_free_for_it_closes(path: Path) -> None:
    """Whoever stops waiting for it does not take it back."""

    async def closed_without_waiting() -> None:
        loop, free = asyncio.get_running_loop(), threading.Event()
        loop.set_default_executor(ThreadPoolExecutor(max_workers=1))
        tk = await Threadkeep(Config(store=f"sqlite:///{path}")).__aenter__()
        busy = loop.run_in_executor(None, free.wait)
        closing = asyncio.ensure_future(tk.backend.store.close())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        free.set()
        await busy
        await loop.run_in_executor(None, int)

    asyncio.run(closed_without_waiting())
