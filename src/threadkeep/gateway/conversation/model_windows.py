"""Context windows of models, as their provider tells them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import quote

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import DEFAULT
from threadkeep.gateway.conversation.proxy_interface import ReadPath

PATIENCE_S: Final = 10.0
# Such a server names itself in its answers, and tells about itself here.
LLAMA_CPP: Final = "llama.cpp"
PROPERTIES: Final = "/props"
MODELS: Final = DEFAULT.api.endpoints.models
# What a server answers that does not know a path.
ABSENT_STATUSES: Final = frozenset({404, 405, 501})
# What an answer may say about one model, by the servers that were looked at: the first that is there counts.
NAMES: Final = ("id", "slug", "name")
WINDOWS: Final = (
    "context_window",
    "context_length",
    "max_context_length",
    "max_model_len",
    "max_input_tokens",
    "inputTokenLimit",
    "n_ctx",
)
# Below, it is no window of a model that does any work; above, it is no number that was meant.
SMALLEST, LARGEST = 1_024, 100_000_000
# A provider may list thousands; nobody asks for more than a few of them.
ASKED_AT_MOST: Final = 256


class ModelWindows:
    """Asks the provider of one route for its models' windows, and tells the backend."""

    def __init__(self, backend: Backend, *, path: str) -> None:
        """Take a backend, and the path that tells windows; `{model}` in it stands for the model's name."""
        self._backend = backend
        self._path = path
        self._asked: set[str] = set()
        self._asking: set[asyncio.Task[None]] = set()

    def request_window(self, model: str, read_path: ReadPath | None) -> None:
        """Have a model's window looked up, unless it is known or was asked for before."""
        known = not model or model in self._asked or self._backend.has_limits_for(model)
        if known or read_path is None or len(self._asked) >= ASKED_AT_MOST:
            return
        self._asked.add(model)
        task = asyncio.create_task(self._ask(model, read_path))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    async def wait_idle(self) -> None:
        """Return once everything that was asked for is answered."""
        while self._asking:
            await asyncio.wait(self._asking)

    async def close(self) -> None:
        """Break off what is being asked for."""
        for task in self._asking:
            task.cancel()
        await self.wait_idle()

    async def _ask(self, model: str, read_path: ReadPath) -> None:
        # A provider without such a list, or out of reach, says nothing: the configured window goes on to count.
        with suppress(ConnectionError, TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                answer = await read_path(self._path.format(model=quote(model, safe="")))
                if answer.status in ABSENT_STATUSES and self._path != MODELS:
                    # Servers that imitate several APIs have the list of one.
                    answer = await read_path(MODELS)
                windows = read_windows(answer.body) if answer.status == 200 else {}
                # Its list tells what the model was trained for, and not what this server was started with.
                if answer.headers.get("server", "").startswith(LLAMA_CPP):
                    properties = await read_path(f"{PROPERTIES}?model={quote(model, safe='')}", is_at_root=True)
                    windows = {model: window} if (window := read_properties(properties.body)) is not None else windows
            self._backend.add_windows(windows)


class _Settings(msgspec.Struct):
    n_ctx: int = 0


class _Properties(msgspec.Struct):
    default_generation_settings: _Settings


def read_properties(body: bytes) -> int | None:
    """Return the window that a llama.cpp server gives each conversation, from what it tells about itself."""
    try:
        window = msgspec.json.decode(body, type=_Properties).default_generation_settings.n_ctx
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return window if SMALLEST <= window <= LARGEST else None


def read_windows(body: bytes) -> dict[str, int]:
    """Return the windows a list of models tells, by the models' names; whatever else it may be tells none."""
    try:
        context = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return dict(_windows(context))


def _windows(context: Any) -> Iterator[tuple[str, int]]:
    listed = (
        next((context[name] for name in ("data", "models") if isinstance(context.get(name), list)), [context])
        if _is(context)
        else []
    )
    for one in filter(_is, listed):
        about = {**(one["meta"] if _is(one.get("meta")) else {}), **one}
        name = next((about[key] for key in NAMES if isinstance(about.get(key), str)), None)
        window = next((about[key] for key in WINDOWS if isinstance(about.get(key), int)), 0)
        if name and SMALLEST <= window <= LARGEST:
            yield name, window


def _is(value: Any) -> bool:
    return isinstance(value, Mapping)
