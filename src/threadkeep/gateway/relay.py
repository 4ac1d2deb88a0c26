"""Relays a provider's answer to the client, byte for byte, and reads it on the way where someone wants to know."""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterator

from threadkeep.dialects import Reply, ReplyReader, Wire
from threadkeep.errors import ThreadkeepError
from threadkeep.gateway.caller import Caller
from threadkeep.gateway.exchange import Forward
from threadkeep.gateway.headers import end_to_end
from threadkeep.gateway.upstream import Arriving, Unanswered

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


async def relay(caller: Caller, answer: Arriving | Unanswered, *, wire: Wire) -> None:
    """Relay an answer nobody reads."""
    if isinstance(answer, Unanswered):
        await _tell(caller, answer, wire=wire)
        return
    await _start(caller, answer)
    async for chunk in answer.chunks():
        await caller.write(chunk)
    await caller.end()


async def relay_reply(caller: Caller, answer: Arriving | Unanswered, *, wire: Wire, finish: Finish) -> None:
    """Relay an answer and report it to `finish` before its last bytes go out.

    Raises:
        ClientError: The provider's stream broke; what came was relayed, and the answer must not be ended as if whole.
    """
    if isinstance(answer, Unanswered):
        await finish(Reply(outcome="failed"))
        await _tell(caller, answer, wire=wire)
    elif answer.status >= 400:
        await finish(Reply(outcome="failed"))
        await relay(caller, answer, wire=wire)
    elif answer.is_json:
        await _relay_json(caller, answer, wire=wire, finish=finish)
    else:
        await _relay_stream(caller, answer, reader=wire.make_reader(), finish=finish)


async def _relay_stream(caller: Caller, answer: Arriving, *, reader: ReplyReader, finish: Finish) -> None:
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


async def _relay_json(caller: Caller, answer: Arriving, *, wire: Wire, finish: Finish) -> None:
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


async def _start(caller: Caller, answer: Arriving) -> None:
    await caller.start(answer.status, end_to_end(answer.headers))


async def _tell(caller: Caller, unanswered: Unanswered, *, wire: Wire) -> None:
    await caller.answer(unanswered.status, wire.render_error(unanswered.status, unanswered.code, unanswered.message))
