"""Running a compaction and committing its checkpoint: one at a time per thread, and only onto the path it was computed on."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from holdfast.compaction import Outcome, compact, ledger_of
from holdfast.compaction.comparison import compare
from holdfast.dialects import Dialect
from holdfast.errors import CompactionRunning, OrdinalConflict, StaleCheckpoint
from holdfast.runtime.backend import Backend
from holdfast.runtime.reading import last_usage, live_path, load_history, load_tip
from holdfast.runtime.reports import CompactionReport
from holdfast.store import NewRecord, RecordKind
from holdfast.thread import Checkpoint, History, encode_body
from holdfast.tokens import Calibration

LEASE_MS = 120_000


async def compact_thread(
    backend: Backend,
    thread_id: str,
    *,
    dialect: Dialect,
    seed: bytes,
    strategy: str | None = None,
    target: str | None = None,
    focus: str | None = None,
    dry_run: bool = False,
) -> CompactionReport:
    """Compact a thread now. On any error its records and its window are what they were.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        NothingToCompact: Too little happened since the last checkpoint.
        CompactionRunning: Another worker is at it.
        StaleCheckpoint: The span left the live path while the draft was made.
    """
    async with _lease(backend, thread_id):
        # One end for everything that is read: what arrives from here on stands after the cut.
        end = (await backend.store.get(thread_id)).next
        path = await live_path(backend.store, thread_id, stop=end)
        history = await load_history(backend.store, path)
        tip = await load_tip(backend.store, thread_id, seed=seed, stop=end)
        outcome = await asyncio.to_thread(
            compact,
            history,
            thread_id=thread_id,
            dialect=dialect,
            tip=tip,
            strategy=strategy,
            target=target,
            window_tokens=backend.limits.full,
            focus=focus,
        )
        usage = await last_usage(backend.store, path, history.checkpoint)
        checkpoint = _remembering(outcome.checkpoint, usage)
        record = _record(checkpoint, at_ms=backend.clock.now_ms(), turn=tip.turn, tokens=outcome.tokens_after)
        ordinal = None if dry_run else await _commit(backend, thread_id, history, record, expected=tip.next)
    return _report(thread_id, history, outcome, checkpoint=ordinal)


def _remembering(checkpoint: Checkpoint, usage: Calibration | None) -> Checkpoint:
    """Return the checkpoint with what real usage taught so far: the answers that taught it fall behind its cut."""
    if usage is None:
        return checkpoint
    learned = {"usage_estimated": usage.estimated, "usage_counted": usage.counted}
    return msgspec.structs.replace(checkpoint, figures={**checkpoint.figures, **learned})


def _record(checkpoint: Checkpoint, *, at_ms: int, turn: int, tokens: int) -> NewRecord:
    return NewRecord(
        kind=RecordKind.CHECKPOINT,
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=encode_body(checkpoint),
        target=checkpoint.cut,
    )


async def _commit(backend: Backend, thread_id: str, history: History, record: NewRecord, *, expected: int) -> int:
    """Append the checkpoint. The tip may have moved meanwhile; what the compaction saw must still lie on the live path."""
    while True:
        try:
            return await backend.append(thread_id, [record], expected=expected) - 1
        except OrdinalConflict as conflict:
            expected = conflict.actual
        if not await _still_holds(backend, thread_id, history):
            raise StaleCheckpoint(thread_id)


async def _still_holds(backend: Backend, thread_id: str, history: History) -> bool:
    """Whether the checkpoint's base, and the newest record the compaction saw, are still on the live path.

    The path below a record never changes, so the newest one stands for everything before it.
    """
    checkpoint = (await live_path(backend.store, thread_id)).checkpoint
    path = await live_path(backend.store, thread_id, whole=True)
    base = checkpoint.ordinal if checkpoint else None
    seen = [entry.source for entry in history.entries if entry.source is not None]
    newest = max(seen, key=lambda source: source.ordinal, default=None)
    return base == history.checkpoint_ordinal and (newest is None or path.holds(newest.ordinal) == newest.thread_id)


@asynccontextmanager
async def _lease(backend: Backend, thread_id: str) -> AsyncIterator[None]:
    key = f"compact:{thread_id}"
    # Named per compaction: two of one process must exclude each other as two processes do.
    holder = f"{backend.holder}-{secrets.token_hex(4)}"
    if not await backend.store.acquire(key, holder=holder, now_ms=backend.clock.now_ms(), ttl_ms=LEASE_MS):
        raise CompactionRunning(thread_id)
    try:
        yield
    finally:
        await backend.store.release(key, holder=holder)


def _report(thread_id: str, history: History, outcome: Outcome, *, checkpoint: int | None) -> CompactionReport:
    return CompactionReport(
        thread=thread_id,
        checkpoint=checkpoint,
        strategy=outcome.checkpoint.strategy,
        fell_back_from=outcome.checkpoint.fell_back_from,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        model_calls=outcome.checkpoint.figures["model_calls"],
        over_target=outcome.over_target,
        audit=outcome.report,
        plan=outcome.plan,
        changes=compare(ledger_of(history), outcome.ledger),
    )
