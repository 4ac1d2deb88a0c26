"""A thread: record, window, compact, recall, fork, undo, turns, mail and sub-agents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

from threadkeep.client.turn import TurnScope
from threadkeep.compaction import Ledger, read_ledger
from threadkeep.compaction.backend import Backend, Order
from threadkeep.compaction.fallback import Deadline
from threadkeep.compaction.pins import Remarked, pin_entry, take_note, unpin_entry
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.run import choose_strategy, compact_thread
from threadkeep.compaction.strategies.remote import holds_compaction
from threadkeep.dialects import Dialect, Request
from threadkeep.errors import InvalidArgument, InvalidPointer, InvalidTarget, OrdinalConflict, RecordNotFound
from threadkeep.items import Item, View, decode_json, seed_chain
from threadkeep.llm.base import Model, ModelName
from threadkeep.recall import Recalled, recall_by_pointer, recall_by_words
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads import Arrival, History, ReplyBody, Tip, encode_body, parse_pointer
from threadkeep.threads.agents import Edge, SpawnRequest, list_children, list_descendants, report_to_parent, spawn_thread
from threadkeep.threads.baseline import BaselineUpdate, World, append_with_update, check_world, load_world, plan_update
from threadkeep.threads.forks_and_undos import Branched, ForkPoint, fork_thread, roll_back, undo_compaction, undo_rollback
from threadkeep.threads.mailbox import Choose, Delivery, Mail, Mailbox, MailService, OutgoingMail, Way
from threadkeep.threads.pressure import (
    find_last_model,
    find_model_limits,
    find_named_limits,
    measure_thread_pressure,
)
from threadkeep.threads.reader import load_history, load_live_path, load_metadata, load_tip
from threadkeep.threads.records import SpawnBody
from threadkeep.threads.sealed_items import Recipient, drop_foreign_seals, find_account
from threadkeep.threads.turn_state import TurnStatus, load_newest_turn, load_turns
from threadkeep.threads.window import Head, Window, close_open_calls
from threadkeep.threads.writer import append_beside, make_arrival, update_metadata


class Thread:
    """One thread of a store. Made by `Threadkeep.thread`; holds no resources.

    Several handles, in several processes, may use one thread. If two write at once, one gets an `OrdinalConflict` and may try
    again.
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
        """The thread's prompt-cache key: the same after every compaction and restart; a fork has its own."""
        return f"threadkeep-{self.id}"

    async def history(self, *, model: str | None = None, issuer: str | None = None) -> History:
        """Return the window with the source of each item, without items sealed for others than `model`."""
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

        Old calls without an output are shown as aborted; in the records they stay open.

        Args:
            head: The system prompt, tools and fields sent with it; they count.
            model: The model it goes to, whose limits its pressure is measured against.
            issuer: The account it goes to, by default the model's. Items sealed for another account are left out.
            trouble: The value of its `trouble`.
            to_send: It is sent now: calls still open at its end are shown as aborted too.
        """
        path = await load_live_path(self._backend.store, self.id)
        name, account = (model, None) if model is None or isinstance(model, str) else (model.name, find_account(model))
        reader = Recipient(model=name, issuer=issuer or account)
        history = await self._drop_foreign_seals(await load_history(self._backend.store, path), reader)
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
            holds_compaction=holds_compaction(history, self.dialect),
        )

    async def last_model(self) -> str | None:
        """Return the model that was asked last, if any record names it."""
        store = self._backend.store
        found = await find_last_model(self._backend, await load_live_path(store, self.id))
        # After a checkpoint's cut there may be no turn yet.
        return found or await find_last_model(self._backend, await load_live_path(store, self.id, whole=True))

    def _render_items(self, history: History, *, to_send: bool) -> list[dict[str, Any]]:
        """Return the window's items as values, without unreadable ones, which `verify` reports."""
        items: list[dict[str, Any]] = []
        for item in self.dialect.arrange(close_open_calls(history.items, dialect=self.dialect, under_way=not to_send)):
            try:
                items.append(decode_json(item.raw))
            except ValueError:
                continue
        return items

    async def told(self) -> World | None:
        """Return the world as the window describes it (see `tell`); None if it does not, or no longer does."""
        return await load_world(self._backend.store, self.id)

    async def is_archived(self) -> bool:
        """Whether the thread is archived."""
        return (await load_metadata(self._backend.store, self.id)).archived

    async def recall(self, query: str, *, limit: int = 5) -> list[Recalled]:
        """Return originals: the record a pointer names (`#12`, `THREAD#12`), else records that match the words of `query`."""
        path = await load_live_path(self._backend.store, self.id, whole=True)
        try:
            pointer = parse_pointer(query, within=self.id)
        except InvalidPointer:
            store = self._backend.store
            return await recall_by_words(store, store, path, query, dialect=self.dialect, limit=limit)
        return [await recall_by_pointer(self._backend.store, path, pointer, dialect=self.dialect)]

    async def original(self, pointer: str) -> dict[str, Any]:
        """Return the item a pointer names, whole, as provider JSON, images included.

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

    async def record(self, items: Sequence[Mapping[str, object]], *, model: str | None = None, issuer: str | None = None) -> None:
        """Append items, given as provider JSON. Durable when it returns; on any error nothing was recorded.

        Args:
            model: The model asked next, if a person's message among the items opens a turn.
            issuer: The account that answers, if known: items sealed for it go to no other.

        Raises:
            InvalidItem: One of them is not an item of the thread's dialect.
            OrdinalConflict: Another writer changed the history since this handle last looked.
        """
        arrivals = self._make_arrivals(items)
        tip = self._tip
        while (telling := await self._plan_due_update()) is not None or arrivals:
            tip = tip or await load_tip(self._backend.store, self.id, seed=self._seed)
            # If this is cancelled, nobody knows whether it was written; the next write loads the tip.
            self._tip = None
            try:
                self._tip = await append_with_update(
                    self._backend, self.id, telling, arrivals, tip=tip, model=model, issuer=issuer
                )
            except OrdinalConflict:
                now = await load_tip(self._backend.store, self.id, seed=self._seed)
                # Mail, turn ends and checkpoints move the tip but do not change the history.
                if now != replace(tip, next=now.next):
                    raise
                tip = now
            else:
                self._world_is_due = False
                return

    async def tell(self, world: Mapping[str, object]) -> BaselineUpdate | None:
        """Tell the model about its world: named sections, each a text or a JSON value.

        If the window describes the world already, only changes are recorded, else all sections. Returns what was recorded; None
        if nothing changed.

        Raises:
            BadInput: A section has no name, or is not valid JSON.
            OrdinalConflict: Another writer changed the history meanwhile.
        """
        self._world, self._world_is_due = check_world(world), True
        telling = await self._plan_due_update()
        await self.record([])
        self._world_is_due = False
        return telling

    async def tell_due(self) -> None:
        """Tell the model about its world, if the turn's context is not recorded yet; `turn` calls this."""
        if self._world is not None and self._world_is_due:
            await self.tell(self._world)

    def forget_tip(self) -> None:
        """Load the tip before the next write, because something wrote past this handle; `turn` calls this."""
        self._tip = None

    async def _plan_due_update(self) -> BaselineUpdate | None:
        if self._world is None or not self._world_is_due:
            return None
        return await plan_update(self._backend, self.id, self._world, dialect=self.dialect)

    def model(self, name: str) -> Model:
        """Return the model called `name`; it closes with the store. Nothing is sent before it is asked.

        Raises:
            UnknownModel: There is no such model, or its credential is missing.
        """
        return self._backend.models.get(name)

    def sibling(self, thread_id: str) -> Thread:
        """Return another thread of the store with the same dialect."""
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
        """Record a provider's token counts for the current window; they correct later estimates."""
        history = await self.history(model=model, issuer=issuer)
        if holds_compaction(history, self.dialect):
            # The provider reads nothing before its own compaction, so its count does not fit our estimate.
            return
        estimated = history.tokens + (head.tokens if head else 0)
        body = ReplyBody(
            items=[], outcome="completed", estimated_tokens=estimated, input_tokens=input_tokens, output_tokens=output_tokens
        )
        self._tip = None
        await append_beside(self._backend, self.id, RecordKind.REPLY, encode_body(body), tokens=output_tokens)

    def turn(
        self,
        incoming: Sequence[Mapping[str, object]],
        *,
        model: str | Model | None = None,
        head: Head | None = None,
        context: Mapping[str, object] | None = None,
    ) -> TurnScope:
        """Open a turn with its incoming items, which are recorded first; `turn.window()` compacts when it must.

        If the turn ends well beyond the soft limit, a background compaction begins.

        Args:
            model: The model that is asked: a name, or a model, which a compaction may ask too.
            context: What the model must know about its world, see `tell`; recorded before the input, and again after a
                compaction that removed it.

        Raises:
            BadInput: A section of the context has no name, or is not valid JSON.
        """
        self._world = None if context is None else check_world(context)
        self._world_is_due = context is not None
        self._head = head
        return TurnScope(self, incoming, backend=self._backend, post=self._post, model=model, head=head)

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

        A background draft of the thread is dropped for it; a dry run waits for that draft instead.

        Args:
            strategy: How the state is drafted; None takes the configured one, else `session` with a model, `extractive` without.
            model: The model to ask: `openai:NAME`, `anthropic:NAME`, `NAME@URL`, or a model; None takes the configured one.
            target: The bound of the new window: tokens (`"8000"`) or a share of the old one (`"10%"`).
            focus: What a person wants kept in view.
            head: What a turn sends with the window: the thread's own model is then asked on the cached prefix. None takes the
                head of this handle's last turn; without any, the model is sent a transcript.

        Raises:
            UnknownStrategy: There is no strategy of that name.
            UnknownModel: There is no such model, or its credential is missing.
            NothingToCompact: Too little happened since the last checkpoint.
            CompactionStopped: A hook stopped it.
        """
        asked = self._backend.models.get(model) if isinstance(model, str) else model
        order = Order(strategy=strategy, model=asked, target=target, focus=focus, dry_run=dry_run)
        known = head or self._head
        return await self._run_compaction(order, beside=None if known is None else self._own_request(known))

    async def carry_out(self, order: Order, *, head: Head | None = None) -> CompactionReport:
        """Run a compaction order; see `compact`. The thread's own model is asked on its prefix, which begins with `head`."""
        return await self._run_compaction(order, beside=self._own_request(head))

    def compact_beside(self, order: Order, *, tokens: int, head: Head | None = None) -> None:
        """Begin a background compaction, at most one at a time; `turn` does so at the soft limit.

        It ends when the store is closed, or when a person orders another one.

        Args:
            tokens: The size of the window; after a compaction that gained nothing, none begins before the window has grown.
        """
        compaction = partial(self.sibling(self.id).carry_out, order, head=head)
        self._backend.upkeep.begin(self._name, compaction, tokens=tokens, deadline=order.deadline)

    async def upkeep_is_over(self, deadline: Deadline | None = None) -> bool:
        """Wait for a background compaction of the thread and return whether there was one; no draft lasts past `deadline`."""
        return await self._backend.upkeep.over(self._name, deadline=deadline)

    @property
    def draft_wait_s(self) -> float:
        """How long a turn with a full window waits for a draft."""
        return self._backend.policy.wait_s

    @property
    def _name(self) -> tuple[str, str]:
        return self._backend.store.tenant.name, self.id

    async def _run_compaction(self, order: Order, *, beside: Request | None) -> CompactionReport:
        """Run a compaction; `beside` is the thread's request without its history, None if unknown."""
        self._tip = None
        # Check the order before dropping a background draft for it.
        choose_strategy(order, self._backend)
        if order.dry_run:
            await self._backend.upkeep.over(self._name)
        elif order.trigger == "manual":
            # A person's order comes before a background draft.
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
        """Return the order with the limits of the thread's own model, whichever model drafts."""
        if order.limits is not None:
            return order
        model, last = order.model, await self.last_model()
        if model is None or not self._is_own(model, last=last):
            return replace(order, limits=find_named_limits(self._backend, last))
        return replace(order, limits=find_model_limits(self._backend, model, otherwise=self._backend.limits))

    def _is_own(self, model: Model, *, last: str | None) -> bool:
        """Whether `model` is the thread's own model, given the name of the model asked `last`, if known."""
        return model.dialect == self.dialect.name and (last is None or last in (model.name, ModelName.parse(model.name).model))

    def _own_request(self, head: Head | None) -> Request:
        """Return this thread's request without its history."""
        return (head or Head()).request(self.dialect, cache_key=self.cache_key)

    async def fork(
        self,
        *,
        at: int | None = None,
        before_turn: int | None = None,
        after_turn: int | None = None,
        new_id: str | None = None,
    ) -> Thread:
        """Return a new thread that begins at the end of this one, at a record, or before or after a turn."""
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
        """Undo the newest rollback and return its ordinal.

        Raises:
            NothingToUndo: There is no rollback, or items were recorded since.
        """
        self._tip = None
        return await undo_rollback(self._backend, self.id)

    async def rename(self, title: str) -> None:
        """Set the thread's title, which is otherwise the first line of its first turn."""
        await update_metadata(self._backend, self.id, title=title)
        self._tip = None

    async def archive(self) -> None:
        """Hide the thread from the usual list. It can still be read, resumed, and unarchived."""
        await update_metadata(self._backend, self.id, archived=True)
        self._tip = None

    async def unarchive(self) -> None:
        """Show the thread in the usual list again."""
        await update_metadata(self._backend, self.id, archived=False)
        self._tip = None

    async def state(self) -> Ledger:
        """Return the session state: the newest checkpoint's, with later pins and notes."""
        store = self._backend.store
        return read_ledger(await load_history(store, await load_live_path(store, self.id)))

    async def pin(self, entry_id: str) -> Remarked:
        """Pin an entry of the session state: no draft changes or retires it, and no budget drops it, until it is unpinned.

        Durable when it returns, and in `state()` at once. Only people pin; no item can. Pinning twice records nothing. A rollback
        to before it takes the pin back.

        Raises:
            EntryNotFound: There is no such entry; the error lists the entries there are.
        """
        self._tip = None
        return await pin_entry(self._backend, self.id, entry_id)

    async def unpin(self, entry_id: str) -> Remarked:
        """Unpin an entry; it stays, and is treated like any other from now on. See `pin`."""
        self._tip = None
        return await unpin_entry(self._backend, self.id, entry_id)

    async def note(self, text: str, *, pinned: bool = False) -> Remarked:
        """Record a person's note about the work; it binds like their words in the conversation.

        Durable when it returns, and in `state()` at once. The window shows it from the next compaction on, because between two
        checkpoints the window only grows.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, pinned=pinned)

    async def note_by_agent(self, text: str) -> Remarked:
        """Record a note of the agent; see `note`.

        It is marked as the model's and binds nobody: the agent cannot pin it, and it is dropped before users' words if room is
        short.

        Raises:
            BadInput: It is empty or too long.
        """
        self._tip = None
        return await take_note(self._backend, self.id, text, by_agent=True)

    def _make_arrivals(self, items: Sequence[Mapping[str, object]]) -> list[Arrival]:
        redact = self._backend.redact
        return [make_arrival(self.dialect, self.dialect.parse(item), redact=redact) for item in items]

    async def turns(self) -> list[TurnStatus]:
        """Return every turn of the live path with its state, even if the process that ran it is gone."""
        return await load_turns(self._backend.store, self.id, dialect=self.dialect)

    async def newest_turn(self) -> TurnStatus | None:
        """Return the current or last turn with its state. Reads only that turn."""
        return await load_newest_turn(self._backend.store, self.id, dialect=self.dialect)

    def seen(self, items: Sequence[Mapping[str, object] | Item]) -> list[tuple[Item, View]]:
        """Return items with their views."""
        parsed = [item if isinstance(item, Item) else self.dialect.parse(item) for item in items]
        return [(item, self.dialect.view(item)) for item in parsed]

    async def deliver(
        self,
        content: str | Sequence[Mapping[str, object]],
        *,
        sender: str = "",
        way: Way | str = Way.QUEUE,
        mail_id: str | None = None,
    ) -> Delivery:
        """Send mail to the agent of this thread, from any process. Durable when it returns.

        Args:
            content: An agent's text, or items in the thread's dialect. Text that steers counts as a person's.
            way: `queue` waits for a turn, `trigger` starts one if none runs, `steer` joins the running one.
            mail_id: The sender's name for it; the same id is delivered once.

        Raises:
            BadInput: There is no such way, or an item is not of the thread's dialect.
        """
        return await self._post.deliver(OutgoingMail(content=content, sender=sender, way=_parse_way(way), id=mail_id))

    async def mail(self) -> Mailbox:
        """Return the mailbox; its `starts_turn` says whether an idle thread must begin a turn."""
        return await self._post.look()

    async def wait_for_mail(self, *, timeout_s: float | None = None) -> Mailbox:
        """Return the mailbox once mail waits (`steered` if it is for the running turn), or after `timeout_s`."""
        return await self._post.wait(lambda box: bool(box.pending), timeout_s=timeout_s)

    async def wait_for_turn(self, *, timeout_s: float | None = None) -> Mailbox:
        """Return the mailbox once its mail starts a turn (`starts_turn`), or after `timeout_s`."""
        return await self._post.wait(lambda box: box.starts_turn, timeout_s=timeout_s)

    async def take_mail(self, choose: Choose) -> tuple[Mail, ...]:
        """Put the mail that `choose` selects into the history; `turn` calls this."""
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
        """Return a sub-agent's new thread, with an edge from this one to it and `task` as the mail that starts its first turn.

        Spawning the same id again returns the same thread, opens its edge again, and delivers the task, unless the child already
        has it and has not reported: a parent that crashed may safely spawn once more.

        Args:
            history: What the child begins with: all of this thread up to the open call (`full`), its last turns, or nothing.

        Raises:
            BadInput: `history` has no such value.
            ThreadExists: A thread of that id exists and is not this one's child.
            InvalidTarget: Fewer than one turn is asked for.
        """
        asked = SpawnRequest(task=task, history=history, name=name, new_id=new_id)
        child = await spawn_thread(self._backend, self.id, asked, dialect=self.dialect, post=self._post)
        self._tip = None
        return self.sibling(child)

    async def report(self, text: str, *, way: Way | str = Way.QUEUE) -> Delivery:
        """Send a sub-agent's result to the thread that spawned it, once a turn, and close the edge to it.

        Raises:
            InvalidTarget: No thread spawned this one.
        """
        turn = await load_newest_turn(self._backend.store, self.id, dialect=self.dialect)
        mail = OutgoingMail(
            content=text, sender=self.id, way=_parse_way(way), id=f"{self.id}#{turn.number if turn else 0}", answers=self.id
        )
        return await report_to_parent(self._backend, self.id, mail, dialect=self.dialect)

    async def close_child(self, child_id: str) -> None:
        """Close the edge to a sub-agent that need not report any more.

        Raises:
            InvalidTarget: It is not a child of this thread.
        """
        if all(edge.child != child_id for edge in await self.children()):
            raise InvalidTarget(self.id, f"spawned no thread {child_id!r}; `show --tree` lists those it did")
        self._tip = None
        await self._post.note(SpawnBody(child=child_id, status="closed"))

    async def children(self, *, status: str | None = None) -> list[Edge]:
        """Return the sub-agents this thread spawned, sorted by id; with `status`, only those."""
        return await list_children(self._backend.store, self.id, status=status)

    async def descendants(self, *, status: str | None = None) -> list[Edge]:
        """Return all sub-agents below this thread, nearest first, then by id; with `status`, along such edges only."""
        return await list_descendants(self._backend.store, self.id, status=status)


def _parse_way(text: str) -> Way:
    if text not in tuple(Way):
        raise InvalidArgument("way", f"mail cannot be sent as {str(text)!r}; the ways are {', '.join(Way)}")
    return Way(text)
