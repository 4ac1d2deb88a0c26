"""A thread's records as they are appended, as a stream of events: kinds, ordinals and figures, never what was said."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from msgspec import MsgspecError
from msgspec.json import encode

from holdfast.store import Record, RecordKind, Span, ThreadStore
from holdfast.thread import Checkpoint, ReplyBody, decode_body

# Other processes write to the same store, so that looking is the only way to learn of every record.
LOOK_SECONDS = 0.25
# A stream without a byte for long is taken for dead, by proxies and by whoever holds its other end.
ALIVE_SECONDS = 15.0
PAGE = 500
WITH_FIGURES = frozenset({RecordKind.REPLY, RecordKind.CHECKPOINT})

OPENING = b"retry: 1000\n\n"
ALIVE = b": alive\n\n"


async def follow(store: ThreadStore, thread_id: str, *, after: int | None, stopping: asyncio.Event) -> AsyncIterator[bytes]:
    """Yield an event for every record after ordinal `after` (None: from now on), and go on until `stopping` is set.

    Raises:
        ThreadNotFound: There is no such thread; raised before the first bytes.
    """
    row = await store.get(thread_id)
    cursor = row.next if after is None else max(row.start, after + 1)
    yield OPENING
    quiet = 0.0
    while not stopping.is_set():
        upto = (await store.get(thread_id)).next
        while cursor < upto:
            page = await _page(store, Span(thread_id=thread_id, start=cursor, stop=min(upto, cursor + PAGE)))
            yield b"".join(map(_event, page))
            cursor = min(upto, cursor + PAGE)
            quiet = 0.0
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await stopping.wait()
        except TimeoutError:
            quiet += LOOK_SECONDS
        if quiet >= ALIVE_SECONDS:
            yield ALIVE
            quiet = 0.0


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
            return {"outcome": reply.outcome, **{f"{name}_tokens": count for name, count in counted.items() if count is not None}}
        checkpoint = decode_body(record.body, Checkpoint)
    except (MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    made = {"strategy": checkpoint.strategy, "fell_back_from": checkpoint.fell_back_from, "trigger": checkpoint.trigger}
    return {**checkpoint.figures, **made}
