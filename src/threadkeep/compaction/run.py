"""Runs a compaction: lease, hooks, plan, strategies with fallbacks, commit. Records failed attempts beside the history.

The commit is one append. It happens only if the replaced span is still on the live path and nothing in it was erased.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction import Ledger, Outcome, read_ledger
from threadkeep.compaction.backend import ADOPTED, Backend, Order
from threadkeep.compaction.carried_state import load_carried_memory
from threadkeep.compaction.early_compaction import CACHED_PRICE, check_worth_now
from threadkeep.compaction.engine import Proposal, propose
from threadkeep.compaction.facts.facts import ObservedItem
from threadkeep.compaction.fallback import DraftRules, conclude_without_model, draft_with_fallbacks
from threadkeep.compaction.report import CompactionReport, compare
from threadkeep.compaction.strategies import REMOTE, find_strategy
from threadkeep.compaction.strategies.remote import find_adopted
from threadkeep.compaction.strategies.strategy import Goal, Strategy
from threadkeep.compaction.summariser import choose_model, make_summariser
from threadkeep.compaction.telemetry import CompactionAttempt, Watch, classify_failure, get_error_type, observe
from threadkeep.dialects import Dialect
from threadkeep.errors import (
    BrokenWindow,
    CompactionRunning,
    CompactionStopped,
    InvalidArgument,
    NotFound,
    NothingToCompact,
    OrdinalConflict,
    StaleCheckpoint,
    StoreError,
    ThreadkeepError,
)
from threadkeep.hooks import CompactionFacts, HookEvent, HookRun, run_hooks
from threadkeep.items import Item, digest_body
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadStore
from threadkeep.threads import (
    BY_CLIENT,
    Attempt,
    Checkpoint,
    EntryKind,
    History,
    LivePath,
    Pointer,
    ReplyBody,
    Tip,
    encode_body,
    is_failed_attempt,
    read_failed_attempts,
    sum_attempts,
)
from threadkeep.threads.agents import AgentIdentity, load_agent_identity
from threadkeep.threads.erasure_notes import read_erasure_note
from threadkeep.threads.lease import hold_lease
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.pressure import find_last_model
from threadkeep.threads.reader import find_last_usage, load_history, load_live_path, load_records, load_tip, read_body
from threadkeep.threads.records import FailedCompaction
from threadkeep.threads.sealed_items import Recipient, find_account, find_foreign_seals
from threadkeep.threads.writer import append_beside
from threadkeep.tokens import Calibration

# How many replies of each span are searched: a thread may hold one for each turn.
REPLIES_LOOKED_AT = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedAttempts:
    """A compaction that made no checkpoint."""

    record: Record
    tried: ReplyBody


async def record_failed_attempt(backend: Backend, watch: Watch, error: BaseException) -> None:
    """Record an attempt that began and ended with `error`. Durable when it returns.

    A store error is ignored: the caller raises an error that carries the same attempts.
    """
    attempt, calls = watch.attempt, sum_attempts(watch.trials).calls
    if attempt.tokens_before is None or (isinstance(error, NothingToCompact) and not calls):
        return
    failed = FailedCompaction(
        status=classify_failure(error),
        # The text of any other error may quote the transcript.
        error=str(error) if isinstance(error, ThreadkeepError) else type(error).__name__,
        trigger=attempt.trigger,
        phase=attempt.phase,
        reason=attempt.reason,
        strategy=attempt.strategy,
        tokens_before=attempt.tokens_before,
        tokens_after=attempt.tokens_before,
        duration_ms=watch.duration_ms,
        model=attempt.model,
    )
    outcome = get_error_type(error)
    body = ReplyBody(items=[], outcome=outcome, estimated_tokens=0, attempts=watch.trials, compaction=failed)
    await _append_attempts(backend, attempt.thread_id, body)


async def record_client_compaction(backend: Backend, thread_id: str, made: Attempt) -> None:
    """Record a compaction that a thread's client made itself. Durable when it returns; a store error is ignored."""
    await _append_attempts(backend, thread_id, ReplyBody(items=[], outcome=BY_CLIENT, estimated_tokens=0, attempts=[made]))


async def _append_attempts(backend: Backend, thread_id: str, body: ReplyBody) -> None:
    with suppress(StoreError, NotFound):
        checkpoint = (await load_live_path(backend.store, thread_id)).checkpoint
        target = checkpoint.ordinal if checkpoint else 0
        await append_beside(backend, thread_id, RecordKind.REPLY, encode_body(body), target=target)


