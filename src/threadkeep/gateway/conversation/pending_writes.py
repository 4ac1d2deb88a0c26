"""Requests that are recorded while their providers are asked: the provider's time to answer is time to write.

What a request brings is durable before its answer ends, not before it is asked. Only where something must be decided from what
was written (a command, a compaction, another window) does the request wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.inline import parted
from threadkeep.dialects import Reply
from threadkeep.errors import OrdinalConflict
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.items import Item
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import ReplyBody, encode_body
from threadkeep.tokens import Calibration

# The request goes out first: laying down a history that nobody knows keeps the event loop busy for longer than sending it does.
HEAD_START_S = 0.02

Recorded = Callable[[], Awaitable[KnownThread]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingWrite:
    """One recording: its history's first and last known link, and what hurries it."""

    first: bytes
    link: bytes
    needed: asyncio.Event


class PendingWrites:
    """Recordings under way."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[KnownThread], _PendingWrite] = {}

    def begin(self, record: Recorded, *, first: bytes, link: bytes) -> Recorded:
        """Record soon; what is returned, when awaited, waits for it and raises what it raised.

        `first` and `link` are the first and the last known link of the history that is recorded: whoever brings one that goes on
        from there waits (`wait_for`).
        """
        needed = asyncio.Event()

        async def recorded() -> KnownThread:
            with suppress(TimeoutError):
                async with asyncio.timeout(HEAD_START_S):
                    await needed.wait()
            return await record()

        task = asyncio.create_task(recorded())
        self._tasks[task] = _PendingWrite(first=first, link=link, needed=needed)
        task.add_done_callback(self._ended)

        async def known() -> KnownThread:
            needed.set()
            return await asyncio.shield(task)

        return known

    async def wait_for(self, chain: Sequence[bytes]) -> None:
        """Return once every history under way that begins this one is recorded: a client may leave an answer and go on."""
        if not self._tasks:
            return
        known = set(chain)
        before = [task for task, recording in self._tasks.items() if recording.link in known]
        for task in before:
            self._tasks[task].needed.set()
        if before:
            await asyncio.wait(before)

    def is_pending(self, first: bytes) -> bool:
        """Whether a history that begins with this link is being recorded: the store does not tell of it yet."""
        return any(recording.first == first for recording in self._tasks.values())

    async def settled(self) -> None:
        """Return once everything that was begun is durable, or has failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _ended(self, task: asyncio.Task[KnownThread]) -> None:
        self._tasks.pop(task, None)
        # Whoever waits for it is told; a client that is gone has nobody who does.
        if not task.cancelled():
            task.exception()


def make_finished(known: KnownThread) -> Recorded:
    """Return a recording that is over."""

    async def same() -> KnownThread:
        return known

    return same


class ReplyRecorder:
    """Writes down what the provider answered, before the client has all of it, and after what it was asked.

    `tokens` is our estimate of what was asked; it may be set anew where something else was asked in the end, and is 0 where the
    provider reads only a part of it, for then what it counts says nothing about the whole. `cited` is told of the answer once it
    is written.
    """

    def __init__(
        self, backend: Backend, memory: ThreadCache, recorded: Recorded, *, tokens: int, cited: Callable[[Reply], Awaitable[None]]
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
        self._memory.extend(known.thread_id, expected=expected, reached=reached, usage=usage)
        await self._cited(reply)


def _holds_compaction(item: Item) -> bool:
    return parted(item).written is not None
