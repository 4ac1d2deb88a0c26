"""From hosts with a synchronous contract to threadkeep, which is asynchronous inside: one event loop in one background thread.

    from threadkeep.adapters.bridge import shared

    tk = shared.opened(("threadkeep", path), lambda: threadkeep.open(path))     # once a process, closed at its end
    thread = shared.run(tk.thread("ship-it", dialect="chat"))               # from a plain function
    window = await shared.awaited(thread.window())                          # from a coroutine, on whatever loop

An open store belongs to the loop it was opened on. Whoever opens it here must use it through here, so that every thread and
every loop of a host, and hosts that begin a new loop with each call, share one store.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import weakref
from collections.abc import Callable, Collection, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from threadkeep.client import Config, Thread, Threadkeep, build_config, resolve
from threadkeep.errors import BadInput, InvalidThreadId
from threadkeep.threads import check_thread_id

T = TypeVar("T")

# Closing a store waits for what it accepted; a disk that takes longer than this is not waited for at the end of a process.
LONGEST_CLOSING_S = 30.0

# Kept from being collected, which would close it.
_LEFT_BEHIND: list[object] = []


class Bridge:
    """Runs coroutines on a loop of its own, which begins with the first call and ends with `close` or the process.

    Any thread may call, also one in which another event loop runs. After a fork the child begins with a loop of its own and
    with nothing opened: what the parent opened must not be used there, so hold on to the bridge and ask `opened` each time.
    """

    def __init__(self) -> None:
        self._begin_anew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_of(self, Bridge._leave_behind))
        # By the time `atexit` runs no executor takes work any more, and closing a store needs one. This runs before that, the
        # last registered first: executors registered theirs when this module imported them.
        getattr(threading, "_register_atexit", atexit.register)(_of(self, Bridge.close))

    def _begin_anew(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._opened: dict[Hashable, asyncio.Task[Any]] = {}
        self._asked: set[asyncio.Task[Any]] = set()
        self._stack = AsyncExitStack()

    def _leave_behind(self) -> None:
        """Begin anew in a child process. What the parent has open must be neither used nor, SQLite asks, closed here."""
        _LEFT_BEHIND.append((self._loop, self._opened, self._stack))
        self._begin_anew()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return what `coroutine` returns, or raise what it raises; blocks the calling thread until then.

        A `KeyboardInterrupt` of the caller cancels it.

        Raises:
            BadInput: Called from within the bridge's own loop, which would wait for itself; await it there.
        """
        loop = self._loop_for(coroutine)
        running = asyncio.run_coroutine_threadsafe(self._tracked(coroutine, self._asked), loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    async def awaited(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Return the same to a coroutine of any loop, without blocking it. Cancelling the caller cancels it.

        Within the bridge's own loop it is simply awaited.
        """
        if self._is_inside():
            return await coroutine
        loop = self._loop_for(coroutine)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._tracked(coroutine, self._asked), loop))

    @staticmethod
    async def _tracked(coroutine: Coroutine[Any, Any, T], asked: set[asyncio.Task[Any]]) -> T:
        """Run a coroutine so that `close` can tell it from what the opened things do by themselves."""
        task = asyncio.current_task()
        assert task is not None
        asked.add(task)
        try:
            return await coroutine
        finally:
            asked.discard(task)

    def opened(self, key: Hashable, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Return what was opened under `key`, opening what `make` returns on the first call; see `opening`."""
        return self.run(self.opening(key, make))

    async def opening(self, key: Hashable, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Enter, on the bridge's loop, what `make` returns, once for all who ask for `key` at the same time or later.

        It stays open until the bridge closes. Where opening fails, everybody who waits for it hears why, and the next call
        tries again. Run it through `run` or `awaited`.
        """
        task = self._opened.get(key)
        if task is None:
            task = self._opened[key] = asyncio.create_task(self._stack.enter_async_context(make()))
            task.add_done_callback(lambda done: self._forget_failed(key, done))
        # One that gives up waiting does not take it from the others.
        entered: T = await asyncio.shield(task)
        return entered

    def _forget_failed(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._opened.pop(key, None)

    def close(self) -> None:
        """Close what was opened, newest first, and end the loop. The next call begins with a new one.

        Raises:
            BadInput: Called from within the bridge's own loop.
        """
        if self._is_inside():
            raise BadInput("a bridge cannot be closed from within its own loop; close it from outside")
        with self._lock:
            loop, thread, stack, asked = self._loop, self._thread, self._stack, self._asked
            self._loop, self._thread, self._opened, self._asked, self._stack = None, None, {}, set(), AsyncExitStack()
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_wound_up(stack, asked), loop).result(LONGEST_CLOSING_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(LONGEST_CLOSING_S)

    def _is_inside(self) -> bool:
        return threading.current_thread() is self._thread

    def _loop_for(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._is_inside():
            coroutine.close()
            raise BadInput("the bridge cannot wait for itself; await the coroutine in its loop")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="threadkeep-bridge"))
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name="threadkeep-bridge", daemon=True)
                self._thread.start()
            return self._loop


def _of(bridge: Bridge, method: Callable[[Bridge], None]) -> Callable[[], None]:
    """Return a call of a bridge's method that does not keep the bridge alive."""
    reference = weakref.ref(bridge)

    def call() -> None:
        if (alive := reference()) is not None:
            method(alive)

    return call


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _wound_up(stack: AsyncExitStack, asked: Collection[asyncio.Task[Any]]) -> None:
    """Cancel what was asked for and still runs, then close what was opened: nothing uses a store that is being closed.

    What an open store does by itself is left to its closing; a pool of connections would not survive being cancelled.
    """
    unfinished = [*asked]
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    await stack.aclose()
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


shared = Bridge()
"""The bridge every adapter uses, so that a process has one loop and each store is open once in it."""


StoreName = str | os.PathLike[str] | Config | Threadkeep | None
"""A path or address, settings, an open store, or None for the store that the configuration names."""


class Reach:
    """Runs an adapter's work where its store lives.

    A store that the program opened is used on the program's own event loop. Any other is opened once a process, on the bridge's
    loop, and can then be reached from every loop and from plain functions.
    """

    def __init__(self, store: StoreName) -> None:
        """Name the store.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self._given = store if isinstance(store, Threadkeep) else None
        self._config = _config_of(store) if not isinstance(store, Threadkeep) else store.config

    async def awaited(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` makes of the open store, to a coroutine."""
        if self._given is not None:
            return await work(self._given)
        return await shared.awaited(self._on_bridge(work))

    def run(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Return what `work` makes of the open store, to a plain function.

        Raises:
            BadInput: The store was opened on an event loop, which a plain function would block.
        """
        if self._given is not None:
            raise BadInput("a store opened with `async with` serves coroutines only; give the adapter the store's path instead")
        return shared.run(self._on_bridge(work))

    async def _on_bridge(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        config = self._config
        # Two adapters with the same settings share a store; a mapping among them keeps a value from being a key itself.
        tk = await shared.opening(("threadkeep", repr(config)), lambda: Threadkeep(config, environ=os.environ))
        return await work(tk)


async def thread_for(tk: Threadkeep, name: str, *, dialect: str) -> Thread:
    """Resume or create the thread that a host calls `name`.

    Raises:
        BadInput: A thread of that name is there and written in another dialect.
    """
    thread = await tk.thread(thread_id_of(name), dialect=dialect)
    if thread.dialect.name != dialect:
        written = thread.dialect.name
        raise BadInput(f"thread {thread.id!r} is written in {written!r}, and this host speaks {dialect!r}; choose another name")
    return thread


def thread_id_of(name: str) -> str:
    """Return a host's name for a conversation as a thread's id: itself where it can be one, else one made of its digest.

    Different names give different ids: two people's conversations must never meet because a character could not be kept.
    """
    try:
        return check_thread_id(name)
    except InvalidThreadId:
        return f"host-{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _config_of(store: str | os.PathLike[str] | Config | None) -> Config:
    if isinstance(store, Config):
        return store
    flags = {"store": os.fspath(store) if store is not None else None}
    return build_config(resolve(flags=flags, environ=os.environ, project=Path.cwd()))
