"""One turn of an agent: its input is durable before anything else happens, and it is never lost to a compaction.

What is sent to the thread while the turn runs joins it when the model is next asked, if the turn may still hear it; see
`holdfast.thread.delivery` for who is heard when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol

from holdfast.errors import CompactionError, CompactionRunning, CompactionStopped, Conflict, ModelError, StoreError
from holdfast.items import Item, View
from holdfast.llm.base import Model, RemoteCompactor
from holdfast.runtime.mailbox import Choose, TurnOver
from holdfast.runtime.orders import Order, Reason
from holdfast.runtime.reports import CompactionReport, Window
from holdfast.runtime.turn_lease import TurnLease
from holdfast.thread import History
from holdfast.thread.delivery import Standing, breaks, goes_on, items_of, joining, left_over
from holdfast.thread.mailbox import Mail, Mailbox
from holdfast.thread.phases import Progress, TurnState, progress_of
from holdfast.tokens import Limits

# Told to the model, in the host's own element, so that it does not take its unfinished work for done.
INTERRUPTED: Final = "<turn_aborted>\nThe turn was interrupted on purpose. What was under way may be half done.\n</turn_aborted>"
SESSION_START: Final = "<session_start>"
# How often it is looked whether a compaction of another worker is over: its draft takes seconds or minutes.
FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Head:
    """What goes out with every request beside the history; it counts against the window and is never compacted."""

    system: str | None = None
    tools: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What hooks want said before a turn's input, and why the turn is to end, if it is."""

    items: tuple[Mapping[str, Any], ...] = ()
    stopped_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A turn that was opened or is gone on with.

    Attributes:
        number: Its number; 0 where nobody has asked for anything yet.
        at: The ordinal it begins at.
        by_person: A person's input opened it just now.
        under_way: Somebody asked for it, and it is not over: false where nobody did, or its answer was there before.
    """

    number: int
    at: int
    by_person: bool
    under_way: bool
    progress: Progress


class TurnThread(Protocol):
    """What a turn asks of its thread."""

    def turn_lease(self) -> TurnLease: ...

    async def open_turn(self, items: Sequence[Mapping[str, Any]], *, model: str | None) -> Opened: ...

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None) -> None: ...

    async def window(
        self,
        *,
        head: Head | None = None,
        model: str | None = None,
        issuer: str | None = None,
        trouble: str | None = None,
        to_send: bool = False,
    ) -> Window: ...

    async def history(self) -> History: ...

    async def mail(self) -> Mailbox: ...

    async def take_mail(self, choose: Choose) -> tuple[Mail, ...]: ...

    async def end_turn(self, over: TurnOver) -> None: ...

    def seen(self, items: Sequence[Mapping[str, Any] | Item]) -> list[tuple[Item, View]]: ...

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport: ...

    async def last_model(self) -> str | None: ...

    @property
    def id(self) -> str: ...

    async def started_anew(self, *, model: str | None) -> Start: ...

    async def record_usage(self, *, input_tokens: int, output_tokens: int, head: Head | None, issuer: str | None) -> None: ...


def account_of(model: Model) -> str | None:
    """Return the account a model answers with, where its provider seals items that only that account can read."""
    return model.issuer if isinstance(model, RemoteCompactor) else None


class TurnScope:
    """`async with thread.turn(incoming) as turn:`; see `Thread.turn`."""

    def __init__(
        self, thread: TurnThread, incoming: Sequence[Mapping[str, Any]], *, model: str | Model | None, head: Head | None
    ) -> None:
        self._thread = thread
        self._incoming = incoming
        self._model = None if model is None or isinstance(model, str) else model
        self._model_name = model if model is None or isinstance(model, str) else model.name
        self._account = account_of(self._model) if self._model is not None else None
        self._head = head
        self._lease = thread.turn_lease()
        self._switched_from: str | None = None
        # The one the model was last told of: where the window rests on another, the session starts anew first.
        self._checkpoint: int | None = None
        self._answered = False
        self._opened: Opened | None = None
        self._progress = Progress()
        self._unheard = False
        self._made_room = False
        self._asleep = False

    async def __aenter__(self) -> TurnScope:
        """Record the input, after what SessionStart hooks add if the thread was compacted and no turn was told since.

        Where no person speaks in it, the mail that waits is the input too; without either, the turn that was left unfinished
        goes on. One host runs a turn at a time: where another is at it this waits, until it is plain that it is alive.

        Raises:
            TurnRunning: Another host runs a turn of the thread; nothing was recorded.
            CompactionStopped: Such a hook wants the turn to end; the input is recorded all the same.
        """
        try:
            await self._lease.take()
            await self._begin()
        except BaseException:
            await asyncio.shield(self._lease.give_back())
            raise
        return self

    async def _begin(self) -> None:
        before = await self._thread.last_model() if self._model_name else None
        self._switched_from = before if before != self._model_name else None
        history = await self._thread.history()
        self._checkpoint = history.checkpoint_ordinal
        start = Start()
        try:
            if not self._was_told(history):
                start = await self._thread.started_anew(model=self._model_name)
        finally:
            opened = await self._thread.open_turn([*start.items, *self._incoming], model=self._model_name)
            self._opened, self._progress, self._unheard = opened, opened.progress, opened.by_person
        self._stop_if_asked(start)

    def _was_told(self, history: History) -> bool:
        """Whether a turn started anew after the checkpoint: it made that itself and went on, or what hooks added is there."""
        made, ordinal = history.checkpoint, history.checkpoint_ordinal
        if made is None or ordinal is None:
            return False
        later = [entry.item for entry in history.entries if entry.source is not None and entry.source.ordinal > ordinal]
        if made.phase != "standalone_turn":
            return bool(later)
        return any(view.text.startswith(SESSION_START) for _, view in self._thread.seen(later))

    def _stop_if_asked(self, start: Start) -> None:
        if start.stopped_by is not None:
            raise CompactionStopped(self._thread.id, event="SessionStart", reason=start.stopped_by)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Write down how the turn ended: closed, or aborted by what left the block. Mail that waits goes on waiting.

        Where no turn was under way, or another host took it over, there is none to end: it is another's by now.
        """
        try:
            await self._end(error)
        finally:
            await asyncio.shield(self._lease.give_back())

    async def _end(self, error: BaseException | None) -> None:
        if self._opened is None or self._lease.is_lost or not (self._opened.under_way or self._asleep):
            return
        if error is None:
            over = TurnOver(
                turn=self._opened.number,
                outcome=TurnState.CLOSED,
                asleep=self._asleep,
                choose=partial(left_over, turn=self._standing(self._opened)),
            )
            await self._thread.end_turn(over)
            return
        interrupted = isinstance(error, asyncio.CancelledError | KeyboardInterrupt)
        over = TurnOver(
            turn=self._opened.number,
            outcome=TurnState.ABORTED,
            reason="interrupted" if interrupted else type(error).__name__,
            said=INTERRUPTED if interrupted else "",
        )
        # What ended the turn is what the caller is to hear; a turn without a mark is read as the unfinished one it is.
        with suppress(StoreError):
            # Cancelled once more, it is still written: the interruption is a fact.
            await asyncio.shield(self._thread.end_turn(over))

    @property
    def state(self) -> TurnState:
        """Where the turn stands."""
        return self._progress.state

    async def window(self, *, patience_s: float = 0.0) -> Window:
        """Return what to send next, compacting first if the hard limit of this turn's model is reached.

        Mail that may be heard now joins the turn first, so the window ends with it; while a compaction just made room for what
        tools returned, it waits for the request after that. Calls nobody answered are shown as aborted. What the turn's model
        sealed for its own account is in it. After a compaction, whoever made it, SessionStart hooks run first, and what they add
        is in the window.

        A compaction that fails changes nothing and loses nothing: the best window there is comes back, and `trouble`
        says what went wrong.

        Args:
            patience_s: How long to wait where another worker compacts the thread just then.

        Raises:
            CompactionStopped: A hook wants the turn to end; its input is recorded.
            TurnTakenOver: Another host goes on with the turn.
        """
        await self._lease.check()
        window = await self._window()
        is_full = window.pressure.must_compact
        if is_full:
            window = await self._compacted(window, patience_s=patience_s)
        window = await self._started_anew(window)
        # Once in a row: where every output fills the window anew, whoever waits is heard all the same.
        self._made_room = is_full and window.trouble is None and not self._made_room
        if await self._joined():
            window = await self._window(trouble=window.trouble)
            if window.pressure.must_compact and not is_full:
                window = await self._compacted(window, patience_s=patience_s)
            window = await self._started_anew(window)
        self._progress, self._unheard = self._progress.asked(), False
        return window

    async def make_room(self, order: Order, *, patience_s: float = 0.0) -> None:
        """Compact a window that was refused, unless it is another by now; a compaction that is under way will do.

        Raises:
            CompactionError: It did not happen, and the window is what it was; `CompactionStopped` if a hook said so.
            Conflict: Another worker was still at it after `patience_s`, or moved the thread meanwhile.
        """
        if not self._is_another(await self._window()):
            await self._carry_out(order, is_enough=self._is_another, patience_s=patience_s)

    def _is_another(self, window: Window) -> bool:
        return window.checkpoint != self._checkpoint

    async def _window(self, *, trouble: str | None = None) -> Window:
        return await self._thread.window(
            head=self._head, model=self._model_name, issuer=self._account, trouble=trouble, to_send=True
        )

    async def _compacted(self, window: Window, *, patience_s: float) -> Window:
        trouble: str | None = None
        order = await self._order(window)
        try:
            await self._carry_out(order, is_enough=_fits, patience_s=patience_s)
        except CompactionStopped:
            raise
        except (CompactionError, Conflict, ModelError) as error:
            trouble = str(error)
        after = await self._window()
        # Another worker's checkpoint may have come between the last look and this one's turn: then nothing is due any more.
        after.trouble = None if _fits(after) else trouble
        return after

    async def _carry_out(self, order: Order, *, is_enough: Callable[[Window], bool], patience_s: float) -> None:
        """Compact as ordered. Where another worker is at it, wait: its checkpoint will do if the window is then small enough.

        A worker that died is waited for until its lease has run out, unless patience ends first.
        """
        loop = asyncio.get_running_loop()
        until, pause, waited = loop.time() + patience_s, FIRST_PAUSE_S, False
        while not (waited and is_enough(await self._window())):
            try:
                await self._thread.carry_out(order, head=self._head)
            except CompactionRunning:
                if loop.time() >= until:
                    raise
            else:
                return
            await asyncio.sleep(pause)
            pause, waited = min(2 * pause, LONGEST_PAUSE_S), True

    async def _started_anew(self, window: Window) -> Window:
        """Return the window with what SessionStart hooks add, where it rests on a checkpoint the model was not told of yet.

        Raises:
            CompactionStopped: Such a hook wants the turn to end; what it wanted said is recorded.
        """
        if not self._is_another(window):
            return window
        self._checkpoint = window.checkpoint
        start = await self._thread.started_anew(model=self._model_name)
        if start.items:
            await self._thread.record(start.items)
            self._progress = progress_of(self._thread.seen(start.items), begun=self._progress)
            window = await self._window(trouble=window.trouble)
        self._stop_if_asked(start)
        return window

    def _standing(self, opened: Opened) -> Standing:
        return Standing(progress=self._progress, opened_at=opened.at, input_unheard=self._unheard, compacted=self._made_room)

    async def _joined(self) -> bool:
        """Take in the mail that may be heard now; false if there is none. Where no turn is under way, it opens one."""
        if self._opened is None:
            return False
        if not self._opened.under_way:
            opened = await self._thread.open_turn([], model=self._model_name)
            if opened.under_way:
                self._opened, self._progress = opened, opened.progress
            return opened.under_way
        taken = await self._thread.take_mail(partial(joining, turn=self._standing(self._opened)))
        self._progress = progress_of(self._thread.seen(items_of(taken)), begun=self._progress)
        return bool(taken)

    async def goes_on(self) -> bool:
        """Whether the model is to be asked again: it called tools, or something waits that this turn may still hear."""
        if self._opened is None:
            return False
        box = await self._thread.mail()
        return goes_on(box, self._standing(self._opened)) or (not self._opened.under_way and bool(box.pending))

    async def is_interrupted_by_mail(self) -> bool:
        """Whether to break off the answer that is coming in, and ask again with the mail that waits.

        True only where the item recorded last was a thought or a remark on the way; what the answer still holds is dropped.
        """
        return self._opened is not None and breaks(await self._thread.mail(), self._standing(self._opened))

    def sleep(self) -> None:
        """Let the agent sleep once this turn is over: any mail, also what would only wait, then starts the next one."""
        self._asleep = True

    async def _order(self, window: Window) -> Order:
        """Return the compaction a full window calls for; before the first answer it stands in front of the turn."""
        pressure = window.pressure
        # Where a prefix is not charged, the hard limit bounds what came after it, and the window may fill the whole.
        most = pressure.limits.full if pressure.uncharged else pressure.limits.hard
        return Order(
            model=self._model,
            limits=pressure.limits,
            # Both are estimates of the same window, one of them corrected by what providers counted.
            fit_tokens=window.tokens * most // max(1, pressure.tokens),
            trigger="auto",
            phase="mid_turn" if self._answered else "pre_turn",
            reason=await self._reason(pressure.limits),
        )

    async def _reason(self, limits: Limits) -> Reason:
        if self._switched_from is None or self._answered:
            return "context_limit"
        older = (await self._thread.window(model=self._switched_from)).pressure.limits
        return "model_downshift" if limits.full < older.full else "context_limit"

    async def record(self, items: Sequence[Mapping[str, Any]], *, usage: Mapping[str, int] | None = None) -> None:
        """Record what the model or a tool produced; `usage` (`input_tokens`, `output_tokens`) sharpens the estimates.

        Raises:
            TurnTakenOver: Another host goes on with the turn; nothing was recorded.
        """
        await self._lease.check()
        self._answered = True
        if usage and usage.get("input_tokens"):
            counted, said = usage["input_tokens"], usage.get("output_tokens", 0)
            await self._thread.record_usage(input_tokens=counted, output_tokens=said, head=self._head, issuer=self._account)
        await self._thread.record(items)
        self._progress = progress_of(self._thread.seen(items), begun=self._progress)


def _fits(window: Window) -> bool:
    return not window.pressure.must_compact
