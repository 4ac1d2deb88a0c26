"""The gateway put together: a store, an upstream, a listening socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from holdfast import __version__
from holdfast.dialects import dialect_named
from holdfast.gateway.app import Gateway
from holdfast.gateway.conversations import RecordedConversations
from holdfast.gateway.server import running, serve
from holdfast.gateway.upstream import upstream_session
from holdfast.runtime import Holdfast


async def run_gateway(
    hf: Holdfast, *, host: str, port: int, upstream: str, auto_compact: bool, on_ready: Callable[[str], None]
) -> None:
    """Serve until a signal; see `holdfast.gateway.server.serve`."""
    async with _gateway(hf, upstream=upstream, auto_compact=auto_compact) as gateway:
        await serve(gateway, host=host, port=port, on_ready=on_ready)


@asynccontextmanager
async def running_gateway(hf: Holdfast, *, upstream: str, auto_compact: bool = False, port: int = 0) -> AsyncIterator[str]:
    """Serve on loopback inside the block, which is given the URL."""
    async with _gateway(hf, upstream=upstream, auto_compact=auto_compact) as gateway, running(gateway, port=port) as url:
        yield url


@asynccontextmanager
async def _gateway(hf: Holdfast, *, upstream: str, auto_compact: bool) -> AsyncIterator[Gateway]:
    dialect = dialect_named("responses")
    conversations = RecordedConversations(hf, dialect, auto_compact=auto_compact)
    async with upstream_session() as session:
        yield Gateway(upstream=upstream, conversations=conversations, wire=dialect.wire, session=session, version=__version__)
