"""The gateway as an ASGI application."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass
from typing import Any, assert_never
from uuid import uuid4

from aiohttp import ClientError, ClientSession
from msgspec import MsgspecError, Struct
from msgspec.json import Decoder, encode

from holdfast.dialects import Answer, Reply, Wire
from holdfast.errors import HoldfastError
from holdfast.gateway.caller import Caller, Receive, Scope, Send
from holdfast.gateway.exchange import Answered, Conversations, Forward, Incoming, Refused
from holdfast.gateway.headers import RawHeaders, as_mapping, every, first, for_upstream
from holdfast.gateway.hosts import host_allowed, origin_allowed
from holdfast.gateway.relay import Finish, relay, relay_reply
from holdfast.gateway.upstream import Upstream

log = logging.getLogger("holdfast.gateway")

MOUNT = b"/v1"
BODY_LIMIT = 64 * 1024 * 1024


class _Asked(Struct):
    """What a request says about the form of its answer."""

    stream: bool = False
    model: str = ""


_ASKED = Decoder(_Asked)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One request, before its body is read."""

    method: str
    path: bytes
    query: bytes
    headers: RawHeaders

    @property
    def under_mount(self) -> bool:
        return self.path == MOUNT or self.path.startswith(MOUNT + b"/")

    @property
    def after_mount(self) -> bytes:
        return self.path.removeprefix(MOUNT) if self.under_mount else self.path

    @property
    def is_conversation(self) -> bool:
        """Whether it can be read as a conversation request; a compressed one cannot."""
        encoding = first(self.headers, b"content-encoding").lower()
        return self.method == "POST" and self.path.endswith(b"/responses") and encoding in ("", "identity")

    @property
    def length(self) -> int:
        """The announced length of the body; 0 where none is announced."""
        announced = first(self.headers, b"content-length")
        return int(announced) if announced.isascii() and announced.isdigit() else 0

    def target(self) -> str:
        """Return path and query for the provider, as they were sent.

        Raises:
            UnicodeDecodeError: They hold bytes that no URL may hold.
        """
        query = b"?" + self.query if self.query else b""
        return (self.after_mount + query).decode("ascii")


