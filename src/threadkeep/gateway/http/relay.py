"""Relays a provider's answer to the client, byte for byte, and reads the reply in it on the way."""

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
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.conversation.proxy_interface import Forward
from threadkeep.gateway.conversation.recall_tool import NAME, RecallSession, keep_first_counts
from threadkeep.gateway.http.compression import parse_codings
from threadkeep.gateway.http.exchange import Caller
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
        await _send_failure(caller, answer, wire=wire)
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
        await _send_failure(caller, answer, wire=wire)
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


async def _send_failure(caller: Caller, failure: UpstreamFailure, *, wire: Wire) -> None:
    await caller.answer(failure.status, wire.render_error(failure.status, failure.code, failure.message))


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
    """Relay an answer; where it calls the recall tool, ask the provider again with the result and go on with its next answer.

    Raises:
        ClientError: An answer broke off, or could not be had, after the client was given a part of it.
    """
    relay_form = _relay_json_without_tool if answer.is_json else _relay_stream_without_tool
    await relay_form(caller, answer, wire=wire, finish=finish, recall=recall, ask=ask)


async def _relay_stream_without_tool(
    caller: Caller, answer: UpstreamAnswer, *, wire: Wire, finish: Finish, recall: RecallSession, ask: Ask
) -> None:
    """Relay a stream as it comes, but for the calls of the tool; the end of each answer is held back."""
    tool_filter, shown, replies = wire.make_filter(NAME), wire.make_reader(), [Reply()]

    async def relay_round(answer: UpstreamAnswer) -> bytes | None:
        reader = wire.make_reader()
        async for chunk in answer.chunks():
            reader.feed(chunk)
            # An empty chunk would tell the filter that the stream has ended.
            if chunk and (visible := tool_filter.feed(chunk)):
                shown.feed(visible)
                await caller.write(visible)
        if visible := tool_filter.feed(b""):
            await caller.write(visible)
        replies.append(reader.reply)
        return await _find_next_request(recall, reader.reply)

    await _start(caller, answer)
    try:
        again = await relay_round(answer)
        while again is not None:
            tool_filter.start_next()
            async with ask(again) as more:
                if not is_blendable(more) or isinstance(more, UpstreamFailure) or more.is_json:
                    raise ClientPayloadError("the provider did not go on with an answer")
                again = await relay_round(more)
        ending = tool_filter.end()
        shown.feed(ending)
    finally:
        await finish(keep_first_counts(shown.reply, replies[min(1, len(replies) - 1)]))
    await caller.end(ending)


async def _relay_json_without_tool(
    caller: Caller, answer: UpstreamAnswer, *, wire: Wire, finish: Finish, recall: RecallSession, ask: Ask
) -> None:
    """Relay an answer once it is whole, made of as many of the provider's as it took."""
    body = await _read_body(answer)
    bodies, first_reply = [body], wire.read_reply(body)
    again = await _find_next_request(recall, first_reply)
    while again is not None:
        async with ask(again) as more:
            if not is_blendable(more) or isinstance(more, UpstreamFailure):
                await relay_reply(caller, more, wire=wire, finish=finish)
                return
            bodies.append(await _read_body(more))
        again = await _find_next_request(recall, wire.read_reply(bodies[-1]))
    if len(bodies) > 1 or recall.tool.find_calls(first_reply.items).calls:
        merged = wire.merge_answers([_read_object(each) for each in bodies], name=NAME)
        body = json.dumps(merged, ensure_ascii=False).encode("utf-8", "replace")
    await finish(keep_first_counts(wire.read_reply(body), first_reply))
    await _start(caller, answer)
    await caller.end(body)


async def _find_next_request(recall: RecallSession, reply: Reply) -> bytes | None:
    """Return the provider's next request; None where the answer is the client's, or the store failed."""
    try:
        return await recall.handle_reply(reply)
    except ThreadkeepError as error:
        log.warning("what a model recalled could not be kept: %s", error.code)
        return None


async def _read_body(answer: UpstreamAnswer) -> bytes:
    body = bytearray()
    async for chunk in answer.chunks():
        body += chunk
        if len(body) > READABLE_BYTES:
            raise ClientPayloadError("the provider's answer is longer than can be read")
    return bytes(body)


def _read_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
