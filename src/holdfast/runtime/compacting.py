"""Running a compaction and committing its checkpoint: one at a time per thread, and only onto the path it was computed on."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass, replace

import msgspec

from holdfast.compaction import Outcome, ledger_of
from holdfast.compaction.comparison import compare
from holdfast.compaction.engine import Proposal, propose
from holdfast.compaction.strategies import asks_a_model, ladder
from holdfast.dialects import Dialect
from holdfast.errors import BadInput, CompactionRunning, CompactionStopped, OrdinalConflict, StaleCheckpoint
from holdfast.hooks import CompactionFacts, HookRun, run_hooks
from holdfast.runtime.backend import Backend
from holdfast.runtime.carrying import carried_ledger
from holdfast.runtime.drafting import draft_down
from holdfast.runtime.lease import held
from holdfast.runtime.looking_back import looked_back
from holdfast.runtime.measuring import model_before
from holdfast.runtime.orders import Order
from holdfast.runtime.reading import last_usage, live_path, load_history, load_tip
from holdfast.runtime.reports import CompactionReport
from holdfast.runtime.telemetry import CompactionAttempt, CompactionFigures, observed
from holdfast.runtime.voices import model_for, speaking
from holdfast.store import NewRecord, RecordKind
from holdfast.thread import Checkpoint, History, LivePath, Tip, encode_body
from holdfast.tokens import Calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a compaction looks at, all of it up to one ordinal: what arrives later stands after its cut."""

    path: LivePath
    history: History
    tip: Tip


