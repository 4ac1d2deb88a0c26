"""A provider that does not speak a client's language, asked in one that it speaks; see `threadkeep.dialects.translation`."""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from aiohttp import ClientSession, ClientWebSocketResponse
from multidict import CIMultiDict

from threadkeep.dialects import DIALECTS, Answer, Dialect
from threadkeep.dialects.api import MANAGEMENT
from threadkeep.dialects.translation import AnswerTranslator
from threadkeep.errors import InvalidSetting
from threadkeep.gateway.conversation.model_windows import ABSENT_STATUSES
from threadkeep.gateway.http.headers import RawHeaders
from threadkeep.gateway.http.routes import CONVERSATIONS, ERROR_DIALECTS
from threadkeep.gateway.http.upstream import Content, Upstream, UpstreamAnswer, UpstreamFailure
from threadkeep.llm.failures import is_overflow, parse_error_body

log = logging.getLogger("threadkeep.gateway")

# What the setting says beside a language: find out, or ask in the client's.
AUTO, SAME = "auto", "same"
# Tells what of a request could not be translated and might matter.
DROPPED_HEADER: Final = b"x-threadkeep-dropped"
NOT_FOUND: Final = 404
# How servers say so; a model, an answer or a file that is not found is named.
_nothing_there = re.compile(
    r"^\W*(404|file|page|path|route|url|endpoint|resource|\W)*not found\W*$"
    r"|(invalid|no|unknown|unrecognized|unsupported) (request )?(url|route|path|endpoint)|cannot post|<html",
    re.IGNORECASE,
)
LOOK_SECONDS: Final = 5.0
REFUSAL_BYTES: Final = 256 * 1024
WHOLE_BYTES: Final = 64 * 1024 * 1024
# What says how a body is written, which is another one here.
BODY_HEADERS: Final = frozenset({b"content-type", b"content-length", b"content-encoding", b"transfer-encoding"})
JSON: Final = (b"content-type", b"application/json")
OVERFLOW: Final = "context_length_exceeded"


# Sends a body to a path of the provider's.
Ask = Callable[[str, bytes], Awaitable[UpstreamAnswer | UpstreamFailure]]


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
            raise InvalidSetting("upstream_dialect", f"upstream_dialect is {', '.join((AUTO, SAME, *known))}, not {spoken!r}")
        self._spoken = known.get(spoken)
        self._key_header = ERROR_DIALECTS[provider].api.endpoints.key_header
        self._translates = spoken != SAME
        self._now = now
        self._new_id = new_id
        self._told: set[str] = set()
        # The languages that the provider was seen to know.
        self._served: set[str] = set()

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
        dialect = CONVERSATIONS.get(path) if method == "POST" and self._translates else None
        is_foreign = dialect is not None and dialect.api.client_form is not None and dialect.name not in self._served
        passed = super().exchange
        async with AsyncExitStack() as stack:
            answer: UpstreamAnswer | UpstreamFailure | None = None
            if not is_foreign or self._spoken is None:
                known = headers if self._spoken is None else _move_key(headers, self._key_header)
                asked = passed(method, target, headers=known, body=body, is_at_root=is_at_root)
                answer = await stack.enter_async_context(asked)
                if is_foreign and dialect is not None and not await _is_absent(answer):
                    is_foreign = False
                    if path == dialect.api.endpoints.turn and isinstance(answer, UpstreamAnswer) and answer.status < 300:
                        self._served.add(dialect.name)
            if is_foreign and dialect is not None and isinstance(body, bytes):

                async def ask(target: str, told: bytes) -> UpstreamAnswer | UpstreamFailure:
                    moved = _move_key(headers, self._key_header)
                    return await stack.enter_async_context(passed("POST", target, headers=moved, body=told))

                own, answer = answer, await self._translate(dialect, path, body, ask)
                if own is not None and isinstance(answer, UpstreamAnswer) and answer.status in ABSENT_STATUSES:
                    answer = own
            assert answer is not None
            yield answer

    async def _translate(self, dialect: Dialect, path: str, body: bytes, ask: Ask) -> UpstreamAnswer | UpstreamFailure:
        """Ask in the provider's language, and return the answer in the client's; refuse what only the gateway can answer."""
        spoken = self._spoken or next(each for each in DIALECTS.values() if each.api.upstream_form is not None)
        client, provider, service = dialect.api.client_form, spoken.api.upstream_form, dialect.api.compaction_service
        assert client is not None
        assert provider is not None
        if path != dialect.api.endpoints.turn:
            return _refuse(dialect, 404, "not_found", f"there is no {path} here")
        request = dialect.split(body)
        lacks = "compaction" if request and service and service.find_asked(request, path=path) else None
        lacks = MANAGEMENT if request and request.fields.get(MANAGEMENT, b"null") != b"null" else lacks
        if request is None or lacks is not None:
            message = f"{self._place} speaks {spoken.name} alone, and has no {lacks or 'history that this request could name'}"
            return _refuse(dialect, NOT_FOUND if request is None else 400, "invalid_request", message)
        plain = client.read_request(request)
        answer = Answer(
            text="",
            response_id=f"{dialect.api.endpoints.id_prefix}{self._new_id()}",
            message_id=f"msg_{self._new_id()}",
            model=plain.model,
            created_at=int(self._now()),
        )
        answered = await ask(spoken.api.endpoints.turn, provider.write_request(plain))
        if isinstance(answered, UpstreamFailure):
            return answered
        if answered.status < 300:
            self._spoken = spoken
        for name in set(plain.dropped) - self._told:
            log.warning("%s was left out of requests to %s: it cannot be said in %s", name, self._place, spoken.name)
        self._told.update(plain.dropped)
        kept = [(name, value) for name, value in answered.headers if name.lower() not in BODY_HEADERS]
        kept += [(DROPPED_HEADER, ", ".join(plain.dropped).encode("ascii", "replace"))] if plain.dropped else []
        translator = provider.make_translator(client.make_writer(answer, plain))
        return await _translate_answer(answered, translator, kept, dialect=dialect, is_streamed=plain.is_streamed)


