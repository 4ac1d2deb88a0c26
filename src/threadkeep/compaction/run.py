"""Runs a compaction: lease, hooks, plan, the ladder of strategies, commit."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace

import msgspec

from threadkeep.compaction import Outcome, ledger_of, remote
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.commit import Basis, adopted, commit, look
from threadkeep.compaction.comparison import compare
from threadkeep.compaction.engine import Proposal, propose
from threadkeep.compaction.facts import Observed
from threadkeep.compaction.failed_attempts import write_down_in_vain
from threadkeep.compaction.fallback import Tries, draft_down
from threadkeep.compaction.order import Order
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.strategies import asks_a_model, ladder
from threadkeep.compaction.summariser import model_for, voice_for
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionFigures, observed, spent_on
from threadkeep.compaction.worth import CACHED_PRICE, check_worth_now
from threadkeep.dialects import Dialect
from threadkeep.errors import BadInput, BrokenWindow, CompactionRunning, CompactionStopped, NothingToCompact, StaleCheckpoint
from threadkeep.hooks import CompactionFacts, HookEvent, HookRun, run_hooks
from threadkeep.items import Item
from threadkeep.llm import Model
from threadkeep.store import NewRecord, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, History, Pointer, encode_body
from threadkeep.threads.agents import AgentIdentity, load_agent_identity
from threadkeep.threads.lease import hold_lease
from threadkeep.threads.pressure import find_last_model
from threadkeep.threads.reader import find_last_usage, load_live_path
from threadkeep.tokens import Calibration


async def read_unread(
    store: ThreadStore, thread_id: str, history: History, *, dialect: Dialect, upto: int, stop: int
) -> tuple[Observed, ...]:
    """Return the items behind a window's checkpoint from `upto` on, oldest first; nothing where its journal holds them all."""
    if history.checkpoint is None or upto >= history.checkpoint.cut:
        return ()
    shown = {entry.source for entry in history.entries}
    path = await load_live_path(store, thread_id, stop=stop, whole=True)
    found: list[Observed] = []
    for span in reversed(path.spans):
        clipped = Span(thread_id=span.thread_id, start=max(span.start, upto), stop=min(span.stop, history.checkpoint.cut))
        for record in await store.read(clipped, kinds={RecordKind.ITEM}) if clipped.start < clipped.stop else ():
            source = Pointer(record.thread_id, record.ordinal)
            if source not in shown and not record.erased:
                item = Item(record.body)
                found.append(Observed(view=dialect.view(item), source=source, item=item))
    return tuple(found)


async def compact_thread(
    backend: Backend, thread_id: str, *, dialect: Dialect, seed: bytes, order: Order | None = None
) -> CompactionReport:
    """Compact a thread now. Until its checkpoint is committed, an error or a cancellation leaves everything as it was.

    A cancellation that comes while the checkpoint is being written takes effect once it is, and hooks and observer were told.
    Where a model was asked and no checkpoint came of it, the error's `attempts` say what that cost, and so does a record beside
    the history, which no window is made of. What a cancelled compaction cost is told to the observer alone: it leaves no record.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        BadInput: A person asked for a strategy that needs a model, and there is none.
        NothingToCompact: Too little happened since the last checkpoint.
        CompactionRunning: Another worker is at it.
        CompactionStopped: A hook said so; after a PostCompact hook's the compaction is kept.
        StaleCheckpoint: The span left the live path while the draft was made, or something of it was erased.
    """
    order = order or Order()
    model = model_for(order, backend.policy)
    rungs = rungs_for(order, backend)
    watched = CompactionAttempt(
        attempt_id=secrets.token_hex(8),
        thread_id=thread_id,
        trigger=order.trigger,
        phase=order.phase,
        strategy=rungs[0],
        model=model.name if model else None,
    )
    run = _Run()
    made = asyncio.create_task(_made(backend, watched, rungs, dialect=dialect, seed=seed, order=order, run=run))
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        # What may have been written is told to everybody before the caller goes; who is cancelled once more goes at once.
        if not run.is_committing:
            made.cancel()
        await asyncio.wait({made})
        raise


