"""Mail and sub-agents of a thread, as its records tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from threadkeep.client import Thread, Threadkeep
from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.store import Record, RecordKind, Span
from threadkeep.threads.records import MailBody, SpawnBody, TakenBody, TurnEndBody, correspondence
from threadkeep.viewer.cleaning import one_line

SHOWN = 12
LINE_CHARS = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """One piece of mail, and the record it lies in."""

    ordinal: int
    sender: str
    way: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A sub-agent: its thread, what it is called, and whether it still works."""

    thread: str
    name: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Correspondence:
    """The newest mail of a thread, newest first, and its sub-agents as last heard of."""

    letters: tuple[Letter, ...] = ()
    agents: tuple[Agent, ...] = ()


async def correspondence_of(tk: Threadkeep, thread: Thread) -> Correspondence:
    """Return the mail and the sub-agents of a thread."""
    store = tk.backend.store
    row = await store.get(thread.id)
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    letters: list[Letter] = []
    agents: dict[str, Agent] = {}
    for record in await store.read(own, kinds={RecordKind.MAIL}):
        match body := correspondence(record):
            case MailBody():
                text = one_line(mail_text(body, thread.dialect), limit=LINE_CHARS)
                letters.append(Letter(ordinal=record.ordinal, sender=body.sender, way=body.way, text=text))
            case SpawnBody():
                agents[body.child] = Agent(thread=body.child, name=body.name, status=body.status)
            case _:
                continue
    return Correspondence(letters=tuple(reversed(letters[-SHOWN:])), agents=tuple(agents.values()))


def told_in_mail(record: Record, dialect: Dialect) -> str:
    """Return what a `mail` record says, in a line."""
    body = correspondence(record)
    match body:
        case None:
            return "cannot be read"
        case MailBody():
            return f"from {body.sender or 'nobody named'} ({body.way}): {mail_text(body, dialect)}"
        case TakenBody():
            return f"every mail before #{body.upto} is in the history"
        case TurnEndBody():
            return f"turn {body.turn} {body.outcome}{f': {body.reason}' if body.reason else ''}"
        case SpawnBody():
            return f"sub-agent {body.name or body.child} is {body.status}"
        case _:
            assert_never(body)


def mail_text(body: MailBody, dialect: Dialect) -> str:
    """Return the words of a piece of mail."""
    return " ".join(dialect.view(Item(bytes(item))).text for item in body.items)
