"""Carries one conversation request: reads it, lets the conversation decide, and does what it decides."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, assert_never
from urllib.parse import parse_qs

from aiohttp import ClientError
from multidict import CIMultiDict

from threadkeep.dialects import Answer, Reply, Wire
from threadkeep.dialects.api import MANAGEMENT
from threadkeep.dialects.raw_json import ABSENT, join_object, read_fields, split_object
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.conversation.model_windows import ABSENT_STATUSES
from threadkeep.gateway.conversation.proxy_interface import (
    Answered,
    AnswerTooLong,
    Conversations,
    Forward,
    Incoming,
    ProviderAnswer,
    Refused,
    Shrink,
    Smaller,
    Substitute,
    merge_header_lists,
)
from threadkeep.gateway.http.access_log import Entry
from threadkeep.gateway.http.compression import DecodeFailure, decode_body, parse_codings
from threadkeep.gateway.http.exchange import Call, Caller
from threadkeep.gateway.http.headers import first, join_headers, make_upstream_headers
from threadkeep.gateway.http.metrics import Metrics, Run
from threadkeep.gateway.http.relay import Finish, is_blendable, relay_reply, relay_without_tool
from threadkeep.gateway.http.routes import Route
from threadkeep.gateway.http.upstream import IDLE_SECONDS, Upstream, UpstreamAnswer, UpstreamFailure
from threadkeep.gateway.http.upstream_socket import Lane
from threadkeep.llm.failures import ErrorDetails, is_overflow, parse_error

log = logging.getLogger("threadkeep.gateway")

# How long the opening of a stream is held back to see whether it is a refusal, which comes before the model begins to think.
OPENING_SECONDS = 5.0
OPENING_BYTES = 256 * 1024
# The gateway's own requests ask for a page or two, but not every provider takes a limit. A longer answer, thoughts and events
# included, is broken off, which ends its cost.
DRAFT_BYTES = 8 * 1024 * 1024
# Up to this size a body is decompressed faster than a thread starts; a bomb is bounded.
SMALL_BYTES = 16 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerStamp:
    """Clock and ids for the gateway's own answers."""

    now: Callable[[], float]
    new_id: Callable[[], str]