def rungs_for(order: Order, backend: Backend) -> tuple[str, ...]:
    """Return the strategies that an order tries, one after the other.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        BadInput: A person asked for a strategy that needs a model, and there is none.
    """
    model = model_for(order, backend.policy)
    wanted = remote.NAME if order.adopting else order.strategy or backend.policy.strategy
    rungs = ladder(wanted, model=model is not None)
    if asks_a_model(rungs[0]) and model is None and order.trigger == "manual":
        raise BadInput(f"{rungs[0]!r} needs a model; name one (--model, compact_model), or take the strategy 'extractive'")
    return rungs


@dataclass(slots=True)
class _Run:
    """How far a compaction has come: whether its checkpoint is being written."""

    is_committing: bool = False


async def _made(
    backend: Backend,
    watched: CompactionAttempt,
    rungs: tuple[str, ...],
    *,
    dialect: Dialect,
    seed: bytes,
    order: Order,
    run: _Run,
) -> CompactionReport:
    """Compact under the lease, with the observer told how it ended, and the hooks if there is a checkpoint."""
    thread_id = watched.thread_id
    with observed(backend.policy.observer, watched) as watch:
        async with hold_lease(backend, f"compact:{thread_id}") if not order.dry_run else nullcontext() as lease:
            if lease is None and not order.dry_run:
                raise CompactionRunning(thread_id)
            tried = Tries(heard=watch.tried)
            # A lease that is lost under it stops nothing: whoever commits first has compacted, and the other's base is stale.
            try:
                done = await _compact(backend, thread_id, rungs, dialect=dialect, seed=seed, order=order, run=run, tried=tried)
            except (StaleCheckpoint, NothingToCompact, BrokenWindow) as error:
                error.attempts = tuple(tried.attempts)
                if not order.dry_run:
                    await write_down_in_vain(backend, thread_id, tried.attempts, outcome=error.code)
                raise
            finally:
                watch.spent = spent_on(tried.attempts)
        watch.figures = _figures(done.report)
    # Outside the lease: the checkpoint is durable, and whatever a hook does takes nothing of it back.
    return await _told_afterwards(backend, done)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    """A compaction that was made or rehearsed, and what its hooks were told before."""

    report: CompactionReport
    facts: CompactionFacts


async def _compact(
    backend: Backend,
    thread_id: str,
    rungs: tuple[str, ...],
    *,
    dialect: Dialect,
    seed: bytes,
    order: Order,
    run: _Run,
    tried: Tries,
) -> _Done:
    policy = backend.policy
    basis = await look(backend, thread_id, seed=seed)
    proposal = await _proposed(backend, basis, dialect=dialect, order=order)
    if order.room_tokens is not None:
        # Before anybody is asked: a draft that was paid for is not dropped for its price.
        await asyncio.to_thread(
            check_worth_now,
            proposal.brief,
            quoted_tokens=proposal.quoted_tokens,
            room_tokens=order.room_tokens,
            draft_price=_draft_price(order, rungs, model=model_for(order, policy)),
        )
    facts = await _facts(backend, basis, proposal, order=order, strategy=rungs[0])
    runs = () if order.dry_run else await _runs(backend, facts)
    if order.adopting:
        outcome = await adopted(backend, basis, proposal, order, tried)
    else:
        outcome = await draft_down(
            proposal,
            rungs,
            tried=tried,
            speak=await voice_for(order, backend, basis.history, thread_id=thread_id, dialect=dialect),
            clock=backend.clock,
            breaker=policy.breaker.rehearsal() if order.dry_run else policy.breaker,
            timeout_s=policy.timeout_s,
            deadline=order.deadline,
        )
    usage = await find_last_usage(backend.store, basis.path, basis.history.checkpoint)
    drafted = _remembering(outcome.checkpoint, usage)
    starts = policy.hooks.has_any(HookEvent.SESSION_START)
    checkpoint = msgspec.structs.replace(drafted, trigger=order.trigger, reason=order.reason, start_due=starts)
    if order.dry_run:
        return _Done(report=_report(thread_id, basis.history, outcome, checkpoint=None, runs=()), facts=facts)
    record = _record(checkpoint, at_ms=backend.clock.now_ms(), turn=basis.tip.turn, tokens=outcome.tokens_after)
    run.is_committing = True
    ordinal = await commit(backend, record, basis=basis)
    return _Done(report=_report(thread_id, basis.history, outcome, checkpoint=ordinal, runs=runs), facts=facts)


