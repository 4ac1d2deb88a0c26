"""A thread: record, window, compact, recall, fork, undo, turns, mail and sub-agents."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import msgspec

from threadkeep.client.turn import OpenedTurn, TurnLease, TurnScope, run_start_hooks
from threadkeep.compaction import Ledger, ledger_of
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.fallback import Deadline
from threadkeep.compaction.inline import holds_compaction
from threadkeep.compaction.order import Order
from threadkeep.compaction.pins import Remarked, pin_entry, take_note, unpin_entry
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.run import compact_thread, rungs_for
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import BadInput, InvalidPointer, InvalidTarget, OrdinalConflict, RecordNotFound
from threadkeep.hooks import HookEvent
from threadkeep.items import Item, ItemKind, View, decode_json, seed_chain
from threadkeep.llm.base import Model, ModelName
from threadkeep.recall import Recalled, recall_by_pointer, recall_by_words
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads import Arrival, AskedBody, History, ReplyBody, StartBody, Tip, encode_body, parse_pointer
from threadkeep.threads.agents import Edge, SpawnRequest, list_children, list_descendants, report_to_parent, spawn_thread
from threadkeep.threads.baseline import BaselineUpdate, World, append_with_update, check_world, load_world, plan_update
from threadkeep.threads.branches import Branched, ForkPoint, fork_thread, roll_back, undo_compaction, undo_rollback
from threadkeep.threads.mailbox import LOOK_ANYWAY_S, Choose, Delivery, Mail, Mailbox, MailService, OutgoingMail, TurnClose, Way
from threadkeep.threads.pressure import (
    find_last_asked,
    find_last_model,
    find_model_limits,
    find_named_limits,
    measure_thread_pressure,
)
from threadkeep.threads.reader import load_checkpoint, load_history, load_live_path, load_metadata, load_start, load_tip
from threadkeep.threads.records import SpawnBody
from threadkeep.threads.sealed_items import Recipient, drop_foreign_seals
from threadkeep.threads.turns import Phase, Progress, TurnStatus, load_newest_turn, load_turns
from threadkeep.threads.window import Head, Window, close_open_calls
from threadkeep.threads.writer import append_beside, make_arrival, update_metadata


class Thread:
    """One thread of a store. Made by `Threadkeep.thread`; holds no resources of its own.

    Several handles, in several processes, may look at one thread; of two that write, one wins and the other gets an
    `OrdinalConflict` and may simply try again.
    """

    def __init__(self, backend: Backend, thread_id: str, *, dialect: Dialect) -> None:
        self.id = thread_id
        self.dialect = dialect
        self._backend = backend
        self._seed = seed_chain(backend.store.tenant.key, dialect=dialect.name)
        self._tip: Tip | None = None
        self._post = MailService(backend, thread_id, dialect=dialect, seed=self._seed)
        self._world: World | None = None
        self._world_is_due = False
        self._head: Head | None = None

    @property
    def cache_key(self) -> str:
        """A prompt-cache key that is the same before and after every compaction and restart, and a fork's own."""
        return f"threadkeep-{self.id}"

    async def history(self, *, model: str | None = None, issuer: str | None = None) -> History:
        """Return the window with where each item comes from; what is sealed for another than `model` is left out."""
        history = await load_history(self._backend.store, await load_live_path(self._backend.store, self.id))
        return await self._drop_foreign_seals(history, Recipient(model=model, issuer=issuer))

    async def _drop_foreign_seals(self, history: History, reader: Recipient) -> History:
        return await drop_foreign_seals(reader, history, store=self._backend.store, thread_id=self.id, dialect=self.dialect)

    async def window(
        self,
        *,
        head: Head | None = None,
        model: str | Model | None = None,
        issuer: str | None = None,
        trouble: str | None = None,
        to_send: bool = False,
    ) -> Window:
        """Return what to send next. Pure: it never compacts.

        Calls that were left behind without an output are shown as aborted; in the records they stay open.

        Args:
            head: What goes out beside it, and counts.
            model: Who is sent it, by name or itself: its pressure is measured against that one's limits. A model that says it
                takes less than is configured is believed.
            issuer: The account it goes to, where it is known. What a provider sealed for another is left out.
            trouble: What went wrong on the way to it, for its `trouble`.
            to_send: It goes out now, so calls that are still under way at its end are shown as aborted too.
        """
        path = await load_live_path(self._backend.store, self.id)
        name = model if model is None or isinstance(model, str) else model.name
        history = await self._drop_foreign_seals(
            await load_history(self._backend.store, path), Recipient(model=name, issuer=issuer)
        )
        pressure = await measure_thread_pressure(
            self._backend, path, history, head_tokens=head.tokens if head else 0, model=model
        )
        return Window(
            self._render_items(history, to_send=to_send),
            tokens=history.tokens,
            cache_key=self.cache_key,
            checkpoint=history.checkpoint_ordinal,
            pressure=pressure,
            trouble=trouble,
            holds_compaction=holds_compaction(history),
        )

    async def last_model(self) -> str | None:
        """Return the model of the newest turn that names one."""
        store = self._backend.store
        found = await find_last_model(self._backend, await load_live_path(store, self.id))
        # Behind a checkpoint's cut there may be no turn yet; who was asked before it is still who was asked last.
        return found or await find_last_model(self._backend, await load_live_path(store, self.id, whole=True))

    def _render_items(self, history: History, *, to_send: bool) -> list[dict[str, Any]]:
        """Return the window's items as values; what damage left unreadable costs only itself, and `verify` names it."""
        items: list[dict[str, Any]] = []
        for item in self.dialect.arrange(close_open_calls(history.items, dialect=self.dialect, under_way=not to_send)):
            try:
                items.append(decode_json(item.raw))
            except ValueError:
                continue
        return items

    async def told(self) -> World | None:
        """Return the world as the window tells it; None where it does not, or no longer does."""
        return await load_world(self._backend.store, self.id)

    async def is_archived(self) -> bool:
        """Whether the thread was taken out of the usual list."""
        return (await load_metadata(self._backend.store, self.id)).archived

    async def recall(self, query: str, *, limit: int = 5) -> list[Recalled]:
        """Return originals: the record that `query` points at (`#12`, `THREAD#12`), else those that match its words."""
        path = await load_live_path(self._backend.store, self.id, whole=True)
        try:
            pointer = parse_pointer(query, within=self.id)
        except InvalidPointer:
            store = self._backend.store
            return await recall_by_words(store, store, path, query, dialect=self.dialect, limit=limit)
        return [await recall_by_pointer(self._backend.store, path, pointer, dialect=self.dialect)]

    async def original(self, pointer: str) -> dict[str, Any]:
        """Return the item a pointer names, whole, as provider JSON: an image too can be shown to the model again.

        Raises:
            InvalidPointer: It is not a pointer.
            RecordNotFound: There is no such item.
        """
        place = parse_pointer(pointer, within=self.id)
        path = await load_live_path(self._backend.store, self.id, whole=True)
        thread_id = path.find_thread(place.ordinal) or place.thread_id
        span = Span(thread_id=thread_id, start=place.ordinal, stop=place.ordinal + 1)
        for record in await self._backend.store.read(span, kinds={RecordKind.ITEM, RecordKind.NOTE}):
            if not record.erased:
                item: dict[str, Any] = decode_json(record.body)
                return item
        raise RecordNotFound(thread_id, place.ordinal)

    async def records(self) -> list[Record]:
        """Return every record of this thread, on its live path or not, oldest first."""
        row = await self._backend.store.get(self.id)
        return await self._backend.store.read(Span(thread_id=self.id, start=row.start, stop=row.next))

    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None) -> None:
        """Append items, given as provider JSON. Durable when it returns; on any error nothing was recorded.

        Args:
            model: Who is asked next, where a person's message among the items opens a turn.
            issuer: The account that answers, where it is known: what is sealed in its answers goes to no other.

        Raises:
            InvalidItem: One of them is not an item of the thread's dialect.
            OrdinalConflict: Another writer changed the history since this handle last looked.
        """
        arrivals = self._make_arrivals(items)
        tip = self._tip
        while (telling := await self._plan_due_update()) is not None or arrivals:
            tip = tip or await load_tip(self._backend.store, self.id, seed=self._seed)
            # Who is cancelled here does not know whether it was written: the next to write looks.
            self._tip = None
            try:
                self._tip = await append_with_update(
                    self._backend, self.id, telling, arrivals, tip=tip, model=model, issuer=issuer
                )
            except OrdinalConflict:
                now = await load_tip(self._backend.store, self.id, seed=self._seed)
                # Mail, marks and checkpoints move the tip; only who recorded items, or took some back, changed the history.
                if now != replace(tip, next=now.next):
                    raise
                tip = now
            else:
                self._world_is_due = False
                return

    async def tell(self, world: Mapping[str, object]) -> BaselineUpdate | None:
        """Record what the model is to know about its world: named sections, each a text or a JSON value.

        In full where the window does not tell it, or no longer does; else only what changed, and what no longer applies. Returns
        what was recorded; None where the window says all of it already.

        Raises:
            BadInput: A section has no name, or holds what JSON cannot say.
            OrdinalConflict: Another writer changed the history meanwhile.
        """
        self._world, self._world_is_due = check_world(world), True
        telling = await self._plan_due_update()
        await self.record([])
        self._world_is_due = False
        return telling

    async def _plan_due_update(self) -> BaselineUpdate | None:
        if self._world is None or not self._world_is_due:
            return None
        return await plan_update(self._backend, self.id, self._world, dialect=self.dialect)

    def model(self, name: str) -> Model:
        """Return the model a person calls `name`, open as long as the store is; nothing is sent before it is asked.

        Raises:
            UnknownModel: There is no such model, or what speaks to it is not installed.
        """
        return self._backend.models.get(name)

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
        self._world = None if context is None else check_world(context)
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
        asked = self._backend.models.get(model) if isinstance(model, str) else model
        order = Order(strategy=strategy, model=asked, target=target, focus=focus, dry_run=dry_run)
        known = head or self._head
        return await self._run_compaction(order, beside=None if known is None else self._own_request(known))

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport:
        """Make the compaction that is ordered; see `compact`. The thread's own model is asked on its prefix.

        Args:
            head: What goes out beside the window with the thread's requests; None says that nothing does.
        """
        return await self._run_compaction(order, beside=self._own_request(head))

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

    async def _run_compaction(self, order: Order, *, beside: Request | None) -> CompactionReport:
        """Make a compaction; `beside` is what the thread's requests hold beside their history, None where nobody knows."""
        self._tip = None
        # Before anything is broken off for it: an order that cannot be carried out costs nothing.
        rungs_for(order, self._backend)
        if order.dry_run:
            await self._backend.upkeep.over(self._name)
        elif order.trigger == "manual":
            # A person's own wording and strategy come before a draft that nobody asked for.
            await self._backend.upkeep.break_off(self._name)
        order = await self._add_limits(order)
        model = order.model
        if model is not None and order.own is None and beside is not None and self._is_own(model, last=await self.last_model()):
            order = replace(order, own=beside)
        report = await compact_thread(self._backend, self.id, dialect=self.dialect, seed=self._seed, order=order)
        if order.phase != "standalone_turn" and self._world is not None:
            await self.tell(self._world)
        return report

    async def _add_limits(self, order: Order) -> Order:
        """Return an order with the limits of the model that is asked next, whoever drafts: the thread's own."""
        if order.limits is not None:
            return order
        model, last = order.model, await self.last_model()
        if model is None or not self._is_own(model, last=last):
            return replace(order, limits=find_named_limits(self._backend, last))
        return replace(order, limits=find_model_limits(self._backend, model, otherwise=self._backend.limits))

    def _is_own(self, model: Model, *, last: str | None) -> bool:
        """Whether this is the thread's own model, as far as anybody said who was asked `last`."""
        return model.dialect == self.dialect.name and (last is None or last in (model.name, ModelName.parse(model.name).model))

    async def started_anew(self, *, model: str | None = None) -> str | None:
        """Run the SessionStart hooks where they were not yet, since the thread was compacted; return why one stops the turn.

        What they add is recorded with what they were run for: from then on it stands behind the state of that window.
        """
        store = self._backend.store
        path = await load_live_path(store, self.id)
        if path.checkpoint is None or not self._backend.policy.hooks.has_any(HookEvent.SESSION_START):
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
        last = await find_last_asked(self._backend, await load_live_path(self._backend.store, self.id, whole=True))
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
        await update_metadata(self._backend, self.id, title=title)
        self._tip = None

    async def archive(self) -> None:
        """Take the thread out of the usual list. Nothing else changes: it can be read, resumed, and unarchived."""
        await update_metadata(self._backend, self.id, archived=True)
        self._tip = None

    async def unarchive(self) -> None:
        """Put the thread back into the usual list."""
        await update_metadata(self._backend, self.id, archived=False)
        self._tip = None

    async def state(self) -> Ledger:
        """Return the session state: the newest checkpoint's, with what was pinned and noted since."""
        store = self._backend.store
        return ledger_of(await load_history(store, await load_live_path(store, self.id)))

    async def pin(self, entry_id: str) -> Remarked:
        """Keep an entry of the session state: no draft changes or sets it aside, and no budget archives it, until it is unpinned.

        Durable when it returns, in `state()` at once, and with every later checkpoint. Only people pin: nothing in an item does.
        What is pinned already stays so, and nothing is recorded. A rollback to before it takes the pin back with the rest.

        Raises:
            EntryNotFound: There is no such entry; the error says which there are.
        """
        self._tip = None
        return await pin_entry(self._backend, self.id, entry_id)

    async def unpin(self, entry_id: str) -> Remarked:
        """Let go of a pinned entry; it stays, and is treated like any other from now on. See `pin`."""
        self._tip = None
        return await unpin_entry(self._backend, self.id, entry_id)

    async def note(self, text: str, *, pinned: bool = False) -> Remarked:
        """Write down a person's own statement about the work; it binds like what they say in the conversation.

        Durable when it returns, and in `state()` at once. The window does not change before the next compaction, because what
        is sent between two checkpoints only grows: from that one on the note is in its state block. Who must be heard at
        once says it in the conversation.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, pinned=pinned)

    async def note_by_agent(self, text: str) -> Remarked:
        """Write down what the agent wants to remember; see `note`.

        It is a model's statement, marked as one, and binds nobody: it cannot be pinned by whoever wrote it, gives way to what
        users say, and goes before their words where the budget is short.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, by_agent=True)

    def _make_arrivals(self, items: Sequence[Mapping[str, Any]]) -> list[Arrival]:
        redact = self._backend.redact
        return [make_arrival(self.dialect, self.dialect.parse(item), redact=redact) for item in items]

    def turn_lease(self) -> TurnLease:
        """Return the right to run a turn of this thread, not taken yet; `turn` does."""
        return TurnLease(self._backend, self.id)

    async def open_turn(
        self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None
    ) -> OpenedTurn:
        """Record a turn's input and say which turn that is; see `turn`. Mail comes before what is told of the world."""
        opened = await self._open(items, model=model, issuer=issuer)
        if opened.number and not opened.by_person and (model or issuer):
            await self._note_who_is_asked(AskedBody(model=model, issuer=issuer))
        if self._world is not None and self._world_is_due:
            await self.tell(self._world)
        return opened

    async def _open(self, items: Sequence[Mapping[str, Any]], *, model: str | None, issuer: str | None) -> OpenedTurn:
        store, arrivals = self._backend.store, self._make_arrivals(items)
        by_person = any(each.view.by_person and each.view.kind is ItemKind.MESSAGE for each in arrivals)
        left = None if by_person else await load_newest_turn(store, self.id, dialect=self.dialect)
        is_idle = left is None or left.thread != self.id or Progress(state=left.state).phase is Phase.NEXT_TURN
        by_mail = not by_person and is_idle and await self._open_by_mail(arrivals, model=model, issuer=issuer)
        if not by_mail:
            await self.record(items, model=model, issuer=issuer)
        now = await load_newest_turn(store, self.id, dialect=self.dialect)
        if now is None:
            return OpenedTurn(number=0, at=0, by_person=False, under_way=False, progress=Progress())
        under_way = by_person or by_mail or not is_idle
        return OpenedTurn(number=now.number, at=now.ordinal, by_person=by_person, under_way=under_way, progress=now.progress)

    async def _open_by_mail(self, arrivals: Sequence[Arrival], *, model: str | None, issuer: str | None) -> bool:
        tip, self._tip = self._tip, None
        mails = await self._post.open_turn(arrivals, model=model, issuer=issuer)
        self._tip = None if mails else tip
        return bool(mails)

    async def end_turn(self, over: TurnClose) -> None:
        """Write down how a turn ended; `turn` does."""
        self._tip = None
        await self._post.end_turn(over)

    async def turns(self) -> list[TurnStatus]:
        """Return every turn of the live path and where it stands, also where the process that ran it is gone."""
        return await load_turns(self._backend.store, self.id, dialect=self.dialect)

    async def newest_turn(self) -> TurnStatus | None:
        """Return the turn the thread is in, or was in last, and where it stands. Costs what that turn holds."""
        return await load_newest_turn(self._backend.store, self.id, dialect=self.dialect)

    def seen(self, items: Sequence[Mapping[str, Any] | Item]) -> list[tuple[Item, View]]:
        """Return items with what is known about them."""
        parsed = [item if isinstance(item, Item) else self.dialect.parse(item) for item in items]
        return [(item, self.dialect.view(item)) for item in parsed]

    async def deliver(
        self,
        content: str | Sequence[Mapping[str, Any]],
        *,
        sender: str = "",
        way: Way | str = Way.QUEUE,
        mail_id: str | None = None,
    ) -> Delivery:
        """Send something to whoever runs this thread; any process may. Durable when it returns.

        Args:
            content: An agent's words, or items in the thread's own language. Words that steer are taken for a person's.
            way: `queue` waits for a turn, `trigger` starts one where none runs, `steer` joins the one that runs.
            mail_id: The sender's name for it; what was delivered under it before is not delivered again.

        Raises:
            BadInput: There is no such way, or an item is not one of the thread's language.
        """
        return await self._post.deliver(OutgoingMail(content=content, sender=sender, way=_parse_way(way), id=mail_id))

    async def mail(self) -> Mailbox:
        """Return the mail that waits; `starts_turn` says whether an idle thread is to begin a turn for it."""
        return await self._post.look()

    async def wait_for_mail(self, *, timeout_s: float | None = None) -> Mailbox:
        """Return the mailbox once there is mail in it, `steered` if somebody speaks to this turn; empty after `timeout_s`."""
        return await self._post.wait(timeout_s=timeout_s)

    async def wait_for_turn(self, *, timeout_s: float | None = None) -> Mailbox:
        """Return the mailbox once its mail asks for a turn (`starts_turn`), or as it is after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._backend.store.watch(self.id) as watch:
                while not (box := await self.mail()).starts_turn:
                    await watch.wait(within_s=LOOK_ANYWAY_S)
        except TimeoutError:
            return await self.mail()
        return box

    async def take_mail(self, choose: Choose) -> tuple[Mail, ...]:
        """Put the mail that `choose` picks into the history, once and for all; `turn` does."""
        tip, self._tip = self._tip, None
        taken = await self._post.take(choose)
        self._tip = None if taken else tip
        return taken

    async def spawn(
        self,
        task: str | None = None,
        *,
        history: Literal["full", "none"] | int = "none",
        name: str = "",
        new_id: str | None = None,
    ) -> Thread:
        """Return a sub-agent's thread, with an edge from this one to it, and `task` as the mail that starts its first turn.

        Spawning under an id again returns the same thread and opens the edge to it, if it was closed. The task is mail to it,
        but for one that it has already and has not reported on: a parent that crashed may spawn once more.

        Args:
            history: What it begins with: all of this thread up to the call under way, its last so many turns, or nothing.

        Raises:
            BadInput: The history is none of these.
            ThreadExists: There is a thread of that id, and it is not this one's child.
            InvalidTarget: Fewer than one turn is asked for.
        """
        asked = SpawnRequest(task=task, history=history, name=name, new_id=new_id)
        child = await spawn_thread(self._backend, self.id, asked, dialect=self.dialect, post=self._post)
        self._tip = None
        return self.sibling(child)

    async def report(self, text: str, *, way: Way | str = Way.QUEUE) -> Delivery:
        """Send a sub-agent's result to the thread that spawned it, once a turn, and close the edge to it.

        Raises:
            InvalidTarget: Nobody spawned this thread.
        """
        turn = await load_newest_turn(self._backend.store, self.id, dialect=self.dialect)
        mail = OutgoingMail(
            content=text, sender=self.id, way=_parse_way(way), id=f"{self.id}#{turn.number if turn else 0}", answers=self.id
        )
        return await report_to_parent(self._backend, self.id, mail, dialect=self.dialect)

    async def close_child(self, child_id: str) -> None:
        """Close the edge to a sub-agent that is not to report any more.

        Raises:
            InvalidTarget: It is not a child of this thread.
        """
        if all(edge.child != child_id for edge in await self.children()):
            raise InvalidTarget(self.id, f"spawned no thread {child_id!r}; `show --tree` lists those it did")
        self._tip = None
        await self._post.note(SpawnBody(child=child_id, status="closed"))

    async def children(self, *, status: str | None = None) -> list[Edge]:
        """Return the sub-agents this thread spawned, in the order of their ids; with `status`, only those."""
        return await list_children(self._backend.store, self.id, status=status)

    async def descendants(self, *, status: str | None = None) -> list[Edge]:
        """Return the sub-agents below this thread, nearer ones first, then by id; `status` counts on every edge to them."""
        return await list_descendants(self._backend.store, self.id, status=status)


def _parse_way(text: str) -> Way:
    if text not in tuple(Way):
        raise BadInput(f"mail cannot be sent as {str(text)!r}; the ways are {', '.join(Way)}")
    return Way(text)