class ProxiedRequest:
    """One conversation request with everything it needs. It holds the client's credentials, and lives as long as the request."""

    def __init__(
        self,
        *,
        call: Call,
        caller: Caller,
        route: Route,
        wire: Wire,
        upstream: Upstream,
        metrics: Metrics,
        run: Run | None = None,
        entry: Entry | None = None,
        lane: Lane | None = None,
    ) -> None:
        """Take a request; `run` counts it, and `entry`, if given, takes its content for the access log.

        One that came over a socket is answered through its `lane`.
        """
        self._call = call
        self._entry = entry
        self._caller = caller
        self._wire = wire
        self._upstream = upstream
        self._lane = lane
        self._metrics = metrics
        self._run = run
        self._route = route
        self._target = call.target(route.path)

    async def run(self, conversations: Callable[[], Awaitable[Conversations]], *, body_limit: int, stamp: AnswerStamp) -> None:
        """Read the request, let `conversations` decide, and carry the decision out."""
        body = await self._read_body(limit=body_limit)
        if body is None:
            return
        if self._entry is not None:
            self._entry.request = body
        began = time.perf_counter()
        decision = await self._decide(conversations, body)
        self._metrics.observe_added(time.perf_counter() - began)
        match decision:
            case Forward():
                self._metrics.count_tokens(client_bytes=len(body), provider_bytes=len(decision.body))
                if self._run is not None:
                    self._run.count_request(client_bytes=len(body), provider_bytes=len(decision.body))
                await self._forward(decision)
            case Answered():
                await self._answer(decision, body=body, stamp=stamp)
            case Refused():
                await self._refuse(decision)
            case _:
                assert_never(decision)

    async def _decide(self, conversations: Callable[[], Awaitable[Conversations]], body: bytes) -> Forward | Answered | Refused:
        incoming = Incoming(
            path=self._route.path,
            query=self._call.query.decode("latin-1"),
            headers=self._read_account_headers(),
            body=body,
            ask_provider=self._ask_provider,
            ask_path=self._ask_path,
            read_path=self._read_path,
            placed=None if self._run is None else self._run.add_thread,
            is_resumable=self._lane is not None,
        )
        try:
            return await (await conversations()).open(incoming)
        except ThreadkeepError as error:
            self._metrics.count_failure(f"open.{error.code}")
            # Its code and not its text, which may quote what the client sent.
            log.warning("a conversation could not be opened and was forwarded as it came: %s", error.code)
            return Forward(body=body, finished=_ignore_reply)

    async def _read_body(self, *, limit: int) -> bytes | None:
        """Return the request's body, readable; None where there is nobody left to answer or the answer was given here."""
        try:
            body = None if self._call.length > limit else await self._caller.read(limit=limit)
        except ConnectionResetError:
            return None
        codings = parse_codings(first(self._call.headers, b"content-encoding"))
        read = DecodeFailure.TOO_LARGE if body is None else await _decode(body, codings, limit=limit)
        if isinstance(read, bytes):
            return read
        if read is DecodeFailure.TOO_LARGE:
            message = f"the request is longer than the {limit} bytes this gateway reads"
            await self._refuse(Refused(status=413, code="request_too_large", message=message))
        else:
            message = f"the body is not what its Content-Encoding says ({', '.join(codings)})"
            await self._refuse(Refused(status=400, code="invalid_request", message=message))
        return None

    async def _forward(self, forward: Forward) -> None:
        if self._entry is not None:
            self._entry.forwarded = forward.body
        headers = self._make_headers()
        headers.update(forward.headers)
        finish = Finish(forward, failures=self._metrics.failures)
        try:
            await run_while_connected(
                self._caller, self._exchange(forward, headers=headers, finish=finish), metrics=self._metrics
            )
        finally:
            await finish(Reply(outcome="cut"))

    async def _exchange(self, forward: Forward, *, headers: CIMultiDict[str], finish: Finish) -> None:
        async with self._ask(forward.body, headers=headers) as answer:
            smaller = None
            if forward.overflowed is not None and isinstance(answer, UpstreamAnswer) and await _is_overflow(answer):
                self._metrics.count_overflow()
                smaller = await self._make_anew(forward.overflowed)
            elif isinstance(answer, UpstreamAnswer) and await _refuses_management(answer):
                smaller = await self._drop_management(forward)
            if smaller is None:
                await self._relay(answer, forward, headers=headers, finish=finish)
                return
        headers.update(smaller.headers)
        if forward.recall is not None:
            forward.recall.body = smaller.body
        async with self._ask(smaller.body, headers=headers) as answer:
            await self._relay(answer, forward, headers=headers, finish=finish)

    async def _relay(
        self, answer: UpstreamAnswer | UpstreamFailure, forward: Forward, *, headers: CIMultiDict[str], finish: Finish
    ) -> None:
        if isinstance(answer, UpstreamFailure):
            self._metrics.count_failure(f"relay.{answer.code}")
        elif forward.substitute is not None and await _lacks(answer, forward.substitute):
            await self._answer_instead(forward.substitute, answer, finish=finish)
            return
        elif forward.recall is not None and is_blendable(answer):
            ask = partial(self._ask, headers=headers)
            await relay_without_tool(self._caller, answer, wire=self._wire, finish=finish, recall=forward.recall, ask=ask)
            return
        await relay_reply(self._caller, answer, wire=self._wire, finish=finish)

    async def _answer_instead(self, substitute: Substitute, answer: UpstreamAnswer, *, finish: Finish) -> None:
        """Answer what the provider lacks; what it answered is relayed where that cannot be done."""
        try:
            body = await substitute.render()
        except ThreadkeepError as error:
            self._metrics.count_failure(f"substitute.{error.code}")
            log.warning("what a provider lacks could not be answered: %s", error.code)
            await relay_reply(self._caller, answer, wire=self._wire, finish=finish)
            return
        await finish(Reply(outcome="failed"))
        is_stream = body.startswith(b"event:")
        content_type = b"text/event-stream; charset=utf-8" if is_stream else b"application/json"
        await self._caller.answer(200, body, content_type=content_type)

    def _ask(self, body: bytes, *, headers: CIMultiDict[str]) -> AbstractAsyncContextManager[UpstreamAnswer | UpstreamFailure]:
        return (self._lane or self._upstream).exchange("POST", self._target, headers=headers, body=body)

    async def _drop_management(self, forward: Forward) -> Smaller | None:
        """Return a request that does not ask for it; a side request simply goes without."""
        if forward.unmanaged is not None:
            return await self._make_anew(forward.unmanaged)
        fields = split_object(forward.body) or {}
        return Smaller(body=join_object({name: raw for name, raw in fields.items() if name != MANAGEMENT}), headers={})

    async def _make_anew(self, shrink: Shrink) -> Smaller | None:
        try:
            return await shrink()
        except ThreadkeepError as error:
            self._metrics.count_failure(f"overflowed.{error.code}")
            log.warning("a request that was refused could not be made anew: %s", error.code)
            return None

    async def _ask_provider(self, body: bytes) -> ProviderAnswer:
        """Ask the provider something else as this client; see `threadkeep.gateway.conversation.proxy_interface.AskProvider`."""
        return await self._ask_path(self._route.path, body, {})

    async def _ask_path(self, path: str, body: bytes, more: Mapping[str, str]) -> ProviderAnswer:
        """Ask the provider something at one of its paths as this client; see `AskPath`."""
        headers = self._make_headers()
        headers.update(merge_header_lists(headers, more))
        async with self._upstream.exchange("POST", self._call.target(path), headers=headers, body=body) as answer:
            if isinstance(answer, UpstreamFailure):
                raise ConnectionError(answer.message)
            return await _read_whole(answer)

    async def _read_path(self, path: str, *, is_at_root: bool = False) -> ProviderAnswer:
        """Read one of the provider's paths as this client; see `threadkeep.gateway.conversation.proxy_interface.ReadPath`."""
        headers = self._make_headers()
        headers.popall("content-type", None)
        target = path if is_at_root else self._call.target(path)
        async with self._upstream.exchange("GET", target, headers=headers, body=None, is_at_root=is_at_root) as answer:
            if isinstance(answer, UpstreamFailure):
                raise ConnectionError(answer.message)
            return await _read_whole(answer)

    def _read_account_headers(self) -> Mapping[str, str]:
        """Return the client's headers, with a key that stands in the query as if it stood in its header."""
        headers, endpoints = join_headers(self._call.headers), self._route.dialect.api.endpoints
        keys = parse_qs(self._call.query.decode("latin-1")).get(endpoints.key_query, []) if endpoints.key_query else []
        return {endpoints.key_header: keys[0], **headers} if keys else headers

    def _make_headers(self) -> CIMultiDict[str]:
        return make_upstream_headers(self._call.headers, readable_answer=True, decoded_body=True)

    async def _answer(self, answered: Answered, *, body: bytes, stamp: AnswerStamp) -> None:
        api = self._route.dialect.api
        target = api.read_target(split_object(body) or {}, path=self._route.path, query=self._call.query.decode("latin-1"))
        answer = Answer(
            text=answered.text,
            response_id=f"{api.endpoints.id_prefix}{stamp.new_id()}",
            message_id=f"msg_{stamp.new_id()}",
            model=target.model,
            created_at=int(stamp.now()),
        )
        whole = self._wire.render_answer(answer)
        if answered.finished is not None:
            await answered.finished(self._wire.read_reply(whole))
        if target.form == "events":
            written, content_type = self._wire.render_answer_stream(answer), b"text/event-stream; charset=utf-8"
        else:
            written, content_type = b"[" + whole + b"]" if target.form == "list" else whole, b"application/json"
        await self._caller.answer(200, written, content_type=content_type)

    async def _refuse(self, refused: Refused) -> None:
        await self._caller.answer(refused.status, self._wire.render_error(refused.status, refused.code, refused.message))


