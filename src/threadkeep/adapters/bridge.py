"""Runs threadkeep, which is asynchronous, for synchronous hosts and for any event loop: one loop in one background thread.

    from threadkeep.adapters.bridge import shared

    tk = shared.run(shared.open(path, lambda: threadkeep.open(path)))         # once a process, closed at its end
    thread = shared.run(tk.thread("ship-it", dialect="chat"))               # from a plain function
    window = await shared.run_async(thread.window())                          # from a coroutine, on whatever loop

An open store belongs to the loop it was opened on. A store opened on the bridge is used through the bridge, so that all threads
and loops of a host share it, even if the host starts a new loop with each call.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Collection, Coroutine, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from threadkeep.client import Config, Thread, Threadkeep, build_config, resolve
from threadkeep.errors import InvalidTarget, InvalidThreadId, WrongLoop
from threadkeep.threads import check_thread_id

T = TypeVar("T")

# Closing a store waits for its writes, but no longer than this at the end of a process.
LONGEST_CLOSING_S = 30.0
LONGEST_CLEANUP_S = 10.0

# References that keep objects of a parent process from being collected, which would close them.
_ABANDONED: list[object] = []


class Bridge:
    """Runs coroutines on a loop of its own, which starts with the first call and ends with `close` or the process.

    Any thread may call, also one that runs another event loop. After a fork the child has a new loop and nothing open, because
    the parent's stores must not be used there: keep the bridge, and call `open` each time.
    """

    def __init__(self) -> None:
        self._reset()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._abandon)
        # Closing a store needs an executor, and those have stopped by the time `atexit` runs. These callbacks run before that,
        # the last registered first; executors registered theirs when this module imported them.
        getattr(threading, "_register_atexit", atexit.register)(self.close)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._open_tasks: dict[Hashable, asyncio.Task[Any]] = {}
        self._running: set[asyncio.Task[Any]] = set()
        self._stack = AsyncExitStack()

    def _abandon(self) -> None:
        """Reset in a child process. SQLite requires that the parent's connections are neither used nor closed here."""
        _ABANDONED.append((self._loop, self._open_tasks, self._stack))
        self._reset()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine`, block the calling thread until it ends, and return its result.

        A `KeyboardInterrupt` cancels it, and is raised when it has cleaned up; a second one does not wait for that.

        Raises:
            WrongLoop: Called from the bridge's own loop, which would wait for itself; await the coroutine there.
        """
        loop, ended = self._get_loop(coroutine), threading.Event()
        running = asyncio.run_coroutine_threadsafe(self._track(coroutine, self._running, on_end=ended.set), loop)
        try:
            return running.result()
        except BaseException:
            running.cancel()
            ended.wait(LONGEST_CLEANUP_S)
            raise

    async def run_async(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` for a coroutine of any loop, without blocking that loop. Cancelling the caller cancels it."""
        if self._is_inside():
            return await coroutine
        loop = self._get_loop(coroutine)
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._track(coroutine, self._running), loop))

    @staticmethod
    async def _track(
        coroutine: Coroutine[Any, Any, T], running: set[asyncio.Task[Any]], *, on_end: Callable[[], None] = lambda: None
    ) -> T:
        """Register a coroutine, so that `close` cancels it but not the background work of open stores."""
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            return await coroutine
        finally:
            running.discard(task)
            on_end()

    async def open(self, key: Hashable, make: Callable[[], AbstractAsyncContextManager[T]]) -> T:
        """Enter what `make` returns on the bridge's loop, once for all callers with the same `key`.

        It stays open until the bridge closes. If it fails, all waiting callers get the error and the next call tries again. Call
        this through `run` or `run_async`.
        """
        task = self._open_tasks.get(key)
        if task is None:
            task = self._open_tasks[key] = asyncio.create_task(self._stack.enter_async_context(make()))
            task.add_done_callback(lambda done: self._forget_failed(key, done))
        # A caller that is cancelled must not cancel it for the others.
        entered: T = await asyncio.shield(task)
        return entered

    def _forget_failed(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        if task.cancelled() or task.exception() is not None:
            self._open_tasks.pop(key, None)

    def close(self) -> None:
        """Close what is open, newest first, and end the loop. The next call starts a new loop.

        Raises:
            WrongLoop: Called from the bridge's own loop.
        """
        if self._is_inside():
            raise WrongLoop("a bridge cannot be closed from its own loop; close it from another thread")
        with self._lock:
            loop, thread, stack, running = self._loop, self._thread, self._stack, self._running
            self._loop, self._thread, self._open_tasks, self._running, self._stack = None, None, {}, set(), AsyncExitStack()
        if loop is None or thread is None:
            return
        try:
            asyncio.run_coroutine_threadsafe(_shut_down(stack, running), loop).result(LONGEST_CLOSING_S)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(LONGEST_CLOSING_S)

    def _is_inside(self) -> bool:
        return threading.current_thread() is self._thread

    def _get_loop(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.AbstractEventLoop:
        if self._is_inside():
            coroutine.close()
            raise WrongLoop("the bridge cannot wait for itself; await the coroutine in its loop")
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._loop.set_default_executor(ThreadPoolExecutor(thread_name_prefix="threadkeep-bridge"))
                self._thread = threading.Thread(target=_run_loop, args=(self._loop,), name="threadkeep-bridge", daemon=True)
                self._thread.start()
            return self._loop


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


async def _shut_down(stack: AsyncExitStack, running: Collection[asyncio.Task[Any]]) -> None:
    """Cancel running calls, then close what is open, so that no call uses a closing store.

    An open store ends its own background work; a connection pool would not survive a cancellation.
    """
    unfinished = [*running]
    for task in unfinished:
        task.cancel()
    await asyncio.gather(*unfinished, return_exceptions=True)
    await stack.aclose()
    loop = asyncio.get_running_loop()
    await loop.shutdown_asyncgens()
    await loop.shutdown_default_executor()


shared = Bridge()
"""The bridge of all adapters, so that a process has one loop and opens each store once."""


StoreName = str | os.PathLike[str] | Config | Threadkeep | None
"""A path or address, settings, an open store, or None for the store of the configuration."""


class StoreHandle:
    """Runs an adapter's work on the event loop of its store.

    A store that the program opened is used on the program's own loop. Any other store is opened once a process, on the bridge's
    loop, for every loop and for plain functions.
    """

    def __init__(self, store: StoreName) -> None:
        """Name the store.

        Raises:
            BadInput: A configuration file or variable cannot be understood.
        """
        self._given = store if isinstance(store, Threadkeep) else None
        self._config = _load_config(store) if not isinstance(store, Threadkeep) else store.config

    async def run_async(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Call `work` with the open store, from a coroutine."""
        if self._given is not None:
            return await work(self._given)
        return await shared.run_async(self._run_with_store(work))

    def run(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        """Call `work` with the open store, from a plain function.

        Raises:
            WrongLoop: The program opened the store on an event loop, which a plain function would block.
        """
        if self._given is not None:
            raise WrongLoop(
                "a store opened with `async with` works in coroutines only; give the adapter the store's path instead"
            )
        return shared.run(self._run_with_store(work))

    async def _run_with_store(self, work: Callable[[Threadkeep], Coroutine[Any, Any, T]]) -> T:
        config = self._config
        # Adapters with equal settings share a store. Settings hold mappings, so they cannot be a key themselves.
        tk = await shared.open(("threadkeep", repr(config)), lambda: Threadkeep(config, environ=os.environ))
        return await work(tk)


async def open_thread(tk: Threadkeep, name: str, *, dialect: str) -> Thread:
    """Resume or create the thread of a conversation.

    Raises:
        InvalidTarget: There is such a thread in another dialect.
    """
    thread = await tk.thread(make_thread_id(name), dialect=dialect)
    if thread.dialect.name != dialect:
        raise InvalidTarget(
            thread.id, f"is written in {thread.dialect.name!r}, and this host speaks {dialect!r}; choose another name"
        )
    return thread


def make_thread_id(name: str) -> str:
    """Return the thread id of a host's conversation: its name if that is a valid id, else one made from its digest.

    Different names give different ids, so that two conversations never mix.
    """
    try:
        return check_thread_id(name)
    except InvalidThreadId:
        return f"host-{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _load_config(store: str | os.PathLike[str] | Config | None) -> Config:
    if isinstance(store, Config):
        return store
    flags = {"store": os.fspath(store) if store is not None else None}
    return build_config(resolve(flags=flags, environ=os.environ, project=Path.cwd()))
