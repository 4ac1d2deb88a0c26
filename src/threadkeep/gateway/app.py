"""The gateway as an ASGI application."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol
from uuid import uuid4

from aiohttp import ClientSession
from msgspec.json import encode

from threadkeep.client import Threadkeep
from threadkeep.dialects import DEFAULT, Dialect
from threadkeep.dialects.api import Frames
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.control import api as control
from threadkeep.gateway.control.api import FindHostConversations
from threadkeep.gateway.control.identity import PATH as IDENTITY
from threadkeep.gateway.control.identity import Identity, answer_identity
from threadkeep.gateway.conversation.proxy_interface import Conversations, Refused
from threadkeep.gateway.http.access_log import AccessLog, Entry
from threadkeep.gateway.http.compression import is_known, parse_codings
from threadkeep.gateway.http.exchange import Call, Caller, Receive, Scope, Send
from threadkeep.gateway.http.guards import KEY_IN_PATH, NO_KEY, NO_NONCE, NO_TOKEN, NO_WEBSOCKET, UNKNOWN_PATH, find_refusal
from threadkeep.gateway.http.headers import first, make_upstream_headers
from threadkeep.gateway.http.keys import Admitted, Keys, admit, has_key, strip_key
from threadkeep.gateway.http.metrics import CONTENT_TYPE, Metrics, Runs, split_run
from threadkeep.gateway.http.proxy import AnswerStamp, ProxiedRequest, run_while_connected
from threadkeep.gateway.http.relay import relay
from threadkeep.gateway.http.routes import Route, find_route
from threadkeep.gateway.http.translated_upstream import AUTO, TranslatedUpstream
from threadkeep.gateway.http.upstream import UpstreamFailure
from threadkeep.gateway.http.upstream_socket import Lane, Lanes
from threadkeep.gateway.http.websocket import ClientSocket, answer_opening, drop_framing

BODY_LIMIT = 64 * 1024 * 1024
READY_SECONDS = 5.0

# Which sockets are opened: none, those that the provider opens too, or all.
Sockets = Literal["off", "auto", "on"]
# Given a tenant (None: the one without keys) and a dialect's name, returns who decides about its requests.
ConversationsOf = Callable[[str | None, str], Awaitable[Conversations]]
# Given a tenant, returns its open store.
StoreOf = Callable[[str | None], Awaitable[Threadkeep]]


class Gateway:
    """Relays requests of clients to their providers, and lets `conversations` decide about conversation requests.

    `POST` to `/v1/responses`, `/v1/chat/completions` and `/v1/messages`, and to what compacts or counts the same histories, are
    conversation requests, each in its dialect. Everything else under `/v1` passes through untouched, whatever its method,
    streaming both ways. An upstream takes the place of `/v1`; see `Upstream`. `session` is one that `open_upstream_session` made:
    another could keep cookies or wait for a free connection.

    Without `keys`, only requests that name this machine, or one of `allowed_hosts`, as their host are served; with them, only
    those that hold one, whatever they call the host. None that a page from elsewhere makes is. Credentials pass through and are
    never logged; keys do not pass. The control API, and below `/ui` the `pages`, are there where `stores` and `control_token` are
    given, and so is what takes histories from hosts, with `histories`. A path below
    `/run/ID` is counted among `runs`. `failures` counts what went wrong beside the relay.

    Raises:
        BadInput: An upstream is not an http:// or https:// URL.
    """

    def __init__(
        self,
        *,
        upstreams: Mapping[str, str],
        conversations: ConversationsOf,
        session: ClientSession,
        version: str,
        allowed_hosts: Collection[str] = (),
        keys: Keys | None = None,
        stores: StoreOf | None = None,
        control_token: str | None = None,
        histories: FindHostConversations | None = None,
        pages: MakePages | None = None,
        ready: Callable[[], Awaitable[None]] | None = None,
        access_log: AccessLog | None = None,
        metrics: Metrics | None = None,
        runs: Runs | None = None,
        identity: Identity | None = None,
        sockets: Sockets = "auto",
        upstream_dialect: str = AUTO,
        body_limit: int = BODY_LIMIT,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._runs = runs or Runs()
        # Without a token there is nothing to prove an identity with.
        self._identity = (
            None
            if identity is None or control_token is None
            else partial(answer_identity, identity=identity, token=control_token)
        )
        self._stopping = asyncio.Event()
        self._sockets = sockets
        self._upstreams = {
            name: TranslatedUpstream(base, session=session, provider=name, spoken=upstream_dialect, now=now, new_id=new_id)
            for name, base in upstreams.items()
        }
        self._conversations = conversations
        self._health = encode({"ok": True, "version": version})
        self._hosts = None if keys is not None else frozenset(host.lower() for host in allowed_hosts)
        self._keys = keys
        self._ready = ready
        self._access_log = access_log or AccessLog()
        self._body_limit = body_limit
        self._stamp = AnswerStamp(now=now, new_id=new_id)
        self._control = (
            control.Control(stores, token=control_token, stopping=self._stopping, histories=histories, runs=self._runs)
            if stores is not None and control_token is not None
            else None
        )
        self._pages = (
            pages(PageContext(stores=stores, token=control_token, keys=keys, stopping=self._stopping))
            if pages is not None and stores is not None and control_token is not None
            else None
        )

    @property
    def failures(self) -> Counter[str]:
        return self.metrics.failures

    def stop(self) -> None:
        """End what would not end by itself, so that a stop waits for answers alone."""
        self._stopping.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._open_socket(Call.of({**scope, "method": "GET"}), receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError(f"the gateway speaks HTTP, not {scope['type']}")
        await self._handle(Call.of(scope), receive, send)

    async def _handle(self, call: Call, receive: Receive, send: Send, lane: Lane | None = None) -> None:
        """Answer a request; one that came over a socket has a lane."""
        call, run_id = split_run(call)
        caller = Caller(receive, send, has_body=call.has_body)
        entry = Entry(method=call.method, run=run_id)
        began = time.perf_counter()
        try:
            with self.metrics.track_stream():
                await self._serve(call, caller, entry, lane)
        finally:
            self.metrics.count_request(route=entry.route, status=caller.status)
            self._log(entry, caller, seconds=time.perf_counter() - began)

    def _log(self, entry: Entry, caller: Caller, *, seconds: float) -> None:
        # Probes come every few seconds and say nothing.
        if entry.route != "own":
            at = self._stamp.now() - seconds
            counted = {"received": caller.received, "sent": caller.sent}
            self._access_log.write(entry, status=caller.status, seconds=seconds, at=at, gone=caller.gone, **counted)

    async def _open_socket(self, call: Call, receive: Receive, send: Send) -> None:
        """Serve a socket, or refuse to open it as a request would be refused."""
        found = self._find_socket(split_run(call)[0])
        if found is None:
            await self._handle(call, receive, answer_opening(send))
            return
        admitted, route, frames = found
        lanes = Lanes(
            self._upstreams[route.provider],
            admitted.call.target(route.path),
            headers=make_upstream_headers(drop_framing(admitted.call.headers), readable_answer=False),
            dialect=route.dialect,
            frames=frames,
        )
        headers = await lanes.open()
        if headers is None and self._sockets == "auto":
            await self._handle(call, receive, answer_opening(send))
            return
        client = ClientSocket(
            call,
            receive,
            send,
            dialect=route.dialect,
            frames=frames,
            post=self._handle,
            lanes=lanes,
            stamp=self._stamp,
            stopping=self._stopping,
        )
        await client.run(drop_framing(headers or ()))

    def _find_socket(self, call: Call) -> tuple[Admitted, Route, Frames] | None:
        """Return who opens a socket, and for which API; None where it is to be refused."""
        bare, admitted = strip_key(call), admit(call, self._keys)
        if self._sockets == "off" or find_refusal(bare, hosts=self._hosts) is not None or admitted is None:
            return None
        route = None if has_key(bare.path, self._keys) else find_route("POST", bare.path.decode("ascii"), bare.headers)
        if route is None or not route.is_conversation or route.path != route.dialect.api.endpoints.turn:
            return None
        frames = route.dialect.api.frames
        return None if frames is None else (admitted, route, frames)

    async def _serve(self, call: Call, caller: Caller, entry: Entry, lane: Lane | None) -> None:
        bare = strip_key(call)
        judged = self._pages.forgives(call) if self._pages is not None and is_page(bare.path) else call
        refusal = find_refusal(judged, hosts=self._hosts)
        if refusal is not None:
            await _refuse(caller, refusal, dialect=_dialect_of(bare))
            return
        admitted = admit(call, self._keys)
        if await self._own(bare, caller, entry, admitted=admitted):
            return
        if admitted is None:
            await _refuse(caller, NO_KEY, dialect=_dialect_of(bare))
            return
        entry.tenant = admitted.tenant
        if has_key(bare.path, self._keys):
            await _refuse(caller, KEY_IN_PATH, dialect=_dialect_of(bare))
            return
        route = find_route(call.method, bare.path.decode("ascii"), admitted.call.headers)
        if route is None:
            await _refuse(caller, UNKNOWN_PATH)
        elif first(call.headers, b"upgrade").lower() == "websocket":
            # Codex takes this status for "no WebSocket here" and goes on over HTTP at once.
            await _refuse(caller, NO_WEBSOCKET, dialect=route.dialect)
        elif route.is_conversation and is_known(parse_codings(first(call.headers, b"content-encoding"))):
            entry.route = route.dialect.name
            await self._converse(admitted.call, caller, route, entry, lane)
        else:
            if route.is_conversation:
                self.metrics.count_failure("open.unknown_encoding")
            entry.route = f"{route.provider}.other"
            await self._pass_through(admitted.call, caller, route)

    async def _own(self, bare: Call, caller: Caller, entry: Entry, *, admitted: Admitted | None) -> bool:
        """Answer what is the gateway's own; false where the request is something else."""
        if bare.path in (b"/healthz", b"/readyz"):
            entry.route = "own"
            await (caller.answer(200, self._health) if bare.path == b"/healthz" else self._tell_ready(caller))
        elif bare.path == IDENTITY and self._identity is not None:
            entry.route = "own"
            told = self._identity(bare.query)
            await (control.refuse(caller, NO_NONCE) if told is None else caller.answer(200, told))
        elif bare.path == b"/metrics":
            entry.route = "own"
            if admitted is not None or (self._control is not None and self._control.has_token(bare)):
                await caller.answer(200, self.metrics.render(), content_type=CONTENT_TYPE)
            else:
                await control.refuse(caller, NO_KEY)
        elif self._control is not None and bare.path.startswith(control.PREFIX):
            entry.route = "control"
            await self._steer(self._control, bare, caller, entry, admitted=admitted)
        elif self._pages is not None and is_page(bare.path):
            entry.route = "ui"
            has_key = self._keys is not None and admitted is not None
            entry.tenant = admitted.tenant if admitted is not None else None
            await self._pages.serve(bare, caller, tenant=entry.tenant, known=has_key)
        else:
            return False
        return True

    async def _steer(
        self, steering: control.Control, bare: Call, caller: Caller, entry: Entry, *, admitted: Admitted | None
    ) -> None:
        """Pass a request to the control API if it may be made: with the token for the gateway's own tenant, or with a key."""
        if steering.has_token(bare):
            await steering.answer(bare, caller, tenant=None)
        elif self._keys is not None and admitted is not None:
            entry.tenant = admitted.tenant
            await steering.answer(admitted.call, caller, tenant=admitted.tenant)
        else:
            await control.refuse(caller, NO_TOKEN)

    async def _tell_ready(self, caller: Caller) -> None:
        """Say whether the store can be written: without it nothing is recorded, and another replica should be asked."""
        try:
            async with asyncio.timeout(READY_SECONDS):
                if self._ready is not None:
                    await self._ready()
        except (ThreadkeepError, TimeoutError) as error:
            code = error.code if isinstance(error, ThreadkeepError) else "timeout"
            await caller.answer(503, encode({"ok": False, "reason": code}))
        else:
            await caller.answer(200, encode({"ok": True}))

    async def _converse(self, call: Call, caller: Caller, route: Route, entry: Entry, lane: Lane | None) -> None:
        exchange = ProxiedRequest(
            call=call,
            caller=caller,
            route=route,
            wire=route.dialect.wire,
            upstream=self._upstreams[route.provider],
            metrics=self.metrics,
            run=None if entry.run is None else self._runs.get_run(entry.run),
            entry=entry if self._access_log.content else None,
            lane=lane,
        )
        conversations = partial(self._conversations, entry.tenant, route.dialect.name)
        await exchange.run(conversations, body_limit=self._body_limit, stamp=self._stamp)

    async def _pass_through(self, call: Call, caller: Caller, route: Route) -> None:
        headers = make_upstream_headers(call.headers, readable_answer=False)
        if call.length:
            # Framing is passed on here: without a length the body would be sent in chunks, which not every server takes.
            headers["content-length"] = str(call.length)
        body = caller.chunks() if call.has_body else None
        upstream = self._upstreams[route.provider]

        async def exchange() -> None:
            async with upstream.exchange(call.method, call.target(route.path), headers=headers, body=body) as answer:
                if isinstance(answer, UpstreamFailure):
                    self.metrics.count_failure(f"relay.{answer.code}")
                if not caller.gone:
                    await relay(caller, answer, wire=route.dialect.wire)

        await run_while_connected(caller, exchange(), metrics=self.metrics)