async def find_newest_failed_attempts(store: ThreadStore, path: LivePath, *, most: int) -> list[FailedAttempts]:
    """Return the newest failed compactions of a path, newest first. Reads no body of other replies."""
    found: list[FailedAttempts] = []
    for span in path.spans:
        replies = await store.read(span, kinds={RecordKind.REPLY}, newest_first=True, limit=REPLIES_LOOKED_AT, bodies=False)
        ordinals = {record.ordinal for record in [each for each in replies if is_failed_attempt(each)][: most - len(found)]}
        for record in await store.read(span, ordinals=ordinals, newest_first=True) if ordinals else ():
            tried = read_failed_attempts(record)
            if tried is not None:
                found.append(FailedAttempts(record=record, tried=tried))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """The input of a compaction, up to one ordinal. Later items stand after the cut.

    Attributes:
        carried: The ledger from before the client rewrote its history; None if there is a checkpoint since, or it did not.
        carried_from: The records that `carried` cites, without those already erased.
    """

    thread_id: str
    path: LivePath
    history: History
    tip: Tip
    carried: Ledger | None = None
    carried_from: frozenset[Pointer] = frozenset()


async def load_basis(backend: Backend, thread_id: str, *, seed: bytes) -> Basis:
    """Return the input of a compaction of the thread as it is now; `seed` is the first link of the chain."""
    store = backend.store
    end = (await store.get(thread_id)).next
    path = await load_live_path(store, thread_id, stop=end)
    history = await load_history(store, path)
    carried = await load_carried_memory(backend, path) if history.checkpoint is None else None
    sources = _collect_sources(carried) if carried is not None else frozenset()
    return Basis(
        thread_id=thread_id,
        path=path,
        history=history,
        tip=await load_tip(store, thread_id, seed=seed, stop=end),
        carried=carried,
        carried_from=sources - (await _find_erased(store, sources)).keys(),
    )


async def commit(backend: Backend, record: NewRecord, *, basis: Basis) -> int:
    """Append a checkpoint and return its ordinal. The tip may have moved; the input must be unchanged.

    Raises:
        StaleCheckpoint: The span left the live path, or part of it was erased.
    """
    expected = basis.tip.next
    while True:
        # Checked each time: erasing a record that another thread shares writes no note in this one.
        if await _has_erased_records(backend.store, basis):
            raise StaleCheckpoint(basis.thread_id)
        try:
            return await backend.append(basis.thread_id, [record], expected=expected) - 1
        except OrdinalConflict as conflict:
            expected = conflict.actual
        if not await _is_on_path(backend.store, basis) or await _is_overtaken(backend.store, basis, stop=expected):
            raise StaleCheckpoint(basis.thread_id)


async def _is_on_path(store: ThreadStore, basis: Basis) -> bool:
    """Whether the base checkpoint and the newest record of the input are still on the live path.

    The path below a record never changes, so the newest one stands for everything before it.
    """
    history = basis.history
    checkpoint = (await load_live_path(store, basis.thread_id)).checkpoint
    path = await load_live_path(store, basis.thread_id, whole=True)
    base = checkpoint.ordinal if checkpoint else None
    seen = [entry.source for entry in history.entries if entry.source is not None]
    newest = max(seen, key=lambda source: source.ordinal, default=None)
    return base == history.checkpoint_ordinal and (newest is None or path.find_thread(newest.ordinal) == newest.thread_id)


async def _is_overtaken(store: ThreadStore, basis: Basis, *, stop: int) -> bool:
    """Whether an erasure began since the input was read, or the client rewrote its history.

    The note of an erasure is written first, and its plan omits this checkpoint.
    """
    since = Span(thread_id=basis.thread_id, start=basis.tip.next, stop=stop)
    written = await store.read(since, kinds={RecordKind.NOTE, RecordKind.META})
    return any(is_rewrite_mark(record) or read_erasure_note(record.body) is not None for record in written)


async def _has_erased_records(store: ThreadStore, basis: Basis) -> bool:
    """Whether any record of the input is erased by now. Reads no bodies.

    The records below the base checkpoint need no check: erasing any of them undoes that checkpoint.
    """
    shown = {entry.source: entry.item for entry in basis.history.entries if entry.source and entry.kind is EntryKind.KEEP}
    remarked = {remark.source for remark in basis.history.remarks}
    gone = await _find_erased(store, {*shown, *remarked, *basis.carried_from})
    # If the input held the placeholder already, the erasure is older than the input.
    return any(place not in shown or digest_body(shown[place].raw) == record.digest for place, record in gone.items())


