"""A thread's mailbox: what was delivered to it and is not in its history yet, as its records tell.

Mail belongs to the thread, not to a path through it: a rollback takes back what was heard, never what still waits, and a fork
is somebody else. It is kept in the order it was delivered and leaves in that order, so one ordinal says what was taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

import msgspec

from threadkeep.items import Item
from threadkeep.store import Record, RecordKind
from threadkeep.thread.records import (
    CorrespondenceBody,
    MailBody,
    SpawnBody,
    TakenBody,
    TurnEndBody,
    decode_correspondence,
)


class Way(StrEnum):
    """How mail asks to be heard.

    `QUEUE` waits for a turn that others start, `TRIGGER` starts one where none runs, `STEER` is said to whoever is at work: it
    joins the turn under way even after its answer, and starts one otherwise.
    """

    QUEUE = "queue"
    TRIGGER = "trigger"
    STEER = "steer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """Something delivered; `ordinal` is its record, and its place in the order."""

    ordinal: int
    id: str
    sender: str
    way: Way
    items: tuple[Item, ...]
    answers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnd:
    """The mark at `ordinal` that says how a turn ended."""

    ordinal: int
    turn: int
    outcome: str
    reason: str
    asleep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """The mail that waits, oldest first, as of ordinal `upto`; and how the newest turn that has a mark ended.

    Mail below `taken_to` is in the history.
    """

    pending: tuple[Mail, ...] = ()
    taken_to: int = 0
    upto: int = 0
    ended: TurnEnd | None = None

    @property
    def steered(self) -> bool:
        """Whether somebody spoke to whoever is at work."""
        return any(mail.way is Way.STEER for mail in self.pending)

    @property
    def starts_turn(self) -> bool:
        """Whether a thread with no turn under way is to begin one; if it sleeps, anything wakes it."""
        if self.ended is not None and self.ended.asleep and self.pending:
            return True
        return any(mail.way is not Way.QUEUE for mail in self.pending)

    def after(self, records: Sequence[Record], *, upto: int) -> Mailbox:
        """Return the mailbox after further records of its thread, oldest first, all of them below `upto`."""
        delivered = list(self.pending)
        taken_to, ended = self.taken_to, self.ended
        for record in records:
            body = correspondence(record)
            match body:
                case MailBody():
                    delivered.append(mail_from(record, body))
                case TakenBody():
                    taken_to = max(taken_to, body.upto)
                case TurnEndBody():
                    taken_to = max(taken_to, body.mail_from)
                    ended = TurnEnd(
                        ordinal=record.ordinal, turn=body.turn, outcome=body.outcome, reason=body.reason, asleep=body.asleep
                    )
                case SpawnBody() | None:
                    pass
                case _:
                    assert_never(body)
        pending = tuple(mail for mail in delivered if mail.ordinal >= taken_to)
        return Mailbox(pending=pending, taken_to=taken_to, upto=upto, ended=ended)


def correspondence(record: Record) -> CorrespondenceBody | None:
    """Return what a `mail` record says; None where it was erased, is damaged, or was written by a newer threadkeep."""
    if record.kind is not RecordKind.MAIL or record.erased:
        return None
    try:
        return decode_correspondence(record.body)
    except msgspec.MsgspecError:
        return None


def mail_from(record: Record, body: MailBody) -> Mail:
    """Return the mail a record holds. A way nobody knows yet waits like any other mail."""
    way = Way(body.way) if body.way in tuple(Way) else Way.QUEUE
    items = tuple(Item(bytes(item)) for item in body.items)
    return Mail(ordinal=record.ordinal, id=body.id, sender=body.sender, way=way, items=items, answers=body.answers)


def settles(body: CorrespondenceBody) -> int | None:
    """Return the ordinal below which no mail waits, where this says so: reading back for mail may end there."""
    match body:
        case TakenBody():
            return body.upto
        case TurnEndBody():
            return body.mail_from
        case MailBody() | SpawnBody():
            return None
        case _:
            assert_never(body)
