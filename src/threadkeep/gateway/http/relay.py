"""Relays a provider's answer to the client, byte for byte, and reads it on the way where someone wants to know."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from aiohttp import ClientPayloadError

from threadkeep.dialects import Reply, ReplyReader, Wire
from threadkeep.dialects.base import AnswerFilter
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.conversation.recall_tool import RecallSession, keep_first_counts
from threadkeep.gateway.conversation.request import Forward
from threadkeep.gateway.http.asgi import Caller
from threadkeep.gateway.http.content_encoding import parse_codings
from threadkeep.gateway.http.headers import drop_hop_by_hop, first
from threadkeep.gateway.http.upstream import UpstreamAnswer, UpstreamFailure

log = logging.getLogger("threadkeep.gateway")

# An answer that is not a stream is read whole; a longer one is relayed all the same, unread.
READABLE_BYTES = 64 * 1024 * 1024
# What ends an event.
_blank_line = re.compile(rb"\n\n|\r\n\r\n|\r\r")


class Finish:
    """Calls a forward's `finished` once, whatever happens to the exchange around it."""

    def __init__(self, forward: Forward, *, failures: Counter[str]) -> None:
        self._forward = forward
        self._failures = failures
        self._called = False

    async def __call__(self, reply: Reply) -> None:
        """Report `reply`, unless one was reported before, and return once that is dealt with.

        A cancellation waits for it too: a client that leaves must not tear a half-written record.
        """
        if self._called:
            return
        self._called = True
        reporting = asyncio.ensure_future(self._report(reply))
        try:
            await asyncio.shield(reporting)
        except asyncio.CancelledError:
            await reporting
            raise

    async def _report(self, reply: Reply) -> None:
        try:
            await self._forward.finished(reply)
        except ThreadkeepError as error:
            self._failures[f"finished.{error.code}"] += 1
            log.warning("an answer was relayed but not recorded: %s", error.code)


async def relay(caller: Caller, answer: UpstreamAnswer | UpstreamFailure, *, wire: Wire) -> None:
    """Relay an answer nobody reads."""
    if isinstance(answer, UpstreamFailure):
        await _tell(caller, answer, wire=wire)
        return
    await _start(caller, answer)
    async for chunk in answer.chunks():
        await caller.write(chunk)
    await caller.end()


async def relay_reply(caller: Caller, answer: UpstreamAnswer | UpstreamFailure, *, wire: Wire, finish: Finish) -> None:
    """Relay an answer and report it to `finish` before its last bytes go out.

    Raises:
        ClientError: The provider's stream broke; what came was relayed, and the answer must not be ended as if whole.
    """
    if isinstance(answer, UpstreamFailure):
        await finish(Reply(outcome="failed"))
        await _tell(caller, answer, wire=wire)
    elif answer.status >= 400:
        await finish(Reply(outcome="failed"))
        await relay(caller, answer, wire=wire)
    elif answer.is_json:
        await _relay_json(caller, answer, wire=wire, finish=finish)
    else:
        await _relay_stream(caller, answer, reader=wire.make_reader(), finish=finish)


async def _relay_stream(caller: Caller, answer: UpstreamAnswer, *, reader: ReplyReader, finish: Finish) -> None:
    await _start(caller, answer)
    try:
        async for chunk in answer.chunks():
            begins = 0
            for piece in _pieces(chunk):
                if reader.feed(chunk[piece]):
                    # What came with the last event need not wait for it.
                    if piece.start > begins:
                        await caller.write(chunk[begins : piece.start])
                        begins = piece.start
                    await finish(reader.reply)
            await caller.write(chunk[begins:])
    finally:
        await finish(reader.reply)
    await caller.end()


def _pieces(chunk: bytes) -> Iterator[slice]:
    """Yield where the events lie that end in a chunk, then what is left of it."""
    begins = 0
    for blank in _blank_line.finditer(chunk):
        yield slice(begins, blank.end())
        begins = blank.end()
    if begins < len(chunk):
        yield slice(begins, len(chunk))


async def _relay_json(caller: Caller, answer: UpstreamAnswer, *, wire: Wire, finish: Finish) -> None:
    """Relay a JSON answer one chunk late: only its end tells which chunk was the last."""
    seen = bytearray()
    last = b""
    reply = Reply(outcome="cut")
    await _start(caller, answer)
    try:
        async for chunk in answer.chunks():
            if last:
                await caller.write(last)
            last = chunk
            if len(seen) <= READABLE_BYTES:
                seen += chunk
        if len(seen) <= READABLE_BYTES:
            reply = wire.read_reply(bytes(seen))
    finally:
        await finish(reply)
    await caller.end(last)


async def _start(caller: Caller, answer: UpstreamAnswer) -> None:
    await caller.start(answer.status, drop_hop_by_hop(answer.headers))


