"""The gateway put together: a store, two upstreams, a listening socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from threadkeep import __version__
from threadkeep.client import Config, Threadkeep
from threadkeep.dialects import Dialect
from threadkeep.gateway.app import Gateway, MakePages, Sockets
from threadkeep.gateway.control.identity import Identity
from threadkeep.gateway.control.tenants import Tenants
from threadkeep.gateway.conversation.conversations import RecordedConversations
from threadkeep.gateway.conversation.rules import Rules, make_rules
from threadkeep.gateway.http.access_log import AccessLog
from threadkeep.gateway.http.keys import Keys
from threadkeep.gateway.http.metrics import Metrics, Runs
from threadkeep.gateway.http.routes import PROVIDERS
from threadkeep.gateway.http.server import run_server, serve
from threadkeep.gateway.http.upstream import open_upstream_session


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How a gateway serves.

    Attributes:
        upstream: Where the API of every provider is that `upstreams` does not name.
        upstreams: Where the APIs of other providers are, by the provider's name.
        auto_compact: Turns automatic compaction on where the configuration leaves it off.
        keys: Whose requests are served; None serves everyone on this machine as one tenant.
        control_token: What opens the control API; without it there is none.
        log_content: Whether the access log shows what clients send.
        pages: Makes what is served below `/ui`; needs the control token.
        identity: What it says about itself to a program that holds the same token.
    """

    upstream: str
    upstreams: Mapping[str, str] = field(default_factory=dict)
    auto_compact: bool = False
    keys: Keys | None = None
    control_token: str | None = field(default=None, repr=False)
    log_content: bool = False
    pages: MakePages | None = None
    identity: Identity | None = None


async def run_gateway(tk: Threadkeep, serving: Serving, *, host: str, port: int, on_ready: Callable[[str], None]) -> None:
    """Serve until a signal; see `threadkeep.gateway.http.server.serve`."""
    async with open_gateway(tk, serving) as gateway:
        has_keys = serving.keys is not None
        await serve(gateway, host=host, port=port, on_ready=on_ready, on_stop=gateway.stop, has_keys=has_keys)


@asynccontextmanager
async def running_gateway(
    tk: Threadkeep,
    *,
    upstream: str,
    upstreams: Mapping[str, str] | None = None,
    auto_compact: bool = False,
    keys: Keys | None = None,
    control_token: str | None = None,
    port: int = 0,
) -> AsyncIterator[str]:
    """Serve on loopback inside the block, which is given the URL. `upstreams` names providers that are not at `upstream`."""
    serving = Serving(
        upstream=upstream,
        upstreams=upstreams or {},
        auto_compact=auto_compact,
        keys=keys,
        control_token=control_token,
    )
    async with open_gateway(tk, serving) as gateway, run_server(gateway, port=port, on_stop=gateway.stop) as url:
        yield url


def make_tenant_rules(config: Config, *, dialect: str, auto_compact: bool) -> Rules:
    """Return how one tenant's conversations in one dialect are treated.

    In `auto_compact_for` and `gateway_recall_tool_for`, `tenant:NAME` speaks for who has a key of that tenant and `route:DIALECT`
    for one API. The tenant counts before the route, and a client or model that is named there before both.
    """
    rules = make_rules(config, auto_compact=auto_compact)
    named, recall = rules.auto_compact_for, rules.recall_for
    mode = named.get(f"tenant:{config.tenant}", named.get(f"route:{dialect}"))
    recalls = recall.get(f"tenant:{config.tenant}", recall.get(f"route:{dialect}"))
    rules = rules if mode is None else replace(rules, auto_compact=mode)
    return rules if recalls is None else replace(rules, recall=recalls == "yes")


@asynccontextmanager
async def open_gateway(tk: Threadkeep, serving: Serving) -> AsyncIterator[Gateway]:
    """Make the application inside the block, on an open store, without a server around it."""
    metrics, runs = Metrics(), Runs()
    upstreams = {provider: serving.upstreams.get(provider, serving.upstream) for provider in PROVIDERS}

    def conversing(store: Threadkeep, dialect: Dialect) -> RecordedConversations:
        upstream = upstreams[dialect.api.endpoints.provider]
        rules = make_tenant_rules(store.config, dialect=dialect.name, auto_compact=serving.auto_compact)
        return RecordedConversations(store, dialect, rules=rules, upstream=upstream)

    # What a conversation still does for a client it does over the session, so that this is closed last.
    async with open_upstream_session() as session, Tenants(tk, conversing=conversing, metrics=metrics, runs=runs) as tenants:
        yield Gateway(
            upstreams=upstreams,
            conversations=tenants.conversations,
            session=session,
            version=__version__,
            keys=serving.keys,
            stores=tenants.store,
            control_token=serving.control_token,
            histories=tenants.conversations,
            pages=serving.pages,
            ready=tenants.check_writable,
            access_log=AccessLog(content=serving.log_content),
            metrics=metrics,
            runs=runs,
            identity=serving.identity,
            upstream_dialect=tk.config.upstream_dialect,
            sockets=cast(Sockets, tk.config.gateway_websocket),
        )
