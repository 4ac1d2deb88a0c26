"""A gateway on loopback between a client and a provider that does what a test tells it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol

import pytest
from aiohttp import ClientSession, web
from tests.prefixes import stable_prefix

from threadkeep.dialects import Reply
from threadkeep.gateway.app import Gateway
from threadkeep.gateway.conversation.proxy_interface import Answered, Conversations, Forward, Incoming, Refused
from threadkeep.gateway.http.routes import PROVIDERS
from threadkeep.gateway.http.server import run_server
from threadkeep.gateway.http.upstream import open_upstream_session

__all__ = ["stable_prefix"]

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Headers = list[tuple[bytes, bytes]]

SECONDS = 120
BODY_LIMIT = 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A request as the provider received it, header names in lower case."""

    method: str
    target: str
    headers: Headers
    body: bytes

    def named(self, *names: bytes) -> Headers:
        """Return the headers of these names, in the order they came."""
        return [(name, value) for name, value in self.headers if name in names]


@dataclass(slots=True)
class Provider:
    """A provider whose every answer a test writes; `seen` is what it was asked, `left` is set when a client gives up."""

    url: str = ""
    seen: list[Seen] = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    handler: Handler | None = None
    read_first: bool = True

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if not self.read_first:
            assert self.handler is not None
            return await self.handler(request)
        body = await request.read()
        headers = [(name.lower(), value) for name, value in request.raw_headers]
        self.seen.append(Seen(method=request.method, target=request.raw_path, headers=headers, body=body))
        if self.handler is None:
            return web.json_response({"id": "resp_1", "status": "completed", "output": []})
        try:
            return await self.handler(request)
        except asyncio.CancelledError:
            self.left.set()
            raise


@dataclass(slots=True)
class Script:
    """Conversations that do what a test tells them; by default every request is forwarded as it came."""

    asked: list[tuple[str | None, str]] = field(default_factory=list)
    opened: list[Incoming] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    replied: asyncio.Event = field(default_factory=asyncio.Event)
    decide: Callable[[Incoming], Forward | Answered | Refused] | None = None

    async def of(self, tenant: str | None, dialect: str) -> Conversations:
        """Decide for every tenant and dialect."""
        self.asked.append((tenant, dialect))
        return self

    async def open(self, incoming: Incoming) -> Forward | Answered | Refused:
        self.opened.append(incoming)
        if self.decide is not None:
            return self.decide(incoming)
        return Forward(body=incoming.body, finished=self.finished)

    async def finished(self, reply: Reply) -> None:
        self.replies.append(reply)
        self.replied.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A running gateway and everything around it."""

    url: str
    app: Gateway
    provider: Provider
    script: Script
    client: ClientSession


class ProxyWith(Protocol):
    """Makes a gateway whose settings are those of `Gateway`."""

    def __call__(self, **settings: Any) -> AbstractAsyncContextManager[Proxy]: ...


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def provider(anyio_backend: str) -> AsyncIterator[Provider]:
    """A provider on loopback whose handlers are cancelled when their client leaves."""
    made = Provider()
    site = web.Application(client_max_size=1 << 30)
    site.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(site, handler_cancellation=True, auto_decompress=False, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield made
    finally:
        await runner.cleanup()


def numbered() -> Callable[[], str]:
    """Return a maker of ids: 1, 2, 3."""
    numbers: Iterator[int] = count(1)
    return lambda: str(next(numbers))


@asynccontextmanager
async def proxy_before(provider: Provider, settings: Mapping[str, Any]) -> AsyncIterator[Proxy]:
    """Run a gateway in front of `provider`, and a client that neither adds nor undoes anything."""
    async with AsyncExitStack() as stack, asyncio.timeout(SECONDS):
        session = await stack.enter_async_context(open_upstream_session())
        client = await stack.enter_async_context(ClientSession(auto_decompress=False))
        script = Script()
        upstreams = dict.fromkeys(PROVIDERS, provider.url)
        defaults = {
            "upstreams": upstreams,
            "conversations": script.of,
            "allowed_hosts": ("gateway.test",),
            "body_limit": BODY_LIMIT,
        }
        app = Gateway(
            session=session,
            version="1.2.3",
            now=lambda: 1_700_000_000.9,
            new_id=numbered(),
            **{**defaults, **settings},
        )
        url = await stack.enter_async_context(run_server(app, on_stop=app.stop))
        yield Proxy(url=url, app=app, provider=provider, script=script, client=client)


@pytest.fixture
async def proxy(provider: Provider) -> AsyncIterator[Proxy]:
    """A gateway in front of `provider`."""
    async with proxy_before(provider, {}) as made:
        yield made


@pytest.fixture
def proxy_with(provider: Provider) -> ProxyWith:
    """What makes a gateway in front of `provider` with settings of its own."""
    return lambda **settings: proxy_before(provider, settings)


@pytest.fixture
def unused_port() -> Iterator[int]:
    """A port that is held and on which nobody listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