class Gateway:
    """Relays what a client sends to `upstream`, and lets `conversations` decide about conversation requests.

    A `POST` to a path that ends in `/responses` is a conversation request. Everything else under `/v1` passes through
    untouched, whatever its method, streaming both ways. `upstream` takes the place of `/v1`; see `Upstream`. `session` is one
    that `upstream_session` made: another could keep cookies or wait for a free connection.

    Only requests that name this machine, or one of `allowed_hosts`, as their host are served, and none that a page from
    elsewhere makes. Credentials pass through and are never logged. `failures` counts what went wrong beside the relay.

    Raises:
        ValueError: `upstream` is not an http:// or https:// URL.
    """

    def __init__(
        self,
        *,
        upstream: str,
        conversations: Conversations,
        wire: Wire,
        session: ClientSession,
        version: str,
        allowed_hosts: Collection[str] = (),
        body_limit: int = BODY_LIMIT,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        self.failures: Counter[str] = Counter()
        self._upstream = Upstream(upstream, session=session)
        self._conversations = conversations
        self._wire = wire
        self._health = encode({"ok": True, "version": version})
        self._allowed_hosts = frozenset(host.lower() for host in allowed_hosts)
        self._body_limit = body_limit
        self._now = now
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"the gateway speaks HTTP, not {scope['type']}")
        call = _Call(method=scope["method"], path=scope["raw_path"], query=scope["query_string"], headers=scope["headers"])
        has_body = call.length > 0 or bool(first(call.headers, b"transfer-encoding"))
        caller = Caller(receive, send, has_body=has_body)
        refusal = self._refusal(call)
        if refusal is not None:
            await self._refuse(caller, refusal)
        elif call.path == b"/healthz":
            await caller.answer(200, self._health)
        elif call.is_conversation:
            await self._converse(call, caller)
        elif call.under_mount:
            await self._pass_through(call, caller, has_body=has_body)
        else:
            message = "nothing is served at this path; the API is under /v1, and /healthz tells whether the gateway is up"
            await self._refuse(caller, Refused(status=404, code="unknown_path", message=message))

    def _refusal(self, call: _Call) -> Refused | None:
        """Return why this request is not served at all, if so."""
        hosts = every(call.headers, b"host")
        if len(hosts) != 1 or not host_allowed(hosts[0], allowed=self._allowed_hosts):
            message = "the Host header does not name this machine; call the gateway as 127.0.0.1 or localhost"
            return Refused(status=403, code="host_not_allowed", message=message)
        if not all(map(origin_allowed, every(call.headers, b"origin"))):
            message = "the request comes from a web page that this machine does not serve"
            return Refused(status=403, code="origin_not_allowed", message=message)
        try:
            call.target()
            for_upstream(call.headers, readable_answer=False)
        except UnicodeDecodeError:
            message = "the URL or a header holds bytes that cannot be passed on unchanged"
            return Refused(status=400, code="invalid_request", message=message)
        return None

    async def _pass_through(self, call: _Call, caller: Caller, *, has_body: bool) -> None:
        headers = for_upstream(call.headers, readable_answer=False)
        if call.length:
            # Framing is passed on here: without a length the body would be sent in chunks, which not every server takes.
            headers["content-length"] = str(call.length)
        body = caller.chunks() if has_body else None

        async def exchange() -> None:
            async with self._upstream.exchange(call.method, call.target(), headers=headers, body=body) as answer:
                if not caller.gone:
                    await relay(caller, answer, wire=self._wire)

        await self._stay(caller, exchange())

    async def _converse(self, call: _Call, caller: Caller) -> None:
        body = await self._body(call, caller)
        if body is None:
            return
        incoming = Incoming(path=call.after_mount.decode("ascii"), headers=as_mapping(call.headers), body=body)
        try:
            decision = await self._conversations.open(incoming)
        except HoldfastError as error:
            self.failures[f"open.{error.code}"] += 1
            # Its code and not its text, which may quote what the client sent.
            log.warning("a conversation could not be opened and was forwarded as it came: %s", error.code)
            decision = Forward(body=body, finished=_nobody)
        match decision:
            case Forward():
                await self._forward(call, caller, decision)
            case Answered():
                await self._answer(caller, decision, body=body)
            case Refused():
                await self._refuse(caller, decision)
            case _:
                assert_never(decision)

    async def _body(self, call: _Call, caller: Caller) -> bytes | None:
        """Return the request's body; None where there is nobody left to answer or the answer was given here."""
        try:
            body = None if call.length > self._body_limit else await caller.read(limit=self._body_limit)
        except ConnectionResetError:
            return None
        if body is None:
            message = f"the request is longer than the {self._body_limit} bytes this gateway reads"
            await self._refuse(caller, Refused(status=413, code="request_too_large", message=message))
        return body

    async def _forward(self, call: _Call, caller: Caller, forward: Forward) -> None:
        headers = for_upstream(call.headers, readable_answer=True)
        finish = Finish(forward, failures=self.failures)

        async def exchange() -> None:
            async with self._upstream.exchange(call.method, call.target(), headers=headers, body=forward.body) as answer:
                await relay_reply(caller, answer, wire=self._wire, finish=finish)

        try:
            await self._stay(caller, exchange())
        finally:
            await finish(Reply(outcome="cut"))

    async def _stay(self, caller: Caller, exchange: Coroutine[Any, Any, None]) -> None:
        try:
            await caller.stay_for(exchange)
        except ClientError as error:
            # An answer that broke off must not look whole: the server drops the connection when this is raised.
            self.failures["relay.upstream_cut"] += 1
            log.warning("the provider's answer broke off: %s", type(error).__name__)
            if not caller.gone:
                raise

    async def _answer(self, caller: Caller, answered: Answered, *, body: bytes) -> None:
        asked = _asked(body)
        answer = Answer(
            text=answered.text,
            response_id=f"resp_{self._new_id()}",
            message_id=f"msg_{self._new_id()}",
            model=asked.model,
            created_at=int(self._now()),
        )
        written = self._wire.answer_stream(answer) if asked.stream else self._wire.answer_json(answer)
        content_type = b"text/event-stream; charset=utf-8" if asked.stream else b"application/json"
        await caller.answer(200, written, content_type=content_type)

    async def _refuse(self, caller: Caller, refused: Refused) -> None:
        await caller.answer(refused.status, self._wire.error_json(refused.status, refused.code, refused.message))


def _asked(body: bytes) -> _Asked:
    try:
        return _ASKED.decode(body)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return _Asked()


async def _nobody(reply: Reply) -> None:
    """Take the reply to a request that was never opened."""
