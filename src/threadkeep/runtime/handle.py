"""A thread in hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from threadkeep.compaction.inline import holds_compaction
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import OrdinalConflict
from threadkeep.hooks import HookEvent
from threadkeep.items import chain_seed
from threadkeep.llm.base import Model, ModelName
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.baseline import Telling, append_told, plan_telling
from threadkeep.runtime.branching import ForkPoint, fork_thread, roll_back, undo_compaction, undo_rollback
from threadkeep.runtime.compacting import compact_thread, rungs_for
from threadkeep.runtime.deadline import Deadline
from threadkeep.runtime.describing import describe
from threadkeep.runtime.head import Head
from threadkeep.runtime.legible import LegibleThread
from threadkeep.runtime.measuring import asked_last, limits_named, limits_of
from threadkeep.runtime.orders import Order
from threadkeep.runtime.reading import live_path, load_checkpoint, load_start, load_tip
from threadkeep.runtime.recording import append_beside
from threadkeep.runtime.reports import Branched, CompactionReport
from threadkeep.runtime.starting import run_start_hooks
from threadkeep.runtime.turn import TurnScope
from threadkeep.runtime.turn_thread import Opened
from threadkeep.store import RecordKind
from threadkeep.thread import AskedBody, ReplyBody, StartBody, encode_body
from threadkeep.thread.baseline import World, checked_world


class Thread(LegibleThread):
    """One thread of a store. Made by `Threadkeep.thread`; holds no resources of its own.

    Several handles, in several processes, may look at one thread; of two that write, one wins and the other gets an
    `OrdinalConflict` and may simply try again.
    """

    def __init__(self, backend: Backend, thread_id: str, *, dialect: Dialect) -> None:
        seed = chain_seed(backend.store.tenant.key, dialect=dialect.name)
        super().__init__(backend, thread_id, dialect=dialect, seed=seed)
        self._world: World | None = None
        self._world_is_due = False
        self._head: Head | None = None

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None) -> None:
        """Append items, given as provider JSON. Durable when it returns; on any error nothing was recorded.

        Args:
            model: Who is asked next, where a person's message among the items opens a turn.
            issuer: The account that answers, where it is known: what is sealed in its answers goes to no other.

        Raises:
            InvalidItem: One of them is not an item of the thread's dialect.
            OrdinalConflict: Another writer changed the history since this handle last looked.
        """
        arrivals = self._arrivals(items)
        tip = self._tip
        while (telling := await self._telling_due()) is not None or arrivals:
            tip = tip or await load_tip(self._backend.store, self.id, seed=self._seed)
            # Who is cancelled here does not know whether it was written: the next to write looks.
            self._tip = None
            try:
                self._tip = await append_told(self._backend, self.id, telling, arrivals, tip=tip, model=model, issuer=issuer)
            except OrdinalConflict:
                now = await load_tip(self._backend.store, self.id, seed=self._seed)
                # Mail, marks and checkpoints move the tip; only who recorded items, or took some back, changed the history.
                if now != replace(tip, next=now.next):
                    raise
                tip = now
            else:
                self._world_is_due = False
                return

    async def tell(self, world: Mapping[str, object]) -> Telling | None:
        """Record what the model is to know about its world: named sections, each a text or a JSON value.

        In full where the window does not tell it, or no longer does; else only what changed, and what no longer applies. Returns
        what was recorded; None where the window says all of it already.

        Raises:
            BadInput: A section has no name, or holds what JSON cannot say.
            OrdinalConflict: Another writer changed the history meanwhile.
        """
        self._world, self._world_is_due = checked_world(world), True
        telling = await self._telling_due()
        await self.record([])
        self._world_is_due = False
        return telling

    async def _telling_due(self) -> Telling | None:
        if self._world is None or not self._world_is_due:
            return None
        return await plan_telling(self._backend, self.id, self._world, dialect=self.dialect)

    async def open_turn(
        self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None
    ) -> Opened:
        """Record a turn's input, and what it is to be told about its world; a turn opened by mail is told it behind the mail."""
        opened = await super().open_turn(items, model=model, issuer=issuer)
        if opened.number and not opened.by_person and (model or issuer):
            await self._note_who_is_asked(AskedBody(model=model, issuer=issuer))
        if self._world is not None and self._world_is_due:
            await self.tell(self._world)
        return opened

    def model(self, name: str) -> Model:
        """Return the model a person calls `name`, open as long as the store is; nothing is sent before it is asked.

        Raises:
            UnknownModel: There is no such model, or what speaks to it is not installed.
        """
        return self._backend.models.named(name)

    def sibling(self, thread_id: str) -> Thread:
        """Return another thread of the store that speaks the same language."""
        return Thread(self._backend, thread_id, dialect=self.dialect)

    async def record_usage(
        self,
        *,
        input_tokens: int,
        output_tokens: int,
        head: Head | None = None,
        model: str | None = None,
        issuer: str | None = None,
    ) -> None:
        """Note what a provider counted for the window as it is now, as `model` is sent it; it corrects later estimates."""
        history = await self.history(model=model, issuer=issuer)
        if holds_compaction(history):
            # The provider read nothing before its own compaction: what it counted says nothing about our estimate of the whole.
            return
        estimated = history.tokens + (head.tokens if head else 0)
        body = ReplyBody(
            items=[], outcome="completed", estimated_tokens=estimated, input_tokens=input_tokens, output_tokens=output_tokens
        )
        await self._append_beside(RecordKind.REPLY, encode_body(body), tokens=output_tokens)

    def turn(
        self,
        incoming: Sequence[Mapping[str, Any]],
        *,
        model: str | Model | None = None,
        head: Head | None = None,
        context: Mapping[str, object] | None = None,
    ) -> TurnScope:
        """Open a turn with its incoming items, recorded first; `turn.window()` compacts when it must.

        Where it ends well, and beyond the soft limit, a compaction is made beside whatever comes next, and swapped in.

        Args:
            model: Who is asked: a name, whose limits count, or a model, which a compaction may ask too.
            context: What the model is to know about its world, see `tell`; told before the input, and again where a compaction
                within the turn took it away.

        Raises:
            BadInput: The context is no world.
        """
        self._world = None if context is None else checked_world(context)
        self._world_is_due = context is not None
        self._head = head
        return TurnScope(self, incoming, model=model, head=head)

    async def compact(
        self,
        *,
        strategy: str | None = None,
        model: str | Model | None = None,
        target: str | None = None,
        focus: str | None = None,
        head: Head | None = None,
        dry_run: bool = False,
    ) -> CompactionReport:
        """Compact now and return the report; `dry_run` computes the same and writes nothing.

        A draft that is being made beside the thread's turns is dropped for it; a dry run waits for that instead.

        Args:
            strategy: How the state is drafted; None takes what is configured, else `session` with a model, `extractive` without.
            model: Whom to ask: `openai:NAME`, `anthropic:NAME`, `NAME@URL`, or a model; None takes what is configured.
            target: Bound of the new window: tokens (`"8000"`) or a share of the old one (`"10%"`).
            focus: What a person wants kept in view.
            head: What goes out beside the thread's window: with it, its own model is asked on the prefix that a turn sends. None
                takes what this handle's last turn had; where that had none either, the model is told a transcript.

        Raises:
            UnknownStrategy: There is no strategy of that name.
            UnknownModel: There is no such model, or what speaks to it is not installed.
            NothingToCompact: Too little happened since the last checkpoint.
            CompactionStopped: A hook said so.
        """
        asked = self._backend.models.named(model) if isinstance(model, str) else model
        order = Order(strategy=strategy, model=asked, target=target, focus=focus, dry_run=dry_run)
        known = head or self._head
        return await self._carried_out(order, beside=None if known is None else self._own_request(known))

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport:
        """Make the compaction that is ordered; see `compact`. The thread's own model is asked on its prefix.

        Args:
            head: What goes out beside the window with the thread's requests; None says that nothing does.
        """
        return await self._carried_out(order, beside=self._own_request(head))

    def compact_beside(self, order: Order, *, tokens: int, head: Head | None = None) -> None:
        """Begin a compaction that nobody waits for; `turn` does, at the soft limit. At most one at a time.

        It is over when the store is closed, or where a person asks for another.

        Args:
            tokens: How full the window is; where that gained nothing, none is begun before it has grown.
        """
        compaction = partial(self.sibling(self.id).carry_out, order, head=head)
        self._backend.upkeep.begin(self._name, compaction, tokens=tokens, deadline=order.deadline)

    async def upkeep_is_over(self, deadline: Deadline | None = None) -> bool:
        """Return once nothing is compacted beside the thread's turns, and whether anything was; no draft may be later."""
        return await self._backend.upkeep.over(self._name, deadline=deadline)

    @property
    def draft_wait_s(self) -> float:
        """How long a turn that needs the room waits for a draft."""
        return self._backend.policy.wait_s

    @property
    def _name(self) -> tuple[str, str]:
        return self._backend.store.tenant.name, self.id

    async def _carried_out(self, order: Order, *, beside: Request | None) -> CompactionReport:
        """Make a compaction; `beside` is what the thread's requests hold beside their history, None where nobody knows."""
        self._tip = None
        # Before anything is broken off for it: an order that cannot be carried out costs nothing.
        rungs_for(order, self._backend)
        if order.dry_run:
            await self._backend.upkeep.over(self._name)
        elif order.trigger == "manual":
            # A person's own wording and strategy come before a draft that nobody asked for.
            await self._backend.upkeep.break_off(self._name)
        order = await self._measured(order)
        model = order.model
        if model is not None and order.own is None and beside is not None and self._is_own(model, last=await self.last_model()):
            order = replace(order, own=beside)
        report = await compact_thread(self._backend, self.id, dialect=self.dialect, seed=self._seed, order=order)
        if order.phase != "standalone_turn" and self._world is not None:
            await self.tell(self._world)
        return report

    async def _measured(self, order: Order) -> Order:
        """Return an order with the limits of the model that is asked next, whoever drafts: the thread's own."""
        if order.limits is not None:
            return order
        model, last = order.model, await self.last_model()
        if model is None or not self._is_own(model, last=last):
            return replace(order, limits=limits_named(self._backend, last))
        return replace(order, limits=limits_of(self._backend, model, otherwise=self._backend.limits))

    def _is_own(self, model: Model, *, last: str | None) -> bool:
        """Whether this is the thread's own model, as far as anybody said who was asked `last`."""
        return model.dialect == self.dialect.name and (last is None or last in (model.name, ModelName.read(model.name).model))

    async def started_anew(self, *, model: str | None = None) -> str | None:
        """Run the SessionStart hooks where they were not yet, since the thread was compacted; return why one stops the turn.

        What they add is recorded with what they were run for: from then on it stands behind the state of that window.
        """
        store = self._backend.store
        path = await live_path(store, self.id)
        if path.checkpoint is None or not self._backend.policy.hooks.any_on(HookEvent.SESSION_START):
            return None
        ordinal, made = path.checkpoint.ordinal, await load_checkpoint(store, path.checkpoint)
        if not made.start_due or await load_start(store, path, checkpoint=ordinal) is not None:
            return None
        started = await run_start_hooks(self._backend, self.id, dialect=self.dialect, model=model, checkpoint=ordinal)
        redact = self._backend.redact
        said = [msgspec.Raw(redact(item.raw) if redact else item.raw) for item in started.items]
        await self._append_beside(RecordKind.CONTEXT, encode_body(StartBody(started=ordinal, start=said)))
        return started.stopped_by

    async def _note_who_is_asked(self, asked: AskedBody) -> None:
        """Record who goes on with a turn, where that is another than was asked last: what it answers is its own."""
        last = await asked_last(self._backend, await live_path(self._backend.store, self.id, whole=True))
        if last is None or (last.model, last.issuer) != (asked.model, asked.issuer):
            await self._append_beside(RecordKind.CONTEXT, encode_body(asked))

    async def _append_beside(self, kind: RecordKind, body: bytes, *, tokens: int = 0) -> None:
        self._tip = None
        await append_beside(self._backend, self.id, kind, body, tokens=tokens)

    def _own_request(self, head: Head | None) -> Request:
        """Return what goes out with this thread's requests beside their history."""
        return (head or Head()).request(self.dialect, cache_key=self.cache_key)

    async def fork(
        self,
        *,
        at: int | None = None,
        before_turn: int | None = None,
        after_turn: int | None = None,
        new_id: str | None = None,
    ) -> Thread:
        """Return a new thread that begins where this one is, at a record, or before or after a turn."""
        place = ForkPoint(at=at, before_turn=before_turn, after_turn=after_turn)
        branched = await fork_thread(self._backend, self.id, place, new_id=new_id)
        return self.sibling(branched.thread)

    async def rollback(self, *, turns: int) -> Branched:
        """Take back the last `turns` turns, across any number of checkpoints.

        Raises:
            NotEnoughTurns: The thread has fewer turns. Nothing changed.
            InvalidTarget: `turns` is below one.
        """
        self._tip = None
        return await roll_back(self._backend, self.id, turns=turns, dialect=self.dialect)

    async def undo(self) -> int:
        """Cancel the newest checkpoint and return its ordinal."""
        self._tip = None
        return await undo_compaction(self._backend, self.id)

    async def undo_rollback(self) -> int:
        """Take back the rollback that the thread stands at, and return its ordinal.

        Raises:
            NothingToUndo: The thread stands at no rollback, or items were recorded since.
        """
        self._tip = None
        return await undo_rollback(self._backend, self.id)

    async def rename(self, title: str) -> None:
        """Give the thread a title of its own, in place of the first line a person said in it."""
        await describe(self._backend, self.id, title=title)
        self._tip = None

    async def archive(self) -> None:
        """Take the thread out of the usual list. Nothing else changes: it can be read, resumed, and unarchived."""
        await describe(self._backend, self.id, archived=True)
        self._tip = None

    async def unarchive(self) -> None:
        """Put the thread back into the usual list."""
        await describe(self._backend, self.id, archived=False)
        self._tip = None