async def run_while_connected(caller: Caller, exchange: Coroutine[Any, Any, None], *, metrics: Metrics) -> None:
    """Run `exchange` while the client is there.

    Raises:
        ClientError: The provider's answer broke off. It must not look whole: the server drops the connection for it.
    """
    try:
        await caller.run_while_connected(exchange)
    except ClientError as error:
        metrics.count_failure("relay.upstream_cut")
        log.warning("the provider's answer broke off: %s", type(error).__name__)
        if not caller.gone:
            raise


async def _decode(body: bytes, codings: Sequence[str], *, limit: int) -> bytes | DecodeFailure:
    """Decompress a body; a large one in a thread, so that no stream waits for it."""
    if not codings or len(body) <= SMALL_BYTES:
        return decode_body(body, codings, limit=limit)
    return await asyncio.to_thread(decode_body, body, codings, limit=limit)


async def _lacks(answer: UpstreamAnswer, substitute: Substitute) -> bool:
    """Whether the beginning of an answer says that the provider does not have what it was asked for."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + OPENING_SECONDS
    if answer.status in ABSENT_STATUSES or (substitute.has_begun is not None and answer.status in REFUSED):
        while len(answer.seen) <= REFUSAL_BYTES and await answer.look_ahead(within_seconds=deadline - clock()):
            pass
        said = answer.seen.lower()
        # Also an unknown model is not found, and a refusal of the size is no sign.
        return b"compaction" in said if answer.status in REFUSED else b"model" not in said
    if substitute.has_begun is None or answer.status != 200 or answer.is_json:
        return False
    while (begun := substitute.has_begun(answer.seen)) is None and len(answer.seen) <= OPENING_BYTES:
        if not await answer.look_ahead(within_seconds=IDLE_SECONDS):
            return True
    return begun is False


async def _refuses_management(answer: UpstreamAnswer) -> bool:
    """Whether an answer says that the provider does not know how to manage a history."""
    if answer.status not in REFUSED:
        return False
    clock = asyncio.get_running_loop().time
    deadline = clock() + OPENING_SECONDS
    while len(answer.seen) <= REFUSAL_BYTES and await answer.look_ahead(within_seconds=deadline - clock()):
        pass
    return any(words in answer.seen for words in MANAGEMENT_NAMES)


async def _is_overflow(answer: UpstreamAnswer) -> bool:
    """Whether the beginning of an answer says that the request was refused for its size."""
    clock = asyncio.get_running_loop().time
    deadline = clock() + OPENING_SECONDS
    if answer.status in REFUSED:
        while len(answer.seen) <= REFUSAL_BYTES and await answer.look_ahead(within_seconds=deadline - clock()):
            pass
        body = decode_body(answer.seen, parse_codings(first(answer.headers, b"content-encoding")), limit=REFUSAL_BYTES)
        return is_size_refusal(answer.status, body if isinstance(body, bytes) else b"")
    if answer.status != 200 or answer.is_json:
        return False
    while (opening := classify_opening(answer.seen)) is Opening.UNDECIDED and len(answer.seen) <= OPENING_BYTES:
        if not await answer.look_ahead(within_seconds=deadline - clock()):
            break
    return opening is Opening.OVERFLOW


async def _read_whole(answer: UpstreamAnswer) -> ProviderAnswer:
    body = bytearray()
    try:
        async for chunk in answer.chunks():
            body += chunk
            if len(body) > DRAFT_BYTES:
                raise AnswerTooLong(f"the answer is longer than {DRAFT_BYTES} bytes")
    except ClientError as error:
        raise ConnectionError(f"the answer broke off ({type(error).__name__})") from error
    read = decode_body(bytes(body), parse_codings(first(answer.headers, b"content-encoding")), limit=DRAFT_BYTES)
    if not isinstance(read, bytes):
        raise ConnectionError(f"the answer cannot be read ({read.name.lower()})")
    return ProviderAnswer(status=answer.status, headers=join_headers(answer.headers), body=read)


async def _ignore_reply(reply: Reply) -> None:
    """Take the reply to a request that was never opened."""


TOO_LARGE = 413
REFUSED = frozenset({400, TOO_LARGE, 422})
# The field and the header that ask a provider to manage a history.
MANAGEMENT_NAMES = (b"context_management", b"context-management")
# A refusal is short. A longer body is relayed unread.
REFUSAL_BYTES = 256 * 1024

# Rate limits speak of tokens too, but a smaller request does not lift them.
NOT_BY_SIZE = frozenset({"rate_limit_exceeded", "rate_limit_error", "insufficient_quota"})
# The types of events that may open a stream before the model says anything.
OPENING_EVENTS = frozenset({"response.created", "response.in_progress", "response.queued", "ping"})
FAILED_EVENTS = frozenset({"response.failed", "error"})


class Opening(Enum):
    """What the beginning of a stream tells."""

    UNDECIDED = auto()
    UNDER_WAY = auto()
    OVERFLOW = auto()


def is_size_refusal(status: int, body: bytes) -> bool:
    """Whether an answer with this status and body says that the request was too large for the model."""
    if status not in REFUSED:
        return False
    fields = read_fields(body)
    error = parse_error(fields) if fields is not None else None
    if error is None or not (error.codes or error.message):
        return status == TOO_LARGE
    return _is_about_size(error)


def classify_opening(stream: bytes) -> Opening:
    """Return what the first bytes of an event stream tell: nothing yet, an answer under way, or a refusal for its size."""
    for event in stream.replace(b"\r\n", b"\n").split(b"\n\n")[:-1]:
        data = b"\n".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
        if not data:
            continue
        fields = read_fields(data)
        if fields is None:
            return Opening.UNDER_WAY
        kind = fields.text("type")
        if kind in OPENING_EVENTS:
            continue
        has_failed = kind in FAILED_EVENTS or (kind is None and fields.span("error") != ABSENT)
        error = parse_error(fields.object("response") or fields)
        return Opening.OVERFLOW if has_failed and _is_about_size(error) else Opening.UNDER_WAY
    return Opening.UNDECIDED


def _is_about_size(error: ErrorDetails) -> bool:
    return error.codes.isdisjoint(NOT_BY_SIZE) and is_overflow(codes=error.codes, message=error.message)
