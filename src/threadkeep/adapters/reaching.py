"""How an adapter gets at threads: a store that the program opened itself, or one that is opened for it and closed at its end."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from threadkeep.adapters.bridge import shared
from threadkeep.client import Config, Thread, Threadkeep, config_of, resolve
from threadkeep.errors import BadInput, InvalidThreadId
from threadkeep.threads import checked_thread_id

T = TypeVar("T")

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
        return checked_thread_id(name)
    except InvalidThreadId:
        return f"host-{blake2b(name.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _config_of(store: str | os.PathLike[str] | Config | None) -> Config:
    if isinstance(store, Config):
        return store
    flags = {"store": os.fspath(store) if store is not None else None}
    return config_of(resolve(flags=flags, environ=os.environ, project=Path.cwd()))
