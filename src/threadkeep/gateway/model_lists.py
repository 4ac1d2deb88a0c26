"""What providers say about their models: the context windows in their lists, asked for once a model, beside the first request.

Only where something is compacted by itself: whoever compacts by hand needs no limit. What the configuration says of a model comes
before what its provider says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.gateway.exchange import ListModels

PATIENCE_S: Final = 10.0
# What an answer may say about one model, by the servers that were looked at: the first that is there counts.
NAMES: Final = ("id", "slug", "name")
WINDOWS: Final = ("context_window", "context_length", "max_context_length", "max_model_len", "max_input_tokens", "n_ctx")
# Below, it is no window of a model that does any work; above, it is no number that was meant.
SMALLEST, LARGEST = 1_024, 100_000_000
# A provider may list thousands; nobody asks for more than a few of them.
ASKED_AT_MOST: Final = 256


class ModelLists:
    """Asks the provider of one route for its models' windows, and tells the backend."""

    def __init__(self, backend: Backend, *, path: str) -> None:
        """Take a backend, and the path that tells windows; `{model}` in it stands for the model's name."""
        self._backend = backend
        self._path = path
        self._asked: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def look_up(self, model: str, list_models: ListModels | None) -> None:
        """Have a model's window looked up, unless it is known or was asked for before."""
        known = not model or model in self._asked or self._backend.knows_window_of(model)
        if known or list_models is None or len(self._asked) >= ASKED_AT_MOST:
            return
        self._asked.add(model)
        task = asyncio.create_task(self._ask(model, list_models))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def settled(self) -> None:
        """Return once everything that was asked for is answered."""
        while self._asking:
            await asyncio.wait(self._asking)

    async def close(self) -> None:
        """Break off what is being asked for."""
        for task in self._asking:
            task.cancel()
        await self.settled()

    async def _ask(self, model: str, list_models: ListModels) -> None:
        # A provider without such a list, or out of reach, says nothing: the configured window goes on to count.
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                heard = await list_models(self._path.format(model=quote(model, safe="")))
            if heard.status == 200:
                self._backend.learn_windows(windows_in(heard.body))


def windows_in(body: bytes) -> dict[str, int]:
    """Return the windows a list of models tells, by the models' names; whatever else it may be tells none."""
    try:
        told = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return dict(_windows(told))


def _windows(told: Any) -> Iterator[tuple[str, int]]:
    listed = next((told[name] for name in ("data", "models") if isinstance(told.get(name), list)), [told]) if _is(told) else []
    for one in filter(_is, listed):
        about = {**(one["meta"] if _is(one.get("meta")) else {}), **one}
        name = next((about[key] for key in NAMES if isinstance(about.get(key), str)), None)
        window = next((about[key] for key in WINDOWS if isinstance(about.get(key), int)), 0)
        if name and SMALLEST <= window <= LARGEST:
            yield name, window


def _is(value: Any) -> bool:
    return isinstance(value, Mapping)
