"""What a thread has because somebody lives in it: turns that are opened and end, mail, sub-agents."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from threadkeep.dialects import Dialect
from threadkeep.errors import BadInput, InvalidTarget
from threadkeep.items import Item, ItemKind, View
from threadkeep.runtime.agents import Edge, Spawning, children_of, descendants_of, report_to_parent, spawn_thread
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.mailbox import LOOK_ANYWAY_S, Choose, Delivery, Letter, Post, TurnOver
from threadkeep.runtime.phases import TurnStanding, every_turn, newest_turn
from threadkeep.runtime.recording import arrival
from threadkeep.runtime.turn_lease import TurnLease
from threadkeep.runtime.turn_thread import Opened
from threadkeep.thread import Arrival, Tip
from threadkeep.thread.mailbox import Mail, Mailbox, Way
from threadkeep.thread.phases import Phase, Progress
from threadkeep.thread.records import SpawnBody


class LivingThread(ABC):
    """The living side of `Thread`; holds what it remembers of the tip and of the mailbox."""

    def __init__(self, backend: Backend, thread_id: str, *, dialect: Dialect, seed: bytes) -> None:
        self.id = thread_id
        self.dialect = dialect
        self._backend = backend
        self._seed = seed
        self._tip: Tip | None = None
        self._post = Post(backend, thread_id, dialect=dialect, seed=seed)

    @abstractmethod
    async def record(self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None) -> None:
        """Append items; see `Thread.record`."""

    @abstractmethod
    def sibling(self, thread_id: str) -> Self:
        """Return another thread of the store that speaks the same language."""

    def _arrivals(self, items: Sequence[Mapping[str, Any]]) -> list[Arrival]:
        redact = self._backend.redact
        return [arrival(self.dialect, self.dialect.parse(item), redact=redact) for item in items]

    def turn_lease(self) -> TurnLease:
        """Return the right to run a turn of this thread, not taken yet; `turn` does."""
        return TurnLease(self._backend, self.id)

    async def open_turn(
        self, items: Sequence[Mapping[str, Any]], *, model: str | None = None, issuer: str | None = None
    ) -> Opened:
        """Record a turn's input and say which turn that is; see `turn`."""
        store, arrivals = self._backend.store, self._arrivals(items)
        by_person = any(each.view.by_person and each.view.kind is ItemKind.MESSAGE for each in arrivals)
        left = None if by_person else await newest_turn(store, self.id, dialect=self.dialect)
        is_idle = left is None or left.thread != self.id or Progress(state=left.state).phase is Phase.NEXT_TURN
        by_mail = not by_person and is_idle and await self._opened_by_mail(arrivals, model=model, issuer=issuer)
        if not by_mail:
            await self.record(items, model=model, issuer=issuer)
        now = await newest_turn(store, self.id, dialect=self.dialect)
        if now is None:
            return Opened(number=0, at=0, by_person=False, under_way=False, progress=Progress())
        under_way = by_person or by_mail or not is_idle
        return Opened(number=now.number, at=now.ordinal, by_person=by_person, under_way=under_way, progress=now.progress)

    async def _opened_by_mail(self, arrivals: Sequence[Arrival], *, model: str | None, issuer: str | None) -> bool:
        tip, self._tip = self._tip, None
        mails = await self._post.open_turn(arrivals, model=model, issuer=issuer)
        self._tip = None if mails else tip
        return bool(mails)

    async def end_turn(self, over: TurnOver) -> None:
        """Write down how a turn ended; `turn` does."""
        self._tip = None
        await self._post.end_turn(over)

    async def turns(self) -> list[TurnStanding]:
        """Return every turn of the live path and where it stands, also where the process that ran it is gone."""
        return await every_turn(self._backend.store, self.id, dialect=self.dialect)

    async def newest_turn(self) -> TurnStanding | None:
        """Return the turn the thread is in, or was in last, and where it stands. Costs what that turn holds."""
        return await newest_turn(self._backend.store, self.id, dialect=self.dialect)

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
        return await self._post.deliver(Letter(content=content, sender=sender, way=_way(way), id=mail_id))

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
                    await watch.changed(within_s=LOOK_ANYWAY_S)
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
    ) -> Self:
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
        asked = Spawning(task=task, history=history, name=name, new_id=new_id)
        child = await spawn_thread(self._backend, self.id, asked, dialect=self.dialect, post=self._post)
        self._tip = None
        return self.sibling(child)

    async def report(self, text: str, *, way: Way | str = Way.QUEUE) -> Delivery:
        """Send a sub-agent's result to the thread that spawned it, once a turn, and close the edge to it.

        Raises:
            InvalidTarget: Nobody spawned this thread.
        """
        turn = await newest_turn(self._backend.store, self.id, dialect=self.dialect)
        mail = Letter(content=text, sender=self.id, way=_way(way), id=f"{self.id}#{turn.number if turn else 0}", answers=self.id)
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
        return await children_of(self._backend.store, self.id, status=status)

    async def descendants(self, *, status: str | None = None) -> list[Edge]:
        """Return the sub-agents below this thread, nearer ones first, then by id; `status` counts on every edge to them."""
        return await descendants_of(self._backend.store, self.id, status=status)


def _way(text: str) -> Way:
    if text not in tuple(Way):
        raise BadInput(f"mail cannot be sent as {str(text)!r}; the ways are {', '.join(Way)}")
    return Way(text)