async def _find_erased(store: ThreadStore, places: Iterable[Pointer]) -> dict[Pointer, Record]:
    """Return the records among `places` that are erased."""
    found = await load_records(store, places, bodies=False)
    return {place: record for place, record in found.items() if record.erased}


def _collect_sources(ledger: Ledger) -> frozenset[Pointer]:
    claims = (entry.claim.source for entry in ledger.entries if entry.claim is not None)
    return frozenset((*(source for entry in ledger.entries for source in entry.sources), *claims))


async def adopt_provider_compaction(backend: Backend, basis: Basis, proposal: Proposal, order: Order, tried: Watch) -> Outcome:
    """Return the outcome of a compaction that the provider wrote in a reply to the account of the order's model.

    Raises:
        NothingToCompact: The provider wrote none, another account's did later, or a person undid its checkpoint.
    """
    model, written = order.model, proposal.brief.written
    issuer = find_account(model) if model is not None else None
    if model is None or issuer is None or written is None:
        raise NothingToCompact(basis.thread_id, reason="its provider compacted nothing by itself")
    reader = Recipient(model=model.name, issuer=issuer)
    foreign = await find_foreign_seals(
        reader, basis.history, store=backend.store, thread_id=basis.thread_id, dialect=proposal.brief.dialect
    )
    if written.place in foreign:
        raise NothingToCompact(basis.thread_id, reason="another account's provider compacted it since")
    if await _is_undone(backend, basis, written.place.ordinal):
        raise NothingToCompact(basis.thread_id, reason="what its provider compacted by itself was undone")
    draft = find_adopted(written.item, issuer=issuer)
    return await conclude_without_model(draft, proposal, tried, clock=backend.clock, model=model.name)


async def _is_undone(backend: Backend, basis: Basis, written: int) -> bool:
    """Whether the checkpoint of the provider's compaction at ordinal `written` was undone."""
    for span in basis.path.spans:
        later = Span(thread_id=span.thread_id, start=max(span.start, written), stop=max(span.stop, written))
        undone = {record.target for record in await backend.store.read(later, kinds={RecordKind.UNDO}, bodies=False)}
        for record in await backend.store.read(later, kinds={RecordKind.CHECKPOINT}) if undone else ():
            made = read_body(record, Checkpoint) if record.ordinal in undone else None
            if made is not None and made.reason == ADOPTED and made.cut > written:
                return True
    return False


async def read_unread(
    store: ThreadStore, thread_id: str, history: History, *, dialect: Dialect, upto: int, stop: int
) -> tuple[ObservedItem, ...]:
    """Return the items before the checkpoint's cut, from `upto` on, that the window does not hold; oldest first."""
    if history.checkpoint is None or upto >= history.checkpoint.cut:
        return ()
    shown = {entry.source for entry in history.entries}
    path = await load_live_path(store, thread_id, stop=stop, whole=True)
    found: list[ObservedItem] = []
    for span in reversed(path.spans):
        clipped = Span(thread_id=span.thread_id, start=max(span.start, upto), stop=min(span.stop, history.checkpoint.cut))
        for record in await store.read(clipped, kinds={RecordKind.ITEM}) if clipped.start < clipped.stop else ():
            source = Pointer(record.thread_id, record.ordinal)
            if source not in shown and not record.erased:
                item = Item(record.body)
                found.append(ObservedItem(view=dialect.view(item), source=source, item=item))
    return tuple(found)


async def compact_thread(
    backend: Backend, thread_id: str, *, dialect: Dialect, seed: bytes, order: Order | None = None
) -> CompactionReport:
    """Compact a thread now. Until its checkpoint is committed, an error or a cancellation leaves everything as it was.

    A cancellation during the commit takes effect after the commit, the hooks and the observer. If a compaction began and made no
    checkpoint, a record beside the history says how it ended and what it cost; so do the error's `attempts`.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        InvalidArgument: A person asked for a strategy that needs a model, and there is none.
        NothingToCompact: Too little happened since the last checkpoint.
        CompactionRunning: Another worker is compacting the thread.
        CompactionStopped: A hook stopped it; a PostCompact hook does not undo the compaction.
        StaleCheckpoint: The span left the live path during the draft, or part of it was erased.
    """
    compaction = _Compaction(backend=backend, thread_id=thread_id, dialect=dialect, seed=seed, order=order or Order())
    made = asyncio.create_task(compaction.run())
    try:
        return await asyncio.shield(made)
    except asyncio.CancelledError:
        # A running commit ends, with hooks and observer, before the caller returns; a second cancellation returns at once.
        if not compaction.is_committing:
            made.cancel()
        await asyncio.wait({made})
        raise


