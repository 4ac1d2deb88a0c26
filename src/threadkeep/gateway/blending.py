"""Relays one answer to the client that is made of several of the provider's."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from aiohttp import ClientPayloadError

from threadkeep.dialects import Reply, Wire
from threadkeep.dialects.base import AnswerFilter
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.caller import Caller
from threadkeep.gateway.content_encoding import codings_of
from threadkeep.gateway.headers import end_to_end, first
from threadkeep.gateway.recall_tool.running import Recalling, first_counted
from threadkeep.gateway.relay import READABLE_BYTES, Finish, relay_reply
from threadkeep.gateway.upstream import Arriving, Unanswered

log = logging.getLogger("threadkeep.gateway")

Ask = Callable[[bytes], AbstractAsyncContextManager[Arriving | Unanswered]]


def can_blend(answer: Arriving | Unanswered) -> bool:
    """Whether an answer can be read as it comes: a stream of events or an object, and no error."""
    if isinstance(answer, Unanswered) or answer.status >= 400:
        return False
    if not answer.is_json and "text/event-stream" not in first(answer.headers, b"content-type"):
        return False
    return not codings_of(first(answer.headers, b"content-encoding"))


async def relay_blended(caller: Caller, answer: Arriving, *, wire: Wire, finish: Finish, recalling: Recalling, ask: Ask) -> None:
    """Relay an answer; where it recalls something, ask the provider again with that and go on with what it answers then.

    Raises:
        ClientError: An answer broke off, or could not be had, after the client was given a part of it.
    """
    if answer.is_json:
        await _Whole(caller, wire=wire, finish=finish, recalling=recalling, ask=ask).relay(answer)
    else:
        await _Streamed(caller, wire=wire, finish=finish, recalling=recalling, ask=ask).relay(answer)


class _Streamed:
    """An answer that is relayed as it comes, but for what is not for the client."""

    def __init__(self, caller: Caller, *, wire: Wire, finish: Finish, recalling: Recalling, ask: Ask) -> None:
        self._caller = caller
        self._wire = wire
        self._finish = finish
        self._recalling = recalling
        self._ask = ask
        self._filter: AnswerFilter = recalling.form.make_filter()
        self._shown = wire.make_reader()
        self._first: Reply | None = None

    async def relay(self, answer: Arriving) -> None:
        await self._caller.start(answer.status, end_to_end(answer.headers))
        try:
            again = await self._round(answer)
            while again is not None:
                self._filter.start_next()
                async with self._ask(again) as more:
                    if not can_blend(more) or isinstance(more, Unanswered) or more.is_json:
                        raise ClientPayloadError("the provider did not go on with an answer")
                    again = await self._round(more)
            ending = self._filter.end()
            self._shown.feed(ending)
        finally:
            await self._finish(first_counted(self._shown.reply, self._first or Reply()))
        await self._caller.end(ending)

    async def _round(self, answer: Arriving) -> bytes | None:
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
        return await _next(self._recalling, reader.reply)


class _Whole:
    """An answer that is relayed when it is whole."""

    def __init__(self, caller: Caller, *, wire: Wire, finish: Finish, recalling: Recalling, ask: Ask) -> None:
        self._caller = caller
        self._wire = wire
        self._finish = finish
        self._recalling = recalling
        self._ask = ask

    async def relay(self, answer: Arriving) -> None:
        read = await _body(answer)
        replies = [self._wire.read_reply(read)]
        answers = [_object(read)]
        again = await _next(self._recalling, replies[0])
        while again is not None:
            async with self._ask(again) as more:
                if not can_blend(more) or isinstance(more, Unanswered):
                    await relay_reply(self._caller, more, wire=self._wire, finish=self._finish)
                    return
                body = await _body(more)
            replies.append(self._wire.read_reply(body))
            answers.append(_object(body))
            again = await _next(self._recalling, replies[-1])
        if len(answers) > 1 or self._recalling.form.find_calls(replies[0].items).calls:
            read = json.dumps(self._recalling.form.merge_answers(answers), ensure_ascii=False).encode("utf-8", "replace")
        await self._finish(first_counted(self._wire.read_reply(read), replies[0]))
        await self._caller.start(answer.status, end_to_end(answer.headers))
        await self._caller.end(read)


async def _next(recalling: Recalling, reply: Reply) -> bytes | None:
    """Return what the provider is to be asked next; where a store fails, the client gets the answer there is."""
    try:
        return await recalling.answered(reply)
    except ThreadkeepError as error:
        log.warning("what a model recalled could not be kept: %s", error.code)
        return None


async def _body(answer: Arriving) -> bytes:
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