def _dialect_of(bare: Call) -> Dialect:
    """Return the dialect in which a request that is not served will understand why; its path may be anything."""
    route = find_route(bare.method, bare.path.decode("latin-1"), bare.headers)
    return route.dialect if route is not None else DEFAULT


async def _refuse(caller: Caller, refused: Refused, *, dialect: Dialect = DEFAULT) -> None:
    await caller.answer(refused.status, dialect.wire.render_error(refused.status, refused.code, refused.message))


ROOT = b"/ui"


class Pages(Protocol):
    """Answers what lies below `/ui`."""

    def forgives(self, call: Call) -> Call:
        """Return a request as the door is to judge it: without an Origin that is the very host it goes to."""
        ...

    async def serve(self, call: Call, caller: Caller, *, tenant: str | None, known: bool) -> None:
        """Answer a request; `known` says that its headers opened `tenant`'s threads already."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContext:
    """What a gateway gives its pages: the stores, what decides about a credential, and what ends their streams.

    `token` opens the tenant without keys, and signs what pages hand out.
    """

    stores: Callable[[str | None], Awaitable[Threadkeep]]
    token: str = field(repr=False)
    keys: Keys | None
    stopping: asyncio.Event

    def opens(self, credential: str) -> tuple[str | None] | None:
        """Return whose threads a credential opens, alone in a tuple since None names a tenant too; None where it opens none."""
        if hmac.compare_digest(credential.encode(), self.token.encode()):
            return (None,)
        tenant = self.keys.tenant_of(credential) if self.keys is not None else None
        return None if tenant is None else (tenant,)


MakePages = Callable[[PageContext], Pages]


def is_page(path: bytes) -> bool:
    """Whether a path, without a key in it, is one of the pages'."""
    return path == ROOT or path.startswith(ROOT + b"/")
