"""Threads related to a thread: forks, mail and sub-agents."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.client.threadkeep import EVERY
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads.records import MailBody, SpawnBody, read_mail_record
from threadkeep.viewer.record_lines import LINE_CHARS, mail_text
from threadkeep.viewer.thread_list import title_of
from threadkeep.viewer.untrusted_text import one_line

# A family is shown whole up to this many members; with more of them nobody reads it.
MOST_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread of the family, with its forks, the earliest first."""

    row: ThreadRow
    title: str
    forks: tuple[Relative, ...]


async def family_of(store: ThreadStore, thread_id: str) -> Relative | None:
    """Return the tree a thread stands in, from its oldest ancestor on; None where it stands alone."""
    rows = {row.id: row for row in await store.threads(limit=EVERY)}
    children: defaultdict[str, list[ThreadRow]] = defaultdict(list)
    for row in rows.values():
        if row.parent is not None:
            children[row.parent].append(row)
    root = rows[thread_id]
    while root.parent is not None and root.parent in rows:
        root = rows[root.parent]
    if not children[root.id]:
        return None
    members = _members(root, children)
    titles = {row.id: await title_of(store, row) for row in members}
    return _grown(members, titles)


def _members(root: ThreadRow, children: dict[str, list[ThreadRow]]) -> list[ThreadRow]:
    """Return the family, parents before children. No recursion: forks may run deep."""
    members: list[ThreadRow] = []
    waiting = [root]
    while waiting and len(members) < MOST_SHOWN:
        row = waiting.pop(0)
        members.append(row)
        waiting.extend(sorted(children[row.id], key=lambda child: (child.start, child.created_at_ms, child.id)))
    return members


def _grown(members: list[ThreadRow], titles: dict[str, str]) -> Relative:
    """Put the family together from its youngest on, so that every fork is there when its parent is made."""
    forks: defaultdict[str, list[Relative]] = defaultdict(list)
    for row in reversed(members):
        relative = Relative(row=row, title=titles[row.id], forks=tuple(reversed(forks[row.id])))
        if row.parent is not None:
            forks[row.parent].append(relative)
    return relative


SHOWN = 12


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
        match body := read_mail_record(record):
            case MailBody():
                text = one_line(mail_text(body, thread.dialect), limit=LINE_CHARS)
                letters.append(Letter(ordinal=record.ordinal, sender=body.sender, way=body.way, text=text))
            case SpawnBody():
                agents[body.child] = Agent(thread=body.child, name=body.name, status=body.status)
            case _:
                continue
    return Correspondence(letters=tuple(reversed(letters[-SHOWN:])), agents=tuple(agents.values()))
