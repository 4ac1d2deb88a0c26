"""The client's own model, asked on the client's behalf: same provider, same headers, same account."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import DEFAULT, Dialect, Request, find_dialect
from threadkeep.errors import ModelRejected, ModelUnavailable
from threadkeep.gateway.conversation.request import AnswerTooLong, AskPath, AskProvider, ReadPath
from threadkeep.items import Item
from threadkeep.llm.answers import AnswerReader, read_answer
from threadkeep.llm.base import ModelReply, RemoteCompaction
from threadkeep.llm.failures import read_refusal
from threadkeep.llm.provider import IDLE_SECONDS, NO_HEADERS, Incoming
from threadkeep.llm.remote import CompactingModel


class ClientModel:
    """Implements `threadkeep.llm.base.Model` with what a client's request came with. It holds the client's credentials, through
    `ask_provider`, and lives no longer than the compaction it was made for.

    `clean` takes out of an item what the provider would refuse in the request that is asked; None leaves the item out.
    """

    def __init__(
        self,
        ask_provider: AskProvider,
        *,
        own: Request,
        dialect: Dialect,
        name: str,
        issuer: str,
        window_tokens: int,
        clean: Callable[[Item], Item | None],
    ) -> None:
        self._ask_provider = ask_provider
        self._own = own
        self._dialect = dialect
        self._name = name
        self._issuer = issuer
        self._window_tokens = window_tokens
        self._clean = clean

    @property
    def name(self) -> str:
        return self._name

    @property
    def issuer(self) -> str:
        """The account as the gateway tells accounts apart."""
        return self._issuer

    @property
    def dialect(self) -> str:
        return self._dialect.name

    @property
    def window_tokens(self) -> int | None:
        return self._window_tokens

    async def ask(self, request: Request) -> ModelReply:
        api, items = self._dialect.api, self.clean_items(request.items)
        request = api.copy_delivery(request, self._own)
        if api.cache_markers is not None:
            items = api.cache_markers.limit_markers(items, request)
        body = self._dialect.join(request, items)
        try:
            answer = await self._ask_provider(body)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if answer.status >= 400:
            raise read_refusal(self._name, status=answer.status, body=answer.body, headers=answer.headers)
        if "json" in answer.headers.get("content-type", ""):
            return read_answer(answer.body, name=self._name, dialect=self._dialect)
        reader = AnswerReader(self._dialect)
        reader.feed(answer.body)
        return reader.reply(self._name)

    def clean_items(self, items: Sequence[Item]) -> list[Item]:
        """Return items as the provider takes them."""
        return [item for raw in items if (item := self._clean(raw)) is not None]


# What the gateway's upstreams take the place of.
MOUNT: Final = "/v1"


class ClientTransport:
    """Implements `threadkeep.llm.provider.Transport` with a client's own headers; it never sees a credential."""

    def __init__(self, ask_path: AskPath, *, name: str) -> None:
        self._ask_path = ask_path
        self._name = name

    @property
    def secrets(self) -> tuple[str, ...]:
        return ()

    @asynccontextmanager
    async def exchange(
        self, path: str, body: bytes, *, headers: Mapping[str, str] = NO_HEADERS, idle_s: float = IDLE_SECONDS
    ) -> AsyncIterator[Incoming]:
        try:
            answer = await self._ask_path(path.removeprefix(MOUNT), body, headers)
        except AnswerTooLong as error:
            raise ModelRejected(self._name, status=200, reason=str(error)) from error
        except ConnectionError as error:
            raise ModelUnavailable(self._name, reason=str(error)) from error
        if answer.status >= 400:
            raise read_refusal(self._name, status=answer.status, body=answer.body, headers=answer.headers)
        yield Incoming(content_type=answer.headers.get("content-type", ""), chunks=_once(answer.body))

    async def aclose(self) -> None:
        """There is no connection of its own."""


class ClientCompactor:
    """The client's own model, whose provider compacts too; see `Model` and `RemoteCompactor` in `threadkeep.llm.base`.

    What is made for its account is shown to no other.
    """

    def __init__(self, model: ClientModel, ask_path: AskPath) -> None:
        transport = ClientTransport(ask_path, name=model.name)
        self._model = model
        dialect = find_dialect(model.dialect)
        self._remote = CompactingModel(model.name, model=model.name, dialect=dialect, issuer=model.issuer, transport=transport)

    @property
    def name(self) -> str:
        return self._model.name

    @property
    def dialect(self) -> str:
        return self._model.dialect

    @property
    def window_tokens(self) -> int | None:
        return self._model.window_tokens

    @property
    def issuer(self) -> str:
        return self._remote.issuer

    async def ask(self, request: Request) -> ModelReply:
        return await self._model.ask(request)

    async def compact(self, request: Request) -> RemoteCompaction:
        return await self._remote.compact(replace(request, items=tuple(self._model.clean_items(request.items))))


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


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
