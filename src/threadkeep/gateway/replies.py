"""What a provider answered, written down beside the history."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.inline import parted
from threadkeep.dialects import Reply
from threadkeep.errors import OrdinalConflict
from threadkeep.gateway.known import Memory
from threadkeep.gateway.recordings import Recorded
from threadkeep.items import Item
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import ReplyBody, encode_body
from threadkeep.tokens import Calibration


class ReplyRecorder:
    """Writes down what the provider answered, before the client has all of it, and after what it was asked.

    `tokens` is our estimate of what was asked; it may be set anew where something else was asked in the end, and is 0 where the
    provider reads only a part of it, for then what it counts says nothing about the whole. `cited` is told of the answer once it
    is written.
    """

    def __init__(
        self, backend: Backend, memory: Memory, recorded: Recorded, *, tokens: int, cited: Callable[[Reply], Awaitable[None]]
    ) -> None:
        self._backend = backend
        self._memory = memory
        self._recorded = recorded
        self.tokens = tokens
        self._cited = cited

    async def __call__(self, reply: Reply) -> None:
        known = await self._recorded()
        if not reply.items and reply.input_tokens is None:
            return
        redact = self._backend.redact
        estimated = 0 if any(_holds_compaction(item) for item in reply.items) else self.tokens
        body = ReplyBody(
            items=[msgspec.Raw(redact(item.raw) if redact else item.raw) for item in reply.items],
            outcome=reply.outcome,
            estimated_tokens=estimated,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
            response_id=reply.response_id,
        )
        record = NewRecord(
            kind=RecordKind.REPLY,
            at_ms=self._backend.clock.now_ms(),
            turn=known.tip.turn,
            tokens=reply.output_tokens or 0,
            body=encode_body(body),
        )
        expected = known.tip.next
        while True:
            try:
                reached = await self._backend.append(known.thread_id, [record], expected=expected)
            except OrdinalConflict as moved:
                expected = moved.actual
            else:
                break
        usage = Calibration(estimated=estimated, counted=reply.input_tokens) if reply.input_tokens else None
        self._memory.grown(known.thread_id, expected=expected, reached=reached, usage=usage)
        await self._cited(reply)


def _holds_compaction(item: Item) -> bool:
    return parted(item).written is not None
