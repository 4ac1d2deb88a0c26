"""Writes that run while a provider answers: the new items of a request, then its reply.

The items of a request are durable before its answer ends, not before the provider is asked. A request waits for its write only
where something is decided from the records: a command, a compaction, another window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect, Reply
from threadkeep.gateway.conversation.thread_cache import KnownThread, ThreadCache
from threadkeep.store import NewRecord, RecordKind
from threadkeep.threads import ReplyBody, encode_body
from threadkeep.tokens import Calibration

# The request goes out first: writing a long new history keeps the event loop busy for longer than sending it does.
DELAY_S = 0.02

Recorded = Callable[[], Awaitable[KnownThread]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingWrite:
    """The first and last known link of a history that is being written, and an event that ends the delay."""

    first: bytes
    link: bytes
    needed: asyncio.Event


class PendingWrites:
    """Writes of requests that are under way."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[KnownThread], _PendingWrite] = {}

    def start(self, record: Recorded, *, first: bytes, link: bytes) -> Recorded:
        """Write soon; the function returned waits for the write, and raises what it raised.

        `first` and `link` are the first and the last known link of the history: a request that goes on from there waits for this
        write (`wait_for`).
        """
        needed = asyncio.Event()

        async def recorded() -> KnownThread:
            with suppress(TimeoutError):
                async with asyncio.timeout(DELAY_S):
                    await needed.wait()
            return await record()

        task = asyncio.create_task(recorded())
        self._tasks[task] = _PendingWrite(first=first, link=link, needed=needed)
        task.add_done_callback(self._remove)

        async def known() -> KnownThread:
            needed.set()
            return await asyncio.shield(task)

        return known

    async def wait_for(self, chain: Sequence[bytes]) -> None:
        """Return once every pending history that begins this one is written: a client may go on before its answer has ended."""
        if not self._tasks:
            return
        known = set(chain)
        before = [task for task, write in self._tasks.items() if write.link in known]
        for task in before:
            self._tasks[task].needed.set()
        if before:
            await asyncio.wait(before)

    def is_pending(self, first: bytes) -> bool:
        """Whether a history that begins with this link is being written; the store does not have it yet."""
        return any(write.first == first for write in self._tasks.values())

    async def wait_idle(self) -> None:
        """Return once every pending write is durable, or has failed."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _remove(self, task: asyncio.Task[KnownThread]) -> None:
        self._tasks.pop(task, None)
        # Where nobody waits any more, because the client is gone, asyncio must not report the error as never retrieved.
        if not task.cancelled():
            task.exception()


def make_finished(known: KnownThread) -> Recorded:
    """Return a write that has ended."""

    async def same() -> KnownThread:
        return known

    return same


class ReplyRecorder:
    """Records a reply, after the request it answers and before the client has all of it.

    `tokens` is our estimate of the request. It is set anew where a smaller request was sent in the end, and is 0 where the
    provider reads only a part of the request, because its count then says nothing about the whole. `link` returns the digest
    under which a later request finds the reply. `window` returns
    the model's, if anybody told it by then. `on_recorded` is called with the reply once it is durable.
    """

    def __init__(
        self,
        backend: Backend,
        threads: ThreadCache,
        recorded: Recorded,
        *,
        dialect: Dialect,
        tokens: int,
        window: Callable[[], int | None],
        link: Callable[[Reply], bytes | None],
        on_recorded: Callable[[Reply], Awaitable[None]],
    ) -> None:
        self._backend = backend
        self._threads = threads
        self._recorded = recorded
        self._dialect = dialect
        self.tokens = tokens
        self._window = window
        self._link = link
        self._on_recorded = on_recorded

    async def __call__(self, reply: Reply) -> None:
        known = await self._recorded()
        if not reply.items and reply.input_tokens is None:
            return
        redact = self._backend.redact
        estimated = 0 if any(self._dialect.split_compaction(item).written is not None for item in reply.items) else self.tokens
        body = ReplyBody(
            items=[msgspec.Raw(redact(item.raw) if redact else item.raw) for item in reply.items],
            outcome=reply.outcome,
            estimated_tokens=estimated,
            input_tokens=reply.input_tokens,
            output_tokens=reply.output_tokens,
            cached_tokens=reply.cached_tokens,
            response_id=reply.response_id,
            window=self._window(),
        )
        link = self._link(reply)
        record = NewRecord(
            kind=RecordKind.REPLY,
            at_ms=self._backend.clock.now_ms(),
            turn=known.tip.turn,
            tokens=reply.output_tokens or 0,
            body=encode_body(body),
            chain=link,
            depth=None if link is None else known.tip.depth,
        )
        reached = await self._backend.append_beside(known.thread_id, record, expected=known.tip.next)
        usage = Calibration(estimated=estimated, counted=reply.input_tokens) if reply.input_tokens else None
        self._threads.extend(known.thread_id, reached=reached, usage=usage)
        await self._on_recorded(reply)