async def compact_thread(
    backend: Backend, thread_id: str, *, dialect: Dialect, seed: bytes, order: Order | None = None
) -> CompactionReport:
    """Compact a thread now. Until its checkpoint is committed, an error or a cancellation leaves everything as it was.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        BadInput: A person asked for a strategy that needs a model, and there is none.
        NothingToCompact: Too little happened since the last checkpoint.
        CompactionRunning: Another worker is at it.
        CompactionStopped: A hook said so; after a PostCompact hook's the compaction is kept.
        StaleCheckpoint: The span left the live path while the draft was made.
    """
    order = order or Order()
    model = model_for(order, backend.policy)
    rungs = ladder(order.strategy or backend.policy.strategy, model=model is not None)
    if asks_a_model(rungs[0]) and model is None and order.trigger == "manual":
        raise BadInput(f"{rungs[0]!r} needs a model; name one (--model, compact_model), or take the strategy 'extractive'")
    name = model.name if model else None
    watched = CompactionAttempt(
        attempt_id=secrets.token_hex(8),
        thread_id=thread_id,
        trigger=order.trigger,
        phase=order.phase,
        strategy=rungs[0],
        model=name,
    )
    with observed(backend.policy.observer, watched) as watch:
        async with held(backend, f"compact:{thread_id}") as lease:
            if lease is None:
                raise CompactionRunning(thread_id)
            # A lease that is lost under it stops nothing: whoever commits first has compacted, and the other's base is stale.
            done = await _compact(backend, thread_id, rungs, dialect=dialect, seed=seed, order=order)
        watch.figures = _figures(done.report)
    # Outside the lease: the checkpoint is durable, and whatever a hook does takes nothing of it back.
    return await _told_afterwards(backend, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A compaction that was made or rehearsed, and what its hooks were told before."""

    report: CompactionReport
    facts: CompactionFacts


async def _compact(
    backend: Backend, thread_id: str, rungs: tuple[str, ...], *, dialect: Dialect, seed: bytes, order: Order
) -> _Done:
    policy = backend.policy
    seen = await _look(backend, thread_id, seed=seed)
    proposal = await _proposed(backend, thread_id, seen, dialect=dialect, order=order)
    facts = CompactionFacts(
        thread_id=thread_id,
        turn_id=str(seen.tip.turn),
        cwd=policy.cwd,
        trigger=order.trigger,
        reason=order.reason,
        phase=order.phase,
        strategy=rungs[0],
        tokens_before=proposal.tokens_before,
        model=await model_before(backend, seen.path) or "",
    )
    runs = () if order.dry_run else await _runs(backend, facts)
    outcome = await draft_down(
        proposal,
        rungs,
        speak=speaking(order, policy, limits=order.limits or backend.limits),
        clock=backend.clock,
        breaker=policy.breaker,
        timeout_s=policy.timeout_s,
    )
    usage = await last_usage(backend.store, seen.path, seen.history.checkpoint)
    untraced = proposal.brief.untraced
    drafted = _remembering(outcome.checkpoint, usage, untraced=untraced)
    checkpoint = msgspec.structs.replace(drafted, trigger=order.trigger, reason=order.reason)
    if order.dry_run:
        return _Done(report=_report(thread_id, seen.history, outcome, checkpoint=None, untraced=untraced, runs=()), facts=facts)
    record = _record(checkpoint, at_ms=backend.clock.now_ms(), turn=seen.tip.turn, tokens=outcome.tokens_after)
    ordinal = await _commit(backend, thread_id, seen.history, record, expected=seen.tip.next)
    return _Done(report=_report(thread_id, seen.history, outcome, checkpoint=ordinal, untraced=untraced, runs=runs), facts=facts)


async def _told_afterwards(backend: Backend, done: _Done) -> CompactionReport:
    """Return the report with what hooks made of a compaction that was committed."""
    report = done.report
    if report.checkpoint is None:
        return report
    after = done.facts.afterwards(
        strategy=report.strategy,
        fell_back_from=report.fell_back_from,
        tokens_after=report.tokens_after,
        checkpoint=report.checkpoint,
    )
    return replace(report, hooks=(*report.hooks, *await _runs(backend, after)))


async def _look(backend: Backend, thread_id: str, *, seed: bytes) -> _Seen:
    end = (await backend.store.get(thread_id)).next
    path = await live_path(backend.store, thread_id, stop=end)
    history = await load_history(backend.store, path)
    return _Seen(path=path, history=history, tip=await load_tip(backend.store, thread_id, seed=seed, stop=end))


async def _proposed(backend: Backend, thread_id: str, seen: _Seen, *, dialect: Dialect, order: Order) -> Proposal:
    ledger = await carried_ledger(backend, thread_id) if seen.history.checkpoint is None else None
    proposal = await asyncio.to_thread(
        propose,
        seen.history,
        thread_id=thread_id,
        dialect=dialect,
        tip=seen.tip,
        target=order.target,
        window_tokens=(order.limits or backend.limits).full,
        focus=order.focus,
        prompt=backend.policy.prompt,
        user_tokens=backend.policy.user_tokens,
        phase=order.phase,
        forced=order.forced,
        fit_tokens=order.fit_tokens,
        ledger=ledger,
    )
    return replace(proposal, brief=await looked_back(backend.store, proposal.brief, seen.history, tip=seen.tip))


async def _runs(backend: Backend, facts: CompactionFacts) -> tuple[HookRun, ...]:
    """Run the hooks of one occasion.

    Raises:
        CompactionStopped: One of them said so.
    """
    verdict = await run_hooks(backend.policy.hooks, facts, environ=backend.policy.environ)
    if not verdict.goes_on:
        raise CompactionStopped(facts.thread_id, event=str(facts.event), reason=verdict.stop_reason or "no reason given")
    return verdict.runs


def _figures(report: CompactionReport) -> CompactionFigures:
    asked = [attempt for attempt in report.attempts if attempt.calls]
    return CompactionFigures(
        strategy=report.strategy,
        fell_back_from=report.fell_back_from,
        tokens_before=report.tokens_before,
        tokens_after=report.tokens_after,
        checkpoint=report.checkpoint,
        model_calls=report.model_calls,
        input_tokens=sum(attempt.input_tokens for attempt in asked) if asked else None,
        output_tokens=sum(attempt.output_tokens for attempt in asked) if asked else None,
        cached_tokens=sum(attempt.cached_tokens for attempt in asked) if asked else None,
    )


def _remembering(checkpoint: Checkpoint, usage: Calibration | None, *, untraced: int) -> Checkpoint:
    """Return the checkpoint with what real usage taught so far, for the answers that taught it fall behind its cut, and with
    how many values were not looked for, if any."""
    learned = {"usage_estimated": usage.estimated, "usage_counted": usage.counted} if usage is not None else {}
    if untraced:
        learned["untraced"] = untraced
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


def _report(
    thread_id: str, history: History, outcome: Outcome, *, checkpoint: int | None, untraced: int, runs: tuple[HookRun, ...]
) -> CompactionReport:
    return CompactionReport(
        thread=thread_id,
        checkpoint=checkpoint,
        strategy=outcome.checkpoint.strategy,
        fell_back_from=outcome.checkpoint.fell_back_from,
        tokens_before=outcome.tokens_before,
        tokens_after=outcome.tokens_after,
        worth=outcome.worth,
        model_calls=outcome.checkpoint.figures["model_calls"],
        attempts=tuple(outcome.checkpoint.attempts),
        hooks=runs,
        over_target=outcome.over_target,
        untraced=untraced,
        audit=outcome.report,
        plan=outcome.plan,
        changes=compare(ledger_of(history), outcome.ledger),
    )