async def _tell(caller: Caller, unanswered: UpstreamFailure, *, wire: Wire) -> None:
    await caller.answer(unanswered.status, wire.render_error(unanswered.status, unanswered.code, unanswered.message))


Ask = Callable[[bytes], AbstractAsyncContextManager[UpstreamAnswer | UpstreamFailure]]


def is_blendable(answer: UpstreamAnswer | UpstreamFailure) -> bool:
    """Whether an answer can be read as it comes: a stream of events or an object, and no error."""
    if isinstance(answer, UpstreamFailure) or answer.status >= 400:
        return False
    if not answer.is_json and "text/event-stream" not in first(answer.headers, b"content-type"):
        return False
    return not parse_codings(first(answer.headers, b"content-encoding"))


async def relay_without_tool(
    caller: Caller, answer: UpstreamAnswer, *, wire: Wire, finish: Finish, recall: RecallSession, ask: Ask
) -> None:
    """Relay an answer; where it recalls something, ask the provider again with that and go on with what it answers then.

    Raises:
        ClientError: An answer broke off, or could not be had, after the client was given a part of it.
    """
    if answer.is_json:
        await _Whole(caller, wire=wire, finish=finish, recall=recall, ask=ask).relay(answer)
    else:
        await _Streamed(caller, wire=wire, finish=finish, recall=recall, ask=ask).relay(answer)


class _Streamed:
    """An answer that is relayed as it comes, but for what is not for the client."""

    def __init__(self, caller: Caller, *, wire: Wire, finish: Finish, recall: RecallSession, ask: Ask) -> None:
        self._caller = caller
        self._wire = wire
        self._finish = finish
        self._recall = recall
        self._ask = ask
        self._filter: AnswerFilter = recall.tool.make_filter()
        self._shown = wire.make_reader()
        self._first: Reply | None = None

    async def relay(self, answer: UpstreamAnswer) -> None:
        await self._caller.start(answer.status, drop_hop_by_hop(answer.headers))
        try:
            again = await self._round(answer)
            while again is not None:
                self._filter.start_next()
                async with self._ask(again) as more:
                    if not is_blendable(more) or isinstance(more, UpstreamFailure) or more.is_json:
                        raise ClientPayloadError("the provider did not go on with an answer")
                    again = await self._round(more)
            ending = self._filter.end()
            self._shown.feed(ending)
        finally:
            await self._finish(keep_first_counts(self._shown.reply, self._first or Reply()))
        await self._caller.end(ending)

    async def _round(self, answer: UpstreamAnswer) -> bytes | None:
        """Relay one answer of the provider up to its end, which is held back; return what is to be asked next."""
        reader = self._wire.make_reader()
        async for chunk in answer.chunks():
            reader.feed(chunk)
            # Nothing at all is the sign of the end.
            if chunk and (visible := self._filter.feed(chunk)):
                self._shown.feed(visible)
                await self._caller.write(visible)
        if visible := self._filter.feed(b""):
            await self._caller.write(visible)
        self._first = self._first or reader.reply
        return await _next(self._recall, reader.reply)


class _Whole:
    """An answer that is relayed when it is whole."""

    def __init__(self, caller: Caller, *, wire: Wire, finish: Finish, recall: RecallSession, ask: Ask) -> None:
        self._caller = caller
        self._wire = wire
        self._finish = finish
        self._recall = recall
        self._ask = ask

    async def relay(self, answer: UpstreamAnswer) -> None:
        read = await _body(answer)
        replies = [self._wire.read_reply(read)]
        answers = [_object(read)]
        again = await _next(self._recall, replies[0])
        while again is not None:
            async with self._ask(again) as more:
                if not is_blendable(more) or isinstance(more, UpstreamFailure):
                    await relay_reply(self._caller, more, wire=self._wire, finish=self._finish)
                    return
                body = await _body(more)
            replies.append(self._wire.read_reply(body))
            answers.append(_object(body))
            again = await _next(self._recall, replies[-1])
        if len(answers) > 1 or self._recall.tool.find_calls(replies[0].items).calls:
            read = json.dumps(self._recall.tool.merge_answers(answers), ensure_ascii=False).encode("utf-8", "replace")
        await self._finish(keep_first_counts(self._wire.read_reply(read), replies[0]))
        await self._caller.start(answer.status, drop_hop_by_hop(answer.headers))
        await self._caller.end(read)


async def _next(recall: RecallSession, reply: Reply) -> bytes | None:
    """Return what the provider is to be asked next; where a store fails, the client gets the answer there is."""
    try:
        return await recall.handle_reply(reply)
    except ThreadkeepError as error:
        log.warning("what a model recalled could not be kept: %s", error.code)
        return None


async def _body(answer: UpstreamAnswer) -> bytes:
    body = bytearray()
    async for chunk in answer.chunks():
        body += chunk
        if len(body) > READABLE_BYTES:
            raise ClientPayloadError("the provider's answer is longer than can be read")
    return bytes(body)


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
