"""A provider that does not speak a client's language, asked in one that it speaks; see `threadkeep.dialects.translation`."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from aiohttp import ClientSession, ClientWebSocketResponse
from multidict import CIMultiDict

from threadkeep.dialects import DIALECTS, Answer, Dialect
from threadkeep.dialects.api import MANAGEMENT
from threadkeep.dialects.translation import AnswerTranslator
from threadkeep.errors import BadInput
from threadkeep.gateway.http.headers import RawHeaders
from threadkeep.gateway.http.upstream import Content, Upstream, UpstreamAnswer, UpstreamFailure
from threadkeep.llm.failures import is_overflow, parse_error_body

log = logging.getLogger("threadkeep.gateway")

# What the setting says beside a language: find out, or ask in the client's.
AUTO, SAME = "auto", "same"
# What a server answers that does not know a path.
ABSENT_STATUSES = frozenset({404, 405, 501})
# Tells what of a request could not be translated and might matter.
DROPPED_HEADER: Final = b"x-threadkeep-dropped"
LOOK_SECONDS: Final = 5.0
REFUSAL_BYTES: Final = 256 * 1024
WHOLE_BYTES: Final = 64 * 1024 * 1024
# What says how a body is written, which is another one here.
BODY_HEADERS: Final = frozenset({b"content-type", b"content-length", b"content-encoding", b"transfer-encoding"})
JSON: Final = (b"content-type", b"application/json")
OVERFLOW: Final = "context_length_exceeded"
PATHS: Final = {
    path: dialect for dialect in DIALECTS.values() for path in (dialect.api.endpoints.turn, *dialect.api.endpoints.others)
}


class TranslatedUpstream(Upstream):
    """Passes on what the provider understands, and translates the turns that it does not.

    `spoken` names the language that it is asked in; `auto` finds out by asking in the client's own first. What no other language
    has is refused here, as a provider refuses what it does not know.
    """

    def __init__(
        self,
        base: str,
        *,
        session: ClientSession,
        provider: str,
        spoken: str = AUTO,
        now: Callable[[], float],
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(base, session=session, provider=provider)
        known = {name: each for name, each in DIALECTS.items() if each.api.upstream_form is not None}
        if spoken not in (AUTO, SAME, *known):
            raise BadInput(f"upstream_dialect is {', '.join((AUTO, SAME, *known))}, not {spoken!r}")
        self._spoken = known.get(spoken)
        self._finds_out = spoken == AUTO
        self._now = now
        self._new_id = new_id
        self._told: set[str] = set()

    async def connect(self, target: str, *, headers: CIMultiDict[str]) -> tuple[ClientWebSocketResponse, RawHeaders] | None:
        return None if self._spoken is not None else await super().connect(target, headers=headers)

    @asynccontextmanager
    async def exchange(
        self,
        method: str,
        target: str,
        *,
        headers: CIMultiDict[str],
        body: bytes | AsyncIterator[bytes] | None,
        is_at_root: bool = False,
    ) -> AsyncIterator[UpstreamAnswer | UpstreamFailure]:
        path = target.partition("?")[0]
        dialect = PATHS.get(path) if method == "POST" and isinstance(body, bytes) else None
        form = dialect.api.client_form if dialect is not None and dialect is not self._spoken else None
        if dialect is None or form is None or not isinstance(body, bytes) or not (self._spoken or self._finds_out):
            async with super().exchange(method, target, headers=headers, body=body, is_at_root=is_at_root) as answer:
                yield answer
            return
        if self._spoken is None:
            async with super().exchange(method, target, headers=headers, body=body) as answer:
                if path != dialect.api.endpoints.turn or not await is_absent(answer):
                    yield answer
                    return
                assert isinstance(answer, UpstreamAnswer)
                absent = _make_answer(answer.status, answer.headers, answer.seen)
            spoken = next(each for each in DIALECTS.values() if each.api.upstream_form is not None)
        else:
            spoken, absent = self._spoken, _refuse(dialect, 404, "not_found", f"there is no {path} here")
            if path != dialect.api.endpoints.turn:
                yield absent
                return
        async with self._ask(dialect, spoken, body, headers=headers) as answer:
            if self._spoken is None and isinstance(answer, UpstreamAnswer) and answer.status in ABSENT_STATUSES:
                yield absent
                return
            if self._spoken is None and isinstance(answer, UpstreamAnswer) and answer.status < 300:
                log.info("%s speaks %s alone; what clients say in %s is translated", self._place, spoken.name, dialect.name)
                self._spoken = spoken
            yield answer

    @asynccontextmanager
    async def _ask(
        self, dialect: Dialect, spoken: Dialect, body: bytes, *, headers: CIMultiDict[str]
    ) -> AsyncIterator[UpstreamAnswer | UpstreamFailure]:
        """Ask in the provider's language, and yield the answer in the client's."""
        request, client, provider = dialect.split(body), dialect.api.client_form, spoken.api.upstream_form
        assert client is not None
        assert provider is not None
        if request is None:
            message = f"{self._place} speaks {spoken.name} alone, and this request does not hold its history"
            yield _refuse(dialect, 400, "invalid_request", message)
            return
        service, target = dialect.api.compaction_service, dialect.api.endpoints.turn
        asks = service is not None and service.find_asked(request, path=target) is not None
        if asks or request.fields.get(MANAGEMENT, b"null") != b"null":
            lacks = "compaction" if asks else MANAGEMENT
            yield _refuse(dialect, 400, "unknown_parameter", f"{self._place} speaks {spoken.name} alone, which has no {lacks}")
            return
        plain = client.read_request(request)
        answer = Answer(
            text="",
            response_id=f"{dialect.api.endpoints.id_prefix}{self._new_id()}",
            message_id=f"msg_{self._new_id()}",
            model=plain.model,
            created_at=int(self._now()),
        )
        translator = provider.make_translator(client.make_writer(answer, plain))
        target, told = spoken.api.endpoints.turn, provider.write_request(plain)
        async with super().exchange("POST", target, headers=_translate_headers(headers, dialect), body=told) as answered:
            if isinstance(answered, UpstreamFailure):
                yield answered
                return
            for name in set(plain.dropped) - self._told:
                log.warning("%s was left out of requests to %s: it cannot be said in %s", name, self._place, spoken.name)
            self._told.update(plain.dropped)
            kept = [(name, value) for name, value in answered.headers if name.lower() not in BODY_HEADERS]
            kept += [(DROPPED_HEADER, ", ".join(plain.dropped).encode("ascii", "replace"))] if plain.dropped else []
            yield await _translate_answer(answered, translator, kept, dialect=dialect, is_streamed=plain.is_streamed)


async def is_absent(answer: UpstreamAnswer | UpstreamFailure) -> bool:
    """Whether an answer says that there is nothing at a path; an unknown model is not found either, and is named."""
    if isinstance(answer, UpstreamFailure) or answer.status not in ABSENT_STATUSES:
        return False
    await _look(answer, limit=REFUSAL_BYTES)
    return b"model" not in answer.seen.lower()


async def _look(answer: UpstreamAnswer, *, limit: int) -> None:
    while len(answer.seen) <= limit and await answer.look_ahead(within_seconds=LOOK_SECONDS):
        pass


async def _translate_answer(
    answer: UpstreamAnswer, translator: AnswerTranslator, headers: RawHeaders, *, dialect: Dialect, is_streamed: bool
) -> UpstreamAnswer:
    events = [*headers, (b"content-type", b"text/event-stream; charset=utf-8")]
    if answer.status < 300 and not answer.is_json:
        return UpstreamAnswer(Translated(answer, translator, events))
    body = bytearray()
    async for chunk in answer.chunks():
        body += chunk
        if len(body) > WHOLE_BYTES:
            return _refuse(dialect, 502, "upstream_error", "the provider's answer is longer than can be read")
    whole = translator.translate_whole(bytes(body), is_streamed=is_streamed) if answer.status < 300 else None
    if whole is not None:
        return _make_answer(answer.status, events if is_streamed else [*headers, JSON], whole)
    error = parse_error_body(bytes(body))
    overflows = is_overflow(codes=error.codes, message=error.message)
    code = OVERFLOW if overflows else next(iter(sorted(error.codes)), "upstream_error")
    message = error.message or "the provider did not say why"
    return _refuse(dialect, answer.status if answer.status >= 400 else 502, code, message, headers=headers)


def _translate_headers(headers: CIMultiDict[str], dialect: Dialect) -> CIMultiDict[str]:
    """Return the headers with an API key where every provider reads it."""
    passed, name = headers.copy(), dialect.api.endpoints.key_header
    key = passed.popall(name, []) if name else []
    if key and "authorization" not in passed:
        passed["authorization"] = f"Bearer {key[0]}"
    return passed


def _refuse(dialect: Dialect, status: int, code: str, message: str, *, headers: RawHeaders = ()) -> UpstreamAnswer:
    return _make_answer(status, [*headers, JSON], dialect.wire.render_error(status, code, message))


def _make_answer(status: int, headers: RawHeaders, body: bytes) -> UpstreamAnswer:
    return UpstreamAnswer(Written(status=status, raw_headers=headers, body=[body]))


class _Content:
    """A body that is read piece by piece; a reader that gives up waiting loses nothing."""

    async def readany(self) -> bytes:
        raise NotImplementedError

    async def iter_any(self) -> AsyncIterator[bytes]:
        while chunk := await self.readany():
            yield chunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Written(_Content):
    """An answer of the gateway's own."""

    status: int
    raw_headers: RawHeaders
    body: list[bytes]

    @property
    def content(self) -> Content:
        return self

    async def readany(self) -> bytes:
        return self.body.pop() if self.body else b""

    def close(self) -> None:
        """There is no connection."""


class Translated(_Content):
    """A stream, translated as it comes."""

    def __init__(self, answer: UpstreamAnswer, translator: AnswerTranslator, headers: RawHeaders) -> None:
        self._answer = answer
        self._translator = translator
        self.raw_headers = headers

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def content(self) -> Content:
        return self

    async def readany(self) -> bytes:
        while True:
            chunk = await self._answer.read()
            told = self._translator.translate(chunk)
            if told or not chunk:
                return told

    def close(self) -> None:
        self._answer.close()