def choose_strategy(order: Order, backend: Backend) -> Strategy:
    """Return the strategy that an order tries first.

    Raises:
        UnknownStrategy: There is no strategy of that name.
        InvalidArgument: A person asked for a strategy that needs a model, and there is none.
    """
    model = choose_model(order, backend.policy)
    wanted = REMOTE.name if order.adopting else order.strategy or backend.policy.strategy
    strategy = find_strategy(wanted, model=model is not None)
    if strategy.draft is not None and model is None and order.trigger == "manual":
        text = f"{strategy.name!r} needs a model; name one (--model, compact_model), or take the strategy 'extractive'"
        raise InvalidArgument("model", text)
    return strategy


class _Compaction:
    """One compaction of a thread; `is_committing` once its checkpoint is being written."""

    def __init__(self, *, backend: Backend, thread_id: str, dialect: Dialect, seed: bytes, order: Order) -> None:
        self.is_committing = False
        self._backend = backend
        self._thread_id = thread_id
        self._dialect = dialect
        self._seed = seed
        self._order = order
        self._model = choose_model(order, backend.policy)
        self._strategy = choose_strategy(order, backend)

    async def run(self) -> CompactionReport:
        """Compact under the lease, report the end to the observer, and run the PostCompact hooks if there is a checkpoint."""
        order, thread_id = self._order, self._thread_id
        watched = CompactionAttempt(
            attempt_id=secrets.token_hex(8),
            thread_id=thread_id,
            trigger=order.trigger,
            phase=order.phase,
            strategy=self._strategy.name,
            model=self._model.name if self._model else None,
            reason=order.reason,
        )
        with observe(self._backend.policy.observer, watched) as watch:
            async with hold_lease(self._backend, f"compact:{thread_id}") if not order.dry_run else nullcontext() as lease:
                # Who can wait no longer goes on without a lease: its holder may be dead.
                if lease is None and not order.dry_run and not order.deadline.has_passed:
                    raise CompactionRunning(thread_id)
                # A lost lease stops nothing: the first commit wins, and the other one is stale.
                try:
                    report, facts = await self._compact(watch)
                except (asyncio.CancelledError, Exception) as error:
                    if isinstance(error, StaleCheckpoint | NothingToCompact | BrokenWindow):
                        error.attempts = tuple(watch.trials)
                    if not order.dry_run:
                        await record_failed_attempt(self._backend, watch, error)
                    raise
            watch.report = report
        if report.checkpoint is None:
            return report
        after = facts.complete(
            strategy=report.strategy,
            fell_back_from=report.fell_back_from,
            tokens_after=report.tokens_after,
            checkpoint=report.checkpoint,
        )
        # Outside the lease: the checkpoint is durable, and no hook undoes it.
        return replace(report, hooks=(*report.hooks, *await _run_hooks(self._backend, after)))

    async def _compact(self, watch: Watch) -> tuple[CompactionReport, CompactionFacts]:
        """Return the report, and the facts that its hooks were given."""
        backend, order, policy = self._backend, self._order, self._backend.policy
        basis = await load_basis(backend, self._thread_id, seed=self._seed)
        proposal = await self._load_proposal(basis)
        if order.room_tokens is not None:
            # Checked before a model is asked, so that no paid draft is dropped for its price.
            await asyncio.to_thread(
                check_worth_now,
                proposal.brief,
                quoted_tokens=proposal.quoted_tokens,
                room_tokens=order.room_tokens,
                draft_price=self._estimate_draft_price(),
            )
        watch.begin(turn=basis.tip.turn, tokens_before=proposal.tokens_before)
        facts = await self._load_hook_facts(basis, proposal)
        runs = () if order.dry_run else await _run_hooks(backend, facts)
        outcome = await self._draft(basis, proposal, watch)
        usage = await find_last_usage(backend.store, basis.path, basis.history.checkpoint)
        checkpoint = msgspec.structs.replace(
            _add_usage(outcome.checkpoint, usage),
            trigger=order.trigger,
            reason=order.reason,
            start_due=policy.hooks.has_any(HookEvent.SESSION_START),
        )
        ordinal: int | None = None
        if not order.dry_run:
            at_ms, turn = backend.clock.now_ms(), basis.tip.turn
            record = make_checkpoint_record(checkpoint, at_ms=at_ms, turn=turn, tokens=outcome.tokens_after)
            self.is_committing = True
            ordinal = await commit(backend, record, basis=basis)
        return _build_report(basis, outcome, checkpoint=ordinal, runs=runs), facts

    async def _draft(self, basis: Basis, proposal: Proposal, watch: Watch) -> Outcome:
        backend, order, policy = self._backend, self._order, self._backend.policy
        if order.adopting:
            return await adopt_provider_compaction(backend, basis, proposal, order, watch)
        return await draft_with_fallbacks(
            proposal,
            self._strategy.chain,
            watch,
            rules=DraftRules(
                make_summariser=await make_summariser(
                    order, backend, basis.history, thread_id=self._thread_id, dialect=self._dialect
                ),
                breaker=policy.breaker.rehearsal() if order.dry_run else policy.breaker,
                timeout_s=policy.timeout_s,
                deadline=order.deadline,
            ),
            clock=backend.clock,
        )

    def _estimate_draft_price(self) -> float:
        """Return the price of a window token in the draft's request; the thread's own model reads it from its cache."""
        if self._model is None or self._strategy.draft is None:
            return 0.0
        return CACHED_PRICE if self._model is self._order.model and self._order.own is not None else 1.0

    async def _load_hook_facts(self, basis: Basis, proposal: Proposal) -> CompactionFacts:
        """Return the facts for the hooks before a compaction."""
        backend, order = self._backend, self._order
        whose = await load_agent_identity(backend.store, basis.thread_id) if backend.policy.hooks.groups else AgentIdentity()
        return CompactionFacts(
            thread_id=basis.thread_id,
            turn_id=str(basis.tip.turn),
            cwd=backend.policy.cwd,
            trigger=order.trigger,
            reason=order.reason,
            phase=order.phase,
            strategy=self._strategy.name,
            tokens_before=proposal.tokens_before,
            model=await find_last_model(backend, basis.path) or "",
            session_id=whose.session_id,
            agent_id=whose.agent_id,
            agent_type=whose.agent_type,
        )

    async def _load_proposal(self, basis: Basis) -> Proposal:
        store, order, policy = self._backend.store, self._order, self._backend.policy
        upto = read_ledger(basis.history, carried=basis.carried).journal.upto
        unread = await read_unread(store, basis.thread_id, basis.history, dialect=self._dialect, upto=upto, stop=basis.tip.next)
        return await asyncio.to_thread(
            propose,
            basis.history,
            thread_id=basis.thread_id,
            dialect=self._dialect,
            tip=basis.tip,
            goal=Goal(
                target=order.target,
                focus=order.focus,
                prompt=policy.prompt,
                window_tokens=(order.limits or self._backend.limits).full,
                fit_tokens=order.fit_tokens,
                user_tokens=policy.user_tokens,
                state_budget=policy.state_budget,
                phase=order.phase,
                forced=order.forced,
                adopting=order.adopting,
            ),
            carried=basis.carried,
            unread=unread,
        )


