"""A thread's mailbox: delivery, waiting mail, and which turn takes it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from html import escape
from typing import assert_never

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import OrdinalConflict
from threadkeep.items import Item, View
from threadkeep.store import NewRecord, Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads.backend import ThreadBackend
from threadkeep.threads.item_records import PREVIEW_CHARS, Arrival, Tip, make_records
from threadkeep.threads.reader import load_current_turn, load_tip
from threadkeep.threads.records import (
    MailBody,
    MailRecordBody,
    SpawnBody,
    TakenBody,
    TurnBody,
    TurnEndBody,
    TurnEvent,
    encode_body,
    read_mail_record,
)
from threadkeep.threads.turn_state import Phase, Progress
from threadkeep.threads.writer import make_arrival


class Way(StrEnum):
    """How mail reaches the agent.

    `QUEUE` waits for the next turn, `TRIGGER` starts a turn if none runs, `STEER` joins the running turn even after its answer,
    and starts one otherwise.
    """

    QUEUE = "queue"
    TRIGGER = "trigger"
    STEER = "steer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """Delivered mail; `ordinal` is its record and its place in the order."""

    ordinal: int
    id: str
    sender: str
    way: Way
    items: tuple[Item, ...]
    answers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """The mail that waits before ordinal `upto`, oldest first; mail below `taken_to` is in the history.

    `asleep` says that the last turn ended asleep.
    """

    pending: tuple[Mail, ...] = ()
    taken_to: int = 0
    upto: int = 0
    asleep: bool = False

    @property
    def steered(self) -> bool:
        """Whether any waiting mail steers the running turn."""
        return any(mail.way is Way.STEER for mail in self.pending)

    @property
    def starts_turn(self) -> bool:
        """Whether an idle thread must begin a turn for its mail; a sleeping one does for any mail."""
        return any(self.asleep or mail.way is not Way.QUEUE for mail in self.pending)

    def add_records(self, records: Sequence[Record], *, upto: int) -> Mailbox:
        """Return the mailbox after more records of its thread, oldest first, all below `upto`."""
        delivered, taken_to, asleep = list(self.pending), self.taken_to, self.asleep
        for record in records:
            body = read_mail_record(record)
            taken_to = max(taken_to, find_floor(body))
            if isinstance(body, MailBody):
                delivered.append(read_mail(record, body))
            elif isinstance(body, TurnEndBody):
                asleep = body.asleep
        pending = tuple(mail for mail in delivered if mail.ordinal >= taken_to)
        return Mailbox(pending=pending, taken_to=taken_to, upto=upto, asleep=asleep)


def read_mail(record: Record, body: MailBody) -> Mail:
    """Return the mail of a record; an unknown `way` counts as `QUEUE`."""
    way = Way(body.way) if body.way in tuple(Way) else Way.QUEUE
    items = tuple(Item(bytes(item)) for item in body.items)
    return Mail(ordinal=record.ordinal, id=body.id, sender=body.sender, way=way, items=items, answers=body.answers)


def find_floor(body: MailRecordBody | None) -> int:
    """Return the ordinal below which no mail waits, as far as this record says; reading back may end there."""
    match body:
        case TakenBody():
            return body.upto
        case TurnEndBody():
            return body.mail_from
        case MailBody() | SpawnBody() | None:
            return 0
        case _:
            assert_never(body)


ELEMENT = "agent-message"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenTurn:
    """What the mailbox needs to know about the running turn.

    Attributes:
        opened_at: The ordinal where it begins.
        input_unheard: A person's input opened it, and the model was not asked yet.
        compacted: A compaction made room for the next request.
    """

    progress: Progress
    opened_at: int
    input_unheard: bool = False
    compacted: bool = False


def select_joining_mail(box: Mailbox, turn: OpenTurn) -> tuple[Mail, ...]:
    """Return the mail that joins the turn with the next request, oldest first.

    No mail joins the first request of a person's turn, or the request right after a compaction while tool outputs wait. After
    the answer, mail joins only if some of it reopens the turn.
    """
    if turn.input_unheard or (turn.compacted and turn.progress.called):
        return ()
    if turn.progress.phase is Phase.NEXT_TURN and not any(_can_reopen(mail, turn) for mail in box.pending):
        return ()
    return box.pending


def has_next_request(box: Mailbox, turn: OpenTurn) -> bool:
    """Whether the turn has another request to make: the model made a call, or mail may still join."""
    if turn.progress.called or any(_can_reopen(mail, turn) for mail in box.pending):
        return True
    return turn.progress.phase is Phase.CURRENT_TURN and bool(box.pending)


def should_interrupt(box: Mailbox, turn: OpenTurn) -> bool:
    """Whether to interrupt the answer now: an agent's mail waits, and only reasoning or commentary came last.

    Steering mail waits for the whole answer and its tool outputs.
    """
    return turn.progress.may_break and any(mail.way is not Way.STEER for mail in box.pending)


def select_leftover_mail(box: Mailbox, turn: OpenTurn) -> tuple[Mail, ...]:
    """Return the mail that enters the history when the turn closes: queued mail that waited when the turn opened."""
    left: list[Mail] = []
    for mail in box.pending:
        if mail.way is not Way.QUEUE or mail.ordinal >= turn.opened_at:
            break
        left.append(mail)
    return tuple(left)


def _can_reopen(mail: Mail, turn: OpenTurn) -> bool:
    return mail.way is Way.STEER or (mail.way is Way.TRIGGER and mail.ordinal < turn.opened_at)


def make_taken_records(
    tip: Tip, mails: Sequence[Mail], arrivals: Sequence[Arrival], *, key: bytes, at_ms: int
) -> tuple[list[NewRecord], Tip]:
    """Return the records that put `mails` into the running turn, and the tip after them; `arrivals` are their items in order.

    Each item points at its mail, and the last record says that all were taken. Append them as one unit, so that mail is taken
    once.
    """
    sources = [mail.ordinal for mail in mails for _ in mail.items]
    laid, after = make_records(tip, arrivals, key=key, at_ms=at_ms)
    # A steering message belongs to the running turn.
    items = [record for record in laid if record.kind is not RecordKind.TURN]
    records = [replace(record, turn=tip.turn, target=source) for record, source in zip(items, sources, strict=True)]
    body = encode_body(TakenBody(upto=mails[-1].ordinal + 1))
    records.append(NewRecord(kind=RecordKind.MAIL, at_ms=at_ms, turn=tip.turn, tokens=0, body=body))
    return records, replace(after, turn=tip.turn, next=tip.next + len(records))


def make_mail_turn(
    tip: Tip, mails: Sequence[Mail], views: Sequence[View], *, at_ms: int, model: str | None, issuer: str | None
) -> NewRecord:
    """Return the record that opens a turn for mail."""
    senders = ", ".join(dict.fromkeys(mail.sender for mail in mails if mail.sender))
    text = next((view.text for view in views if view.text.strip()), "")
    preview = " ".join(f"{senders}: {text}".split() if senders else text.split())[:PREVIEW_CHARS]
    body = encode_body(TurnBody(preview=preview, model=model, issuer=issuer, opened_by="mail"))
    return NewRecord(kind=RecordKind.TURN, at_ms=at_ms, turn=tip.turn + 1, tokens=0, body=body)


def render_mail(text: str, *, sender: str, way: Way, answers: str = "") -> str:
    """Render an agent's mail for a model, in a host element so that it is not taken for a person's words.

    The text cannot close the element: its end tag is escaped.
    """
    kind = "final_answer" if answers else "new_task" if way is Way.TRIGGER else "message"
    inner = text.replace(f"</{ELEMENT}", f"<\\/{ELEMENT}")
    about = f' about="{escape(answers)}"' if answers else ""
    return f'<{ELEMENT} from="{escape(sender)}" type="{kind}"{about}>\n{inner}\n</{ELEMENT}>'


def is_task(text: str) -> bool:
    """Whether a text is a task of another agent, as `render_mail` writes it."""
    return text.startswith(f"<{ELEMENT} ") and ' type="new_task"' in text.partition(">")[0]


def list_items(mails: Sequence[Mail]) -> list[Item]:
    """Return the items of mails, in order."""
    return [item for mail in mails for item in mail.items]


PAGE = 64
# The store notifies of mail; if a notification is lost, the mail is found after this long.
LOOK_ANYWAY_S = 15.0

Choose = Callable[[Mailbox], Sequence[Mail]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingMail:
    """Mail about to be delivered: an agent's text, or items in the thread's dialect.

    Attributes:
        id: The sender's name for it; the same id is delivered once. None makes up an id.
        answers: The task it is the result of.
    """

    content: str | Sequence[Mapping[str, object]]
    sender: str = ""
    way: Way = Way.QUEUE
    id: str | None = None
    answers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The result of a delivery: the mail's id, its record, and whether it was new."""

    id: str
    ordinal: int
    is_new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnClose:
    """How a turn ends. `choose` selects the mail that enters the history with it, `said` is the host's text for the model.

    `events` are its steps.
    """

    turn: int
    outcome: str
    reason: str = ""
    asleep: bool = False
    choose: Choose = lambda box: ()
    said: str = ""
    events: tuple[TurnEvent, ...] = ()