async def _is_absent(answer: UpstreamAnswer | UpstreamFailure) -> bool:
    """Whether an answer says that there is nothing at a path, and not that what a request names is not found."""
    if isinstance(answer, UpstreamFailure) or answer.status not in ABSENT_STATUSES:
        return False
    while len(answer.seen) <= REFUSAL_BYTES and await answer.look_ahead(within_seconds=LOOK_SECONDS):
        pass
    message = parse_error_body(answer.seen).message
    return answer.status != NOT_FOUND or not message.strip() or _nothing_there.search(message) is not None


async def _translate_answer(
    answer: UpstreamAnswer, translator: AnswerTranslator, headers: RawHeaders, *, dialect: Dialect, is_streamed: bool
) -> UpstreamAnswer:
    events = [*headers, (b"content-type", b"text/event-stream; charset=utf-8")]
    if answer.status < 300 and not answer.is_json:
        return UpstreamAnswer(Translated(answer.status, events, source=answer, translator=translator))
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


def _move_key(headers: CIMultiDict[str], name: str) -> CIMultiDict[str]:
    """Return the headers with the API key in `name` where every provider reads it."""
    passed = headers.copy()
    key = passed.popall(name, [])
    if key and "authorization" not in passed:
        passed["authorization"] = f"Bearer {key[0]}"
    return passed


def _refuse(dialect: Dialect, status: int, code: str, message: str, *, headers: RawHeaders = ()) -> UpstreamAnswer:
    return _make_answer(status, [*headers, JSON], dialect.wire.render_error(status, code, message))


def _make_answer(status: int, headers: RawHeaders, body: bytes) -> UpstreamAnswer:
    return UpstreamAnswer(Translated(status, headers), ahead=[body])


class Translated:
    """An answer of the gateway's own, or a stream, translated as it comes. A reader that gives up waiting loses nothing."""

    def __init__(
        self,
        status: int,
        headers: RawHeaders,
        *,
        source: UpstreamAnswer | None = None,
        translator: AnswerTranslator | None = None,
    ) -> None:
        self.status = status
        self.raw_headers = headers
        self._source = source
        self._translator = translator

    @property
    def content(self) -> Content:
        return self

    async def readany(self) -> bytes:
        while self._source is not None and self._translator is not None:
            chunk = await self._source.read()
            told = self._translator.translate(chunk)
            if told or not chunk:
                return told
        return b""

    async def iter_any(self) -> AsyncIterator[bytes]:
        while chunk := await self.readany():
            yield chunk

    def close(self) -> None:
        """The connection is closed with the exchange."""
