"""A thread's mailbox in a store: delivering to it, waiting at it, and taking what waits into the history, once.

Everything is one append that compares the tip: whoever loses a race looks again and decides anew, so any number of processes may
deliver to a thread while another runs its turns.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import OrdinalConflict
from threadkeep.items import Item
from threadkeep.runtime.backend import Backend
from threadkeep.runtime.reading import current_turn, load_tip
from threadkeep.runtime.recording import arrival
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.thread import Arrival, Tip, encode_body, lay_down
from threadkeep.thread.delivery import items_of, letter, take, turn_by_mail
from threadkeep.thread.mailbox import Mail, Mailbox, Way, correspondence, settles
from threadkeep.thread.records import MailBody, SpawnBody, TurnEndBody

PAGE = 64
# A store tells of mail, whoever delivers it; should word of it be lost, it is found after this long.
LOOK_ANYWAY_S = 15.0

Choose = Callable[[Mailbox], Sequence[Mail]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """Mail about to be delivered: text of an agent, or items in the thread's own language.

    Attributes:
        id: The sender's name for it; one that was delivered before is not delivered again. Made up, if None.
        answers: The task it is the result of.
    """

    content: str | Sequence[Mapping[str, Any]]
    sender: str = ""
    way: Way = Way.QUEUE
    id: str | None = None
    answers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """What became of mail: its id, its record, and whether it was new."""

    id: str
    ordinal: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnOver:
    """How a turn ends. `choose` says what goes into the history with its end, `said` what the host tells the model of it."""

    turn: int
    outcome: str
    reason: str = ""
    asleep: bool = False
    choose: Choose = lambda box: ()
    said: str = ""


class Post:
    """The mailbox of one thread. What it has read it remembers, and reads on from there."""

    def __init__(self, backend: Backend, thread_id: str, *, dialect: Dialect, seed: bytes) -> None:
        self._backend = backend
        self._thread_id = thread_id
        self._dialect = dialect
        self._seed = seed
        self._box: Mailbox | None = None
        self._ids: dict[str, int] = {}
        self._ids_upto: int | None = None

    async def look(self) -> Mailbox:
        """Return the mailbox as it is now."""
        store = self._backend.store
        row = await store.get(self._thread_id)
        box = self._box
        if box is None:
            box = await _first_look(store, row)
        elif row.next > box.upto:
            new = await store.read(Span(thread_id=row.id, start=box.upto, stop=row.next), kinds={RecordKind.MAIL})
            box = box.after(new, upto=row.next)
        # Another task of this process may have looked meanwhile, and further.
        if self._box is None or self._box.upto < box.upto:
            self._box = box
        return box

    async def wait(self, *, timeout_s: float | None) -> Mailbox:
        """Return the mailbox once there is mail in it, or as it is after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._backend.store.watch(self._thread_id) as watch:
                while not (box := await self.look()).pending:
                    await watch.changed(within_s=LOOK_ANYWAY_S)
        except TimeoutError:
            return await self.look()
        return box

    async def deliver(self, mail: Letter, *, edge: SpawnBody | None = None) -> Delivery:
        """Put mail into the box. Durable when it returns; the same id is there once, whoever delivers it how often.

        `edge` is what becomes of a sub-agent with it, as one unit.

        Raises:
            InvalidItem: An item is not one of the thread's dialect; nothing was delivered.
        """
        name = mail.id if mail.id is not None else secrets.token_hex(12)
        body = encode_body(MailBody(id=name, items=self._written(mail), sender=mail.sender, way=mail.way, answers=mail.answers))
        edges = [encode_body(edge)] if edge is not None else []
        while True:
            row = await self._backend.store.get(self._thread_id)
            known = await self._delivered(name, row) if mail.id is not None else None
            if known is not None:
                return Delivery(id=name, ordinal=known, is_new=False)
            if await self._appended(row, [body, *edges]):
                return Delivery(id=name, ordinal=row.next, is_new=True)

    async def note(self, body: SpawnBody) -> None:
        """Write something down among the mail that is no mail."""
        while not await self._appended(await self._backend.store.get(self._thread_id), [encode_body(body)]):
            continue

    async def take(self, choose: Choose) -> tuple[Mail, ...]:
        """Put the mail that `choose` picks into the turn under way and return it; durable when it returns."""
        while True:
            box = await self.look()
            mails = tuple(choose(box))
            if not mails:
                return ()
            tip = await self._tip(box)
            records, _ = take(tip, mails, self._arrivals(items_of(mails)), key=self._key, at_ms=self._now)
            if await self._written_at(box.upto, records):
                return mails

    async def open_turn(self, items: Sequence[Arrival], *, model: str | None, issuer: str | None = None) -> tuple[Mail, ...]:
        """Open a turn that no person asked for, with `items` and all mail that waits, and return that mail.

        Nothing happens, and nothing is returned, if none waits.
        """
        while True:
            box = await self.look()
            mails = box.pending
            if not mails:
                return ()
            tip = await self._tip(box)
            taken = self._arrivals(items_of(mails))
            views = [each.view for each in (*items, *taken)]
            opening = turn_by_mail(tip, mails, views, at_ms=self._now, model=model, issuer=issuer)
            begun = Tip(next=tip.next + 1, turn=opening.turn, depth=tip.depth, chain=tip.chain)
            given, after = lay_down(begun, items, key=self._key, at_ms=self._now)
            records, _ = take(after, mails, taken, key=self._key, at_ms=self._now)
            if await self._written_at(box.upto, [opening, *given, *records]):
                return mails

    async def end_turn(self, over: TurnOver) -> None:
        """Write down how a turn ended, and what goes into the history with it, as one unit."""
        while True:
            box = await self.look()
            mails = tuple(over.choose(box))
            tip = await self._tip(box)
            records: list[NewRecord] = []
            if mails:
                records, tip = take(tip, mails, self._arrivals(items_of(mails)), key=self._key, at_ms=self._now)
            if over.said:
                told = self._arrivals([self._dialect.state_item(over.said)])
                records += lay_down(tip, told, key=self._key, at_ms=self._now)[0]
            waiting = box.pending[len(mails) :]
            body = TurnEndBody(
                turn=over.turn,
                outcome=over.outcome,
                mail_from=waiting[0].ordinal if waiting else box.upto,
                reason=over.reason,
                asleep=over.asleep,
            )
            records.append(self._record(encode_body(body), turn=tip.turn))
            if await self._written_at(box.upto, records):
                return

    @property
    def _key(self) -> bytes:
        return self._backend.store.tenant.key

    @property
    def _now(self) -> int:
        return self._backend.clock.now_ms()

    def _written(self, mail: Letter) -> list[msgspec.Raw]:
        """Return the items mail becomes. What may not be kept of them is left out before anything is written."""
        content = mail.content
        if isinstance(content, str):
            steers = mail.way is Way.STEER
            text = content if steers else letter(content, sender=mail.sender, way=mail.way, answers=mail.answers)
            items = [self._dialect.state_item(text)]
        else:
            items = [self._dialect.parse(item) for item in content]
        redact = self._backend.redact
        return [msgspec.Raw(redact(item.raw) if redact else item.raw) for item in items]

    def _arrivals(self, items: Sequence[Item]) -> list[Arrival]:
        return [arrival(self._dialect, item) for item in items]

    async def _tip(self, box: Mailbox) -> Tip:
        return await load_tip(self._backend.store, self._thread_id, seed=self._seed, stop=box.upto)

    def _record(self, body: bytes, *, turn: int) -> NewRecord:
        return NewRecord(kind=RecordKind.MAIL, at_ms=self._now, turn=turn, tokens=0, body=body)

    async def _appended(self, row: ThreadRow, bodies: Sequence[bytes]) -> bool:
        turn = await current_turn(self._backend.store, row, stop=row.next)
        return await self._written_at(row.next, [self._record(body, turn=turn) for body in bodies])

    async def _written_at(self, expected: int, records: Sequence[NewRecord]) -> bool:
        try:
            await self._backend.append(self._thread_id, records, expected=expected)
        except OrdinalConflict:
            return False
        return True

    async def _delivered(self, mail_id: str, row: ThreadRow) -> int | None:
        """Return the record of the mail with this id. The first question reads all mail there ever was, later ones the new."""
        start = row.start if self._ids_upto is None else self._ids_upto
        while start < row.next:
            span = Span(thread_id=row.id, start=start, stop=row.next)
            page = await self._backend.store.read(span, kinds={RecordKind.MAIL}, limit=PAGE)
            for record in page:
                body = correspondence(record)
                if isinstance(body, MailBody):
                    self._ids.setdefault(body.id, record.ordinal)
            start = page[-1].ordinal + 1 if len(page) == PAGE else row.next
        self._ids_upto = max(row.next, self._ids_upto or 0)
        return self._ids.get(mail_id)


async def _first_look(store: ThreadStore, row: ThreadRow) -> Mailbox:
    """Return a mailbox, read from the newest record back to where one says that nothing older waits."""
    floor, stop = row.start, row.next
    found: list[Record] = []
    while stop > floor:
        span = Span(thread_id=row.id, start=floor, stop=stop)
        page = await store.read(span, kinds={RecordKind.MAIL}, newest_first=True, limit=PAGE)
        for record in page:
            body = correspondence(record)
            floor = max(floor, (settles(body) if body is not None else None) or floor)
        found.extend(page)
        stop = page[-1].ordinal if len(page) == PAGE else floor
    return Mailbox().after(found[::-1], upto=row.next)
