"""Threads related to a thread: its forks, its mail and its sub-agents."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from threadkeep.client import Thread, Threadkeep
from threadkeep.client.threadkeep import EVERY
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads.records import MailBody, SpawnBody, read_mail_record
from threadkeep.viewer.record_lines import LINE_CHARS, read_mail_text
from threadkeep.viewer.thread_list import find_title
from threadkeep.viewer.untrusted_text import shorten

MOST_RELATIVES = 200
MOST_MAIL = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A thread of a fork tree, with its forks, the earliest first."""

    row: ThreadRow
    title: str
    forks: tuple[Relative, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """A piece of mail and its record."""

    ordinal: int
    sender: str
    way: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mailbox:
    """The newest mail of a thread, newest first, and the last known state of its sub-agents."""

    mail: tuple[Mail, ...]
    agents: tuple[SpawnBody, ...]


async def find_fork_tree(store: ThreadStore, thread_id: str) -> Relative | None:
    """Return the fork tree of a thread, from its oldest ancestor on; None if it has neither parent nor forks."""
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
    members = _list_members(root, children)
    # From the youngest to the root, so that every fork exists before its parent. No recursion: forks may run deep.
    forks: defaultdict[str, list[Relative]] = defaultdict(list)
    for row in reversed(members):
        title = await find_title(store, row)
        relative = Relative(row=row, title=title, forks=tuple(reversed(forks[row.id])))
        if row.parent is not None:
            forks[row.parent].append(relative)
    return relative


def _list_members(root: ThreadRow, children: dict[str, list[ThreadRow]]) -> list[ThreadRow]:
    """Return the threads of a tree, parents before their forks, as many as a page shows."""
    members: list[ThreadRow] = []
    waiting = [root]
    while waiting and len(members) < MOST_RELATIVES:
        row = waiting.pop(0)
        members.append(row)
        waiting.extend(sorted(children[row.id], key=lambda child: (child.start, child.created_at_ms, child.id)))
    return members


async def read_mailbox(tk: Threadkeep, thread: Thread) -> Mailbox:
    """Return the mail and the sub-agents of a thread."""
    store = tk.backend.store
    row = await store.get(thread.id)
    own = Span(thread_id=row.id, start=row.start, stop=row.next)
    mail: list[Mail] = []
    agents: dict[str, SpawnBody] = {}
    for record in await store.read(own, kinds={RecordKind.MAIL}):
        body = read_mail_record(record)
        if isinstance(body, MailBody):
            text = shorten(read_mail_text(body, thread.dialect), limit=LINE_CHARS)
            mail.append(Mail(ordinal=record.ordinal, sender=body.sender, way=body.way, text=text))
        elif isinstance(body, SpawnBody):
            agents[body.child] = body
    return Mailbox(mail=tuple(reversed(mail[-MOST_MAIL:])), agents=tuple(agents.values()))