def _draft_price(order: Order, rungs: tuple[str, ...], *, model: Model | None) -> float:
    """Return what a token of the window costs a draft to read: the thread's own model finds it in its cache."""
    if model is None or not asks_a_model(rungs[0]):
        return 0.0
    return CACHED_PRICE if model is order.model and order.own is not None else 1.0


async def _facts(backend: Backend, basis: Basis, proposal: Proposal, *, order: Order, strategy: str) -> CompactionFacts:
    """Return what hooks are told before a compaction."""
    whose = await load_agent_identity(backend.store, basis.thread_id) if backend.policy.hooks.groups else AgentIdentity()
    return CompactionFacts(
        thread_id=basis.thread_id,
        turn_id=str(basis.tip.turn),
        cwd=backend.policy.cwd,
        trigger=order.trigger,
        reason=order.reason,
        phase=order.phase,
        strategy=strategy,
        tokens_before=proposal.tokens_before,
        model=await find_last_model(backend, basis.path) or "",
        session_id=whose.session_id,
        agent_id=whose.agent_id,
        agent_type=whose.agent_type,
    )


async def _told_afterwards(backend: Backend, done: _Done) -> CompactionReport:
    """Return the report with what hooks made of a compaction that was committed."""
    report = done.report
    if report.checkpoint is None:
        return report
    after = done.facts.complete(
        strategy=report.strategy,
        fell_back_from=report.fell_back_from,
        tokens_after=report.tokens_after,
        checkpoint=report.checkpoint,
    )
    return replace(report, hooks=(*report.hooks, *await _runs(backend, after)))


async def _proposed(backend: Backend, basis: Basis, *, dialect: Dialect, order: Order) -> Proposal:
    upto = ledger_of(basis.history, carried=basis.carried).journal.upto
    unread = await read_unread(backend.store, basis.thread_id, basis.history, dialect=dialect, upto=upto, stop=basis.tip.next)
    return await asyncio.to_thread(
        propose,
        basis.history,
        thread_id=basis.thread_id,
        dialect=dialect,
        tip=basis.tip,
        target=order.target,
        window_tokens=(order.limits or backend.limits).full,
        focus=order.focus,
        prompt=backend.policy.prompt,
        user_tokens=backend.policy.user_tokens,
        state_budget=backend.policy.state_budget,
        phase=order.phase,
        forced=order.forced,
        fit_tokens=order.fit_tokens,
        ledger=basis.carried,
        unread=unread,
        adopting=order.adopting,
    )


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
    return CompactionFigures(
        strategy=report.strategy,
        fell_back_from=report.fell_back_from,
        tokens_before=report.tokens_before,
        tokens_after=report.tokens_after,
        checkpoint=report.checkpoint,
        **asdict(spent_on(report.attempts)),
    )


def _remembering(checkpoint: Checkpoint, usage: Calibration | None) -> Checkpoint:
    """Return the checkpoint with what real usage taught so far, for the answers that taught it fall behind its cut."""
    learned = {"usage_estimated": usage.estimated, "usage_counted": usage.counted} if usage is not None else {}
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


def _report(
    thread_id: str, history: History, outcome: Outcome, *, checkpoint: int | None, runs: tuple[HookRun, ...]
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
        audit=outcome.report,
        plan=outcome.plan,
        changes=compare(ledger_of(history), outcome.ledger),
    )