class MailService:
    """The mailbox of one thread, with a cache of what was read."""

    def __init__(self, backend: ThreadBackend, thread_id: str, *, dialect: Dialect, seed: bytes) -> None:
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
            box = await _load_mailbox(store, row)
        elif row.next > box.upto:
            new = await store.read(Span(thread_id=row.id, start=box.upto, stop=row.next), kinds={RecordKind.MAIL})
            box = box.add_records(new, upto=row.next)
        # Another task may have read further meanwhile.
        if self._box is None or self._box.upto < box.upto:
            self._box = box
        return box

    async def wait(self, until: Callable[[Mailbox], bool], *, timeout_s: float | None) -> Mailbox:
        """Return the mailbox once `until` is true of it, or after `timeout_s`."""
        try:
            async with asyncio.timeout(timeout_s), self._backend.store.watch(self._thread_id) as watch:
                while not until(box := await self.look()):
                    await watch.wait(within_s=LOOK_ANYWAY_S)
        except TimeoutError:
            return await self.look()
        return box

    async def deliver(self, mail: OutgoingMail, *, edge: SpawnBody | None = None) -> Delivery:
        """Deliver mail. Durable when it returns; the same id is delivered once.

        `edge` updates a sub-agent's edge in the same unit.

        Raises:
            InvalidItem: An item is not of the thread's dialect; nothing was delivered.
        """
        name = mail.id if mail.id is not None else secrets.token_hex(12)
        body = encode_body(
            MailBody(id=name, items=self._encode_items(mail), sender=mail.sender, way=mail.way, answers=mail.answers)
        )
        edges = [encode_body(edge)] if edge is not None else []
        while True:
            row = await self._backend.store.get(self._thread_id)
            known = await self._find_delivered(name, row) if mail.id is not None else None
            if known is not None:
                return Delivery(id=name, ordinal=known, is_new=False)
            if await self._try_append(row, [body, *edges]):
                return Delivery(id=name, ordinal=row.next, is_new=True)

    async def note(self, body: SpawnBody) -> None:
        """Record a sub-agent's edge."""
        while not await self._try_append(await self._backend.store.get(self._thread_id), [encode_body(body)]):
            continue

    async def take(self, choose: Choose) -> tuple[Mail, ...]:
        """Put the mail that `choose` selects into the running turn and return it. Durable when it returns."""
        while True:
            box = await self.look()
            mails = tuple(choose(box))
            if not mails:
                return ()
            tip = await self._load_tip(box)
            records, _ = make_taken_records(tip, mails, self._make_arrivals(list_items(mails)), key=self._key, at_ms=self._now)
            if await self._try_append_at(box.upto, records):
                return mails

    async def open_turn(self, items: Sequence[Arrival], *, model: str | None, issuer: str | None = None) -> tuple[Mail, ...]:
        """Open a turn with `items` and all waiting mail and return that mail; do nothing if none waits."""
        while True:
            box = await self.look()
            mails = box.pending
            if not mails:
                return ()
            tip = await self._load_tip(box)
            taken = self._make_arrivals(list_items(mails))
            views = [each.view for each in (*items, *taken)]
            opening = make_mail_turn(tip, mails, views, at_ms=self._now, model=model, issuer=issuer)
            begun = Tip(next=tip.next + 1, turn=opening.turn, depth=tip.depth, chain=tip.chain)
            given, after = make_records(begun, items, key=self._key, at_ms=self._now)
            records, _ = make_taken_records(after, mails, taken, key=self._key, at_ms=self._now)
            if await self._try_append_at(box.upto, [opening, *given, *records]):
                return mails

    async def end_turn(self, over: TurnClose) -> None:
        """Record a turn's end and the mail that enters the history with it, as one unit."""
        while True:
            box = await self.look()
            mails = tuple(over.choose(box))
            tip = await self._load_tip(box)
            records: list[NewRecord] = []
            if mails:
                records, tip = make_taken_records(
                    tip, mails, self._make_arrivals(list_items(mails)), key=self._key, at_ms=self._now
                )
            if over.said:
                told = self._make_arrivals([self._dialect.make_user_message(over.said)])
                records += make_records(tip, told, key=self._key, at_ms=self._now)[0]
            waiting = box.pending[len(mails) :]
            body = TurnEndBody(
                turn=over.turn,
                outcome=over.outcome,
                mail_from=waiting[0].ordinal if waiting else box.upto,
                reason=over.reason,
                asleep=over.asleep,
                events=list(over.events),
            )
            records.append(self._record(encode_body(body), turn=tip.turn))
            if await self._try_append_at(box.upto, records):
                return

    @property
    def _key(self) -> bytes:
        return self._backend.store.tenant.key

    @property
    def _now(self) -> int:
        return self._backend.clock.now_ms()

    def _encode_items(self, mail: OutgoingMail) -> list[msgspec.Raw]:
        """Return the items of mail, redacted before anything is written."""
        content = mail.content
        if isinstance(content, str):
            steers = mail.way is Way.STEER
            text = content if steers else render_mail(content, sender=mail.sender, way=mail.way, answers=mail.answers)
            items = [self._dialect.make_user_message(text)]
        else:
            items = [self._dialect.parse(item) for item in content]
        redact = self._backend.redact
        return [msgspec.Raw(redact(item.raw) if redact else item.raw) for item in items]

    def _make_arrivals(self, items: Sequence[Item]) -> list[Arrival]:
        return [make_arrival(self._dialect, item) for item in items]

    async def _load_tip(self, box: Mailbox) -> Tip:
        return await load_tip(self._backend.store, self._thread_id, seed=self._seed, stop=box.upto)

    def _record(self, body: bytes, *, turn: int) -> NewRecord:
        return NewRecord(kind=RecordKind.MAIL, at_ms=self._now, turn=turn, tokens=0, body=body)

    async def _try_append(self, row: ThreadRow, bodies: Sequence[bytes]) -> bool:
        turn = await load_current_turn(self._backend.store, row, stop=row.next)
        return await self._try_append_at(row.next, [self._record(body, turn=turn) for body in bodies])

    async def _try_append_at(self, expected: int, records: Sequence[NewRecord]) -> bool:
        try:
            await self._backend.append(self._thread_id, records, expected=expected)
        except OrdinalConflict:
            return False
        return True

    async def _find_delivered(self, mail_id: str, row: ThreadRow) -> int | None:
        """Return the record of the mail with this id. The first call reads all mail of the thread, later ones the new."""
        start = row.start if self._ids_upto is None else self._ids_upto
        while start < row.next:
            span = Span(thread_id=row.id, start=start, stop=row.next)
            page = await self._backend.store.read(span, kinds={RecordKind.MAIL}, limit=PAGE)
            for record in page:
                body = read_mail_record(record)
                if isinstance(body, MailBody):
                    self._ids.setdefault(body.id, record.ordinal)
            start = page[-1].ordinal + 1 if len(page) == PAGE else row.next
        self._ids_upto = max(row.next, self._ids_upto or 0)
        return self._ids.get(mail_id)


async def _load_mailbox(store: ThreadStore, row: ThreadRow) -> Mailbox:
    """Load a mailbox, reading back from the newest record until one says that nothing older waits."""
    floor, stop = row.start, row.next
    found: list[Record] = []
    while stop > floor:
        span = Span(thread_id=row.id, start=floor, stop=stop)
        page = await store.read(span, kinds={RecordKind.MAIL}, newest_first=True, limit=PAGE)
        floor = max(floor, *(find_floor(read_mail_record(record)) for record in page), 0)
        found.extend(page)
        stop = page[-1].ordinal if len(page) == PAGE else floor
    return Mailbox().add_records(found[::-1], upto=row.next)