async def _run_hooks(backend: Backend, facts: CompactionFacts) -> tuple[HookRun, ...]:
    """Run the hooks of one event.

    Raises:
        CompactionStopped: A hook stopped the compaction.
    """
    verdict = await run_hooks(backend.policy.hooks, facts, environ=backend.policy.environ)
    if not verdict.goes_on:
        raise CompactionStopped(facts.thread_id, event=str(facts.event), reason=verdict.stop_reason or "no reason given")
    return verdict.runs


def _add_usage(checkpoint: Checkpoint, usage: Calibration | None) -> Checkpoint:
    """Return the checkpoint with the last usage figures: the replies that carry them fall behind the cut."""
    learned = {"usage_estimated": usage.estimated, "usage_counted": usage.counted} if usage is not None else {}
    return msgspec.structs.replace(checkpoint, figures={**checkpoint.figures, **learned})


def make_checkpoint_record(checkpoint: Checkpoint, *, at_ms: int, turn: int, tokens: int) -> NewRecord:
    """Return the record of a checkpoint, to be appended."""
    return NewRecord(
        kind=RecordKind.CHECKPOINT,
        at_ms=at_ms,
        turn=turn,
        tokens=tokens,
        body=encode_body(checkpoint),
        target=checkpoint.cut,
    )


def _build_report(basis: Basis, outcome: Outcome, *, checkpoint: int | None, runs: tuple[HookRun, ...]) -> CompactionReport:
    return CompactionReport(
        thread=basis.thread_id,
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
        changes=compare(read_ledger(basis.history), outcome.ledger),
    )
