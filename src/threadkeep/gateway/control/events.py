"""Streams the records of a thread as they are appended: kinds, ordinals and figures, never their content."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

from msgspec import MsgspecError
from msgspec.json import encode

from threadkeep.store import Notify, Record, RecordKind, Span, ThreadStore, Watch
from threadkeep.threads import Checkpoint, ReplyBody, decode_body

# A store notifies at once of mail and checkpoints; other records of other processes are found by polling.
LOOK_SECONDS = 0.25
# Proxies and clients take a stream that is silent for long for dead.
ALIVE_SECONDS = 15.0
PAGE = 500
WITH_FIGURES = frozenset({RecordKind.REPLY, RecordKind.CHECKPOINT})

OPENING = b"retry: 1000\n\n"
ALIVE = b": alive\n\n"


class NotifyingStore(ThreadStore, Notify, Protocol):
    """A store that notifies of new records."""


async def follow(store: NotifyingStore, thread_id: str, *, after: int | None, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event for every record after ordinal `after` (None: from now on), and go on until `stopping` is set.

    Raises:
        ThreadNotFound: There is no such thread; raised before the first bytes.
    """
    row = await store.get(thread_id)
    cursor = row.next if after is None else max(row.start, after + 1)
    yield OPENING
    silence = Silence()
    async with store.watch(thread_id) as watch:
        while not stopping.is_set():
            upto = (await store.get(thread_id)).next
            while cursor < upto:
                page = await _page(store, Span(thread_id=thread_id, start=cursor, stop=min(upto, cursor + PAGE)))
                yield b"".join(map(_event, page))
                cursor = min(upto, cursor + PAGE)
                silence.broken()
            await wait_for_change(watch, stopping, within_s=LOOK_SECONDS)
            if silence.is_long():
                yield ALIVE


class Silence:
    """How long nothing was sent on a stream."""

    def __init__(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def broken(self) -> None:
        self._since = asyncio.get_running_loop().time()

    def is_long(self) -> bool:
        """Whether a sign of life is due; if so, the silence starts again."""
        long = asyncio.get_running_loop().time() - self._since >= ALIVE_SECONDS
        if long:
            self.broken()
        return long


async def wait_for_change(watch: Watch, stopping: asyncio.Event, *, within_s: float) -> None:
    """Return at a change, at a stop, or after `within_s` seconds."""
    told, stop = asyncio.create_task(watch.wait(within_s=within_s)), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait((told, stop), return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        stop.cancel()
        await asyncio.wait((told, stop))


async def _page(store: ThreadStore, span: Span) -> list[Record]:
    """Return the records of a span, with the bodies of those that hold figures and of no other."""
    records = await store.read(span, bodies=False)
    full = {record.ordinal: record for record in await store.read(span, kinds=WITH_FIGURES)}
    return [full.get(record.ordinal, record) for record in records]


def _event(record: Record) -> bytes:
    told = {
        "thread": record.thread_id,
        "ordinal": record.ordinal,
        "kind": record.kind.value,
        "at_ms": record.at_ms,
        "turn": record.turn,
        "tokens": record.tokens,
        "figures": _figures(record),
    }
    # JSON as it is written here holds no line break, so one data line carries it.
    return f"id: {record.ordinal}\nevent: {record.kind.value}\ndata: ".encode() + encode(told) + b"\n\n"


def _figures(record: Record) -> dict[str, object]:
    if not record.body:
        return {}
    try:
        if record.kind is RecordKind.REPLY:
            reply = decode_body(record.body, ReplyBody)
            counted = {"input": reply.input_tokens, "output": reply.output_tokens, "cached": reply.cached_tokens}
            told = {f"{name}_tokens": count for name, count in counted.items() if count is not None}
            return {"outcome": reply.outcome, **told, **({"attempts": reply.attempts} if reply.attempts else {})}
        checkpoint = decode_body(record.body, Checkpoint)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    made = {"strategy": checkpoint.strategy, "fell_back_from": checkpoint.fell_back_from, "trigger": checkpoint.trigger}
    return {**checkpoint.figures, **made}
