"""One turn of an agent: its input is recorded first, and no compaction loses it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Final, Protocol

import msgspec

from threadkeep.compaction.backend import Backend, Order, Reason
from threadkeep.compaction.fallback import Deadline
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.strategies.strategy import Phase as CompactionPhase
from threadkeep.compaction.trigger import RoomMaker, make_adoption_order, make_background_order, make_order
from threadkeep.dialects import Dialect
from threadkeep.errors import CompactionStopped, StoreError
from threadkeep.hooks import HookEvent, SessionFacts, run_hooks
from threadkeep.items import Item, ItemKind
from threadkeep.llm.base import Model
from threadkeep.store import RecordKind
from threadkeep.threads import Arrival, AskedBody, StartBody, encode_body
from threadkeep.threads.agents import load_agent_identity
from threadkeep.threads.lease import TurnLease
from threadkeep.threads.mailbox import (
    Choose,
    Mail,
    MailService,
    OpenTurn,
    TurnClose,
    has_next_request,
    list_items,
    select_joining_mail,
    select_leftover_mail,
    should_interrupt,
)
from threadkeep.threads.pressure import find_last_asked
from threadkeep.threads.reader import load_checkpoint, load_live_path, load_start
from threadkeep.threads.records import TurnEvent
from threadkeep.threads.sealed_items import find_account
from threadkeep.threads.turn_state import Phase, Progress, TurnState, load_newest_turn, track_progress
from threadkeep.threads.window import Head, Window
from threadkeep.threads.writer import append_beside, make_arrival
from threadkeep.tokens import Limits, estimate_item

SESSION_START: Final = "<session_start>"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartResult:
    """The items SessionStart hooks added, and the reason if one stops the turn."""

    items: tuple[Item, ...] = ()
    stopped_by: str | None = None


async def run_start_hooks(
    backend: Backend, thread_id: str, *, dialect: Dialect, model: str | None, checkpoint: int | None
) -> StartResult:
    """Run the SessionStart hooks of a thread after `checkpoint`; record nothing."""
    policy, whose = backend.policy, await load_agent_identity(backend.store, thread_id)
    facts = SessionFacts(
        thread_id=thread_id,
        cwd=policy.cwd,
        source="compact",
        model=model or "",
        checkpoint=checkpoint,
        session_id=whose.session_id,
        agent_id=whose.agent_id,
        agent_type=whose.agent_type,
    )
    verdict = await run_hooks(policy.hooks, facts, environ=policy.environ)
    return StartResult(
        items=tuple(dialect.make_user_message(f"{SESSION_START}{text}</session_start>") for text in verdict.added_context),
        stopped_by=None if verdict.goes_on else verdict.stop_reason or "no reason given",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedTurn:
    """A turn that was opened or continued.

    Attributes:
        number: Its number; 0 before the first request of the thread.
        at: The ordinal where it begins.
        by_person: A person's input opened it just now.
        under_way: It was asked for and is not over.
    """

    number: int
    at: int
    by_person: bool
    under_way: bool
    progress: Progress


class TurnThread(Protocol):
    """What a turn needs of its thread."""

    @property
    def dialect(self) -> Dialect: ...

    async def record(
        self, items: Sequence[Mapping[str, object]], *, model: str | None = None, issuer: str | None = None
    ) -> None: ...

    async def window(
        self,
        *,
        head: Head | None = None,
        model: str | Model | None = None,
        issuer: str | None = None,
        trouble: str | None = None,
        to_send: bool = False,
    ) -> Window: ...

    async def take_mail(self, choose: Choose) -> tuple[Mail, ...]: ...

    async def tell_due(self) -> None: ...

    def forget_tip(self) -> None: ...

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport: ...

    def compact_beside(self, order: Order, *, tokens: int, head: Head | None = None) -> None: ...

    async def upkeep_is_over(self, deadline: Deadline | None = None) -> bool: ...

    async def last_model(self) -> str | None: ...

    @property
    def id(self) -> str: ...

    async def record_usage(
        self, *, input_tokens: int, output_tokens: int, head: Head | None, model: str | None, issuer: str | None
    ) -> None: ...


# For the model, in a host element, so that it does not take unfinished work for done.
INTERRUPTED: Final = "<turn_aborted>\nThe turn was interrupted on purpose. What was under way may be half done.\n</turn_aborted>"


class TurnScope:
    """`async with thread.turn(incoming) as turn:`; see `Thread.turn`."""

    def __init__(
        self,
        thread: TurnThread,
        incoming: Sequence[Mapping[str, object]],
        *,
        backend: Backend,
        post: MailService,
        model: str | Model | None,
        head: Head | None,
    ) -> None:
        self._thread = thread
        self._backend = backend
        self._post = post
        self._incoming = incoming
        self._model = None if model is None or isinstance(model, str) else model
        self._model_name = model if model is None or isinstance(model, str) else model.name
        self._account = find_account(self._model) if self._model is not None else None
        self._head = head
        self._lease = TurnLease(backend, thread.id)
        self._switched_from: str | None = None
        # The checkpoint of the last window; after a new one, SessionStart hooks run first.
        self._checkpoint: int | None = None
        self._answered = False
        self._opened: OpenedTurn | None = None
        self._progress = Progress()
        self._unheard = False
        self._made_room = False
        self._asleep = False
        self._left_inline = False
        self._events: list[TurnEvent] = []
        carry_out = partial(thread.carry_out, head=head)
        self._room = RoomMaker(
            look=self._load_window, compact=carry_out, upkeep_is_over=thread.upkeep_is_over, wait_s=backend.policy.wait_s
        )

    async def __aenter__(self) -> TurnScope:
        """Record the input. If the thread was compacted since the last turn, SessionStart hooks run first.

        Without a person's message, waiting mail is the input too; without either, the unfinished turn continues. One host runs a
        turn at a time: this waits for another host as long as a dead host's lease would last.

        Raises:
            TurnRunning: Another host runs a turn of the thread; nothing was recorded.
            CompactionStopped: A hook stops the turn; the input is recorded all the same.
        """
        try:
            await self._lease.wait_for()
            await self._begin()
        except BaseException:
            await asyncio.shield(self._lease.give_back())
            raise
        return self

    async def _begin(self) -> None:
        before = await self._thread.last_model() if self._model_name else None
        self._switched_from = before if before != self._model_name else None
        path = await load_live_path(self._backend.store, self._thread.id)
        self._checkpoint = path.checkpoint.ordinal if path.checkpoint else None
        stopped_by: str | None = None
        try:
            stopped_by = await self._start_anew()
        finally:
            opened = await self._open(self._incoming)
            self._opened, self._progress, self._unheard = opened, opened.progress, opened.by_person
        self._stop_if_asked(stopped_by)

    async def _start_anew(self) -> str | None:
        """Run SessionStart hooks, once after each compaction; return the reason if one stops the turn.

        Their items are recorded; the window shows them after the state.
        """
        backend, thread = self._backend, self._thread
        path = await load_live_path(backend.store, thread.id)
        if path.checkpoint is None or not backend.policy.hooks.has_any(HookEvent.SESSION_START):
            return None
        ordinal, made = path.checkpoint.ordinal, await load_checkpoint(backend.store, path.checkpoint)
        if not made.start_due or await load_start(backend.store, path, checkpoint=ordinal) is not None:
            return None
        started = await run_start_hooks(backend, thread.id, dialect=thread.dialect, model=self._model_name, checkpoint=ordinal)
        said = [msgspec.Raw(backend.redact(item.raw) if backend.redact else item.raw) for item in started.items]
        await self._append_context(StartBody(started=ordinal, start=said))
        return started.stopped_by

    async def _append_context(self, body: StartBody | AskedBody) -> None:
        self._thread.forget_tip()
        await append_beside(self._backend, self._thread.id, RecordKind.CONTEXT, encode_body(body))

    async def _open(self, items: Sequence[Mapping[str, object]]) -> OpenedTurn:
        """Record a turn's input and return which turn that is."""
        opened = await self._open_or_continue(items)
        if opened.number and not opened.by_person and (self._model_name or self._account):
            await self._note_who_is_asked(AskedBody(model=self._model_name, issuer=self._account))
        await self._thread.tell_due()
        return opened

    async def _open_or_continue(self, items: Sequence[Mapping[str, object]]) -> OpenedTurn:
        store, thread = self._backend.store, self._thread
        arrivals = [make_arrival(thread.dialect, thread.dialect.parse(item), redact=self._backend.redact) for item in items]
        by_person = any(each.view.by_person and each.view.kind is ItemKind.MESSAGE for each in arrivals)
        left = None if by_person else await load_newest_turn(store, thread.id, dialect=thread.dialect)
        is_idle = left is None or left.thread != thread.id or Progress(state=left.state).phase is Phase.NEXT_TURN
        by_mail = not by_person and is_idle and await self._open_by_mail(arrivals)
        if not by_mail:
            await thread.record(items, model=self._model_name, issuer=self._account)
        now = await load_newest_turn(store, thread.id, dialect=thread.dialect)
        if now is None:
            return OpenedTurn(number=0, at=0, by_person=False, under_way=False, progress=Progress())
        under_way = by_person or by_mail or not is_idle
        return OpenedTurn(number=now.number, at=now.ordinal, by_person=by_person, under_way=under_way, progress=now.progress)

    async def _open_by_mail(self, arrivals: Sequence[Arrival]) -> bool:
        mails = await self._post.open_turn(arrivals, model=self._model_name, issuer=self._account)
        if mails:
            self._thread.forget_tip()
        return bool(mails)

    async def _note_who_is_asked(self, asked: AskedBody) -> None:
        """Record the model and account that continue a turn, if they differ from the last ones."""
        path = await load_live_path(self._backend.store, self._thread.id, whole=True)
        last = await find_last_asked(self._backend, path)
        if last is None or (last.model, last.issuer) != (asked.model, asked.issuer):
            await self._append_context(asked)

    def _stop_if_asked(self, stopped_by: str | None) -> None:
        if stopped_by is not None:
            raise CompactionStopped(self._thread.id, event="SessionStart", reason=stopped_by)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Record how the turn ended: closed, or aborted by an exception. Waiting mail stays in the mailbox.

        If no turn was under way, or another host took it over, nothing is recorded. After a turn that ended well beyond the soft
        limit, a background compaction begins.
        """
        try:
            await self._end(error)
        finally:
            await asyncio.shield(self._lease.give_back())

    async def _end(self, error: BaseException | None) -> None:
        if self._opened is None or self._lease.is_lost or not (self._opened.under_way or self._asleep):
            return
        if error is None:
            over = TurnClose(
                turn=self._opened.number,
                outcome=TurnState.CLOSED,
                asleep=self._asleep,
                choose=partial(select_leftover_mail, turn=self._view_turn(self._opened)),
            )
            await self._close(over)
            # The turn is recorded: an error in preparing the next one must not fail it.
            with suppress(StoreError):
                self._prepare(await self._load_window(), phase="standalone_turn")
            return
        interrupted = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
        over = TurnClose(
            turn=self._opened.number,
            outcome=TurnState.ABORTED,
            reason="interrupted" if interrupted else type(error).__name__,
            said=INTERRUPTED if interrupted else "",
        )
        # The caller must see the original error; a turn without a recorded end counts as unfinished.
        with suppress(StoreError):
            # Shielded against a second cancellation.
            await asyncio.shield(self._close(over))

    async def _close(self, over: TurnClose) -> None:
        self._thread.forget_tip()
        await self._post.end_turn(replace(over, events=tuple(self._events)))

    def _note_event(self, what: str, *, tokens: int, checkpoint: int | None = None) -> None:
        at_ms = self._backend.clock.now_ms()
        self._events.append(TurnEvent(what=what, at_ms=at_ms, tokens=tokens, checkpoint=checkpoint))

    def _prepare(self, window: Window, *, phase: CompactionPhase) -> None:
        """Begin a background compaction once the soft limit is reached."""
        pressure = window.pressure
        if pressure.worth_preparing:
            order = make_background_order(pressure, model=self._model, phase=phase)
            self._thread.compact_beside(order, tokens=pressure.tokens, head=self._head)

    @property
    def state(self) -> TurnState:
        """The state of the turn."""
        return self._progress.state

    async def window(self) -> Window:
        """Return what to send next, compacting first if the hard limit of this turn's model is reached.

        If a compaction of the thread is running, this waits for it, and makes its own only if that left too little room. It
        waits for a model's draft no longer than `compact_wait_s`, then compacts without a model. From the soft limit on, a
        compaction is prepared in the background and used once it is done.

        Waiting mail that may join the turn is taken first; right after a compaction that made room for tool outputs, mail waits
        for the next request. Open calls are shown as aborted. Items sealed for the turn's account are included. After a
        compaction, SessionStart hooks run, and the window has their items.

        A compaction that fails changes nothing: the best window there is comes back, and its `trouble` says what went wrong.

        Raises:
            CompactionStopped: A hook stops the turn; its input is recorded.
            TurnTakenOver: Another host continues the turn.
        """
        await self._lease.check()
        window = await self._adopt(await self._load_window())
        is_full = window.pressure.must_compact
        if is_full:
            window = await self._compact(window)
        window = await self._run_start_hooks(window)
        # Not twice in a row, or mail would wait forever if every output fills the window.
        self._made_room = is_full and window.trouble is None and not self._made_room
        if await self._join_mail():
            window = await self._load_window(trouble=window.trouble)
            if window.pressure.must_compact and not is_full:
                window = await self._compact(window)
            window = await self._run_start_hooks(window)
        self._progress, self._unheard = self._progress.asked(), False
        self._note_event("asked", tokens=window.pressure.tokens, checkpoint=window.checkpoint)
        if self._answered and not window.pressure.must_compact:
            # A turn may last hours: prepare a compaction for its next request.
            self._prepare(window, phase="mid_turn")
        return window

    async def make_room(self, order: Order) -> None:
        """Compact a window that the provider refused, unless it changed already; waits for a running compaction.

        Raises:
            CompactionError: It failed, and the window is unchanged; `CompactionStopped` if a hook stopped it.
            Conflict: Another worker still compacts after a lease's term, or moved the thread meanwhile.
        """
        if not self._is_another(await self._load_window()):
            await self._room.carry_out(order, is_enough=self._is_another)

    def _is_another(self, window: Window) -> bool:
        return window.checkpoint != self._checkpoint

    async def _load_window(self, *, trouble: str | None = None) -> Window:
        return await self._thread.window(
            head=self._head,
            model=self._model or self._model_name,
            issuer=self._account,
            trouble=trouble,
            to_send=True,
        )

    async def _adopt(self, window: Window) -> Window:
        """Make a checkpoint of the provider's own compaction, if the window holds one, and return the window.

        Without a checkpoint the window is as good: the provider ignores what comes before its compaction.
        """
        if self._model is None or self._account is None or not window.holds_compaction or self._left_inline:
            return window
        self._left_inline = not await self._room.adopt(make_adoption_order(window, model=self._model, mid_turn=self._answered))
        return await self._load_window()

    async def _compact(self, window: Window) -> Window:
        reason = await self._find_reason(window.pressure.limits)
        return await self._room.fitting(make_order(window, model=self._model, mid_turn=self._answered, reason=reason))

    async def _run_start_hooks(self, window: Window) -> Window:
        """Run SessionStart hooks if the window has a new checkpoint, and return the window with their items.

        Raises:
            CompactionStopped: A hook stops the turn; its items are recorded.
        """
        if not self._is_another(window):
            return window
        self._checkpoint = window.checkpoint
        self._stop_if_asked(await self._start_anew())
        return await self._load_window(trouble=window.trouble)

    def _view_turn(self, opened: OpenedTurn) -> OpenTurn:
        return OpenTurn(progress=self._progress, opened_at=opened.at, input_unheard=self._unheard, compacted=self._made_room)

    async def _join_mail(self) -> bool:
        """Take the mail that may join the turn, or open a turn for it; return whether there was any."""
        if self._opened is None:
            return False
        if not self._opened.under_way:
            opened = await self._open([])
            if opened.under_way:
                self._opened, self._progress = opened, opened.progress
            return opened.under_way
        taken = await self._thread.take_mail(partial(select_joining_mail, turn=self._view_turn(self._opened)))
        view = self._thread.dialect.view
        self._progress = track_progress([(item, view(item)) for item in list_items(taken)], begun=self._progress)
        return bool(taken)

    async def goes_on(self) -> bool:
        """Whether the model must be asked again: it called tools, or mail may still join this turn."""
        if self._opened is None:
            return False
        box = await self._post.look()
        return has_next_request(box, self._view_turn(self._opened)) or (not self._opened.under_way and bool(box.pending))

    async def is_interrupted_by_mail(self) -> bool:
        """Whether to interrupt the answer and ask again with the waiting mail.

        True only if the last recorded item is reasoning or commentary; the rest of the answer is dropped.
        """
        return self._opened is not None and should_interrupt(await self._post.look(), self._view_turn(self._opened))

    def sleep(self) -> None:
        """Let the agent sleep once this turn is over: any mail, even queued mail, then starts the next one."""
        self._asleep = True

    async def _find_reason(self, limits: Limits) -> Reason:
        if self._switched_from is None or self._answered:
            return "context_limit"
        older = (await self._thread.window(model=self._switched_from)).pressure.limits
        return "model_downshift" if limits.full < older.full else "context_limit"

    async def record(self, items: Sequence[Mapping[str, object]], *, usage: Mapping[str, int] | None = None) -> None:
        """Record items of the model or a tool; `usage` (`input_tokens`, `output_tokens`) corrects the estimates.

        Raises:
            TurnTakenOver: Another host continues the turn; nothing was recorded.
        """
        await self._lease.check()
        self._answered = True
        dialect = self._thread.dialect
        seen = [(item, dialect.view(item)) for item in map(dialect.parse, items)]
        # A provider that compacted counts only the rest, which does not fit our estimate.
        compacted = any(self._thread.dialect.split_compaction(item).written is not None for item, _ in seen)
        if usage and usage.get("input_tokens") and not compacted:
            counted, said = usage["input_tokens"], usage.get("output_tokens", 0)
            await self._thread.record_usage(
                input_tokens=counted, output_tokens=said, head=self._head, model=self._model_name, issuer=self._account
            )
        await self._thread.record(items)
        self._note_event("recorded", tokens=sum(estimate_item(item.raw) for item, _ in seen))
        self._progress = track_progress(seen, begun=self._progress)
