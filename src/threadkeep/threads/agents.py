"""Sub-agents: threads spawned by another thread, the edges to them, and their reports."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import msgspec

from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidArgument, InvalidTarget, ThreadExists, ThreadNotFound
from threadkeep.items import find_boundaries, seed_chain
from threadkeep.store import NewRecord, NewThread, RecordKind, Span, ThreadStore
from threadkeep.threads import Checkpoint, LivePath, MetaBody, check_thread_id, encode_body
from threadkeep.threads.backend import ThreadBackend, new_thread_id
from threadkeep.threads.mailbox import Delivery, MailService, OutgoingMail, Way, render_mail
from threadkeep.threads.reader import find_turn_back, load_history, load_live_path, load_metadata
from threadkeep.threads.records import MailBody, SpawnBody, read_mail_record

OPEN, CLOSED = "open", "closed"
STRATEGY = "spawn"
# An empty session state and audit, as `threadkeep.compaction` writes them.
EMPTY_STATE = b'{"entries":[],"age":0,"next_number":1,"journal":{"facts":{}}}'
EMPTY_AUDIT = b'{"required":0,"kept":0}'


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """A sub-agent to be spawned; see `Thread.spawn`."""

    task: str | None
    history: Literal["full", "none"] | int
    name: str
    new_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A parent, its sub-agent, and whether a report is still expected (`open` or `closed`). `depth` is 1 for a child."""

    parent: str
    child: str
    status: str
    name: str
    depth: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    """Where a child begins: in `parent` before `at`, with nothing before `cut` in its window."""

    parent: str
    at: int
    turn: int
    cut: int | None = None
    covers: int = 0


async def spawn_thread(
    backend: ThreadBackend, parent_id: str, asked: SpawnRequest, *, dialect: Dialect, post: MailService
) -> str:
    """Create a sub-agent's thread with its task in its mailbox, then the edge to it, and return its id.

    The child is created first: after a crash in between, spawning the same id again adopts it. An existing child gets the task
    as mail, unless it already got it since its edge was last opened; a closed edge is opened again.

    Raises:
        InvalidArgument: `history` has no such value.
        InvalidThreadId: `new_id` is not a valid thread id.
        ThreadExists: A thread of that id exists, and another thread spawned it.
    """
    if asked.history not in ("full", "none") and type(asked.history) is not int:
        raise InvalidArgument("history", f"history is 'full', 'none' or a number of turns, not {asked.history!r}")
    now = backend.clock.now_ms()
    child_id = check_thread_id(asked.new_id) if asked.new_id is not None else new_thread_id(now)
    origin = await _find_origin(backend, parent_id, asked.history, dialect=dialect)
    start = origin.at if origin else 0
    turn = origin.turn if origin else 0
    meta = MetaBody(dialect=dialect.name, parent=origin.parent if origin else None, spawned_by=parent_id)
    records = [NewRecord(kind=RecordKind.META, at_ms=now, turn=turn, tokens=0, body=encode_body(meta))]
    if origin is not None and origin.cut is not None:
        records.append(_make_cut(origin.cut, covers=origin.covers, turn=turn, at_ms=now))
    if asked.task is not None:
        body = encode_body(_make_task(asked.task, parent_id=parent_id, child_id=child_id, dialect=dialect, backend=backend))
        records.append(NewRecord(kind=RecordKind.MAIL, at_ms=now, turn=turn, tokens=0, body=body))
    made = NewThread(id=child_id, dialect=dialect.name, created_at_ms=now, start=start, parent=origin.parent if origin else None)
    try:
        await backend.store.create(made, records)
    except ThreadExists:
        if await find_spawner(backend.store, child_id) != parent_id:
            raise
        if await _deliver_again(backend, parent_id, child_id, asked.task, dialect=dialect):
            return child_id
    await post.note(SpawnBody(child=child_id, status=OPEN, name=asked.name))
    return child_id


async def _deliver_again(backend: ThreadBackend, parent_id: str, child_id: str, task: str | None, *, dialect: Dialect) -> bool:
    """Deliver a task to an existing child; return whether its edge is open."""
    edges = [body for body in await _load_edges(backend.store, parent_id) if body.child == child_id]
    if task is not None:
        closings = sum(body.status == CLOSED for body in edges)
        seed = seed_chain(backend.store.tenant.key, dialect=dialect.name)
        mail = OutgoingMail(content=task, sender=parent_id, way=Way.TRIGGER, id=_make_task_id(child_id, task, closings=closings))
        await MailService(backend, child_id, dialect=dialect, seed=seed).deliver(mail)
    return bool(edges) and edges[-1].status == OPEN


async def report_to_parent(backend: ThreadBackend, child_id: str, mail: OutgoingMail, *, dialect: Dialect) -> Delivery:
    """Deliver a sub-agent's result to its parent and close the edge, as one unit.

    Raises:
        InvalidTarget: No thread spawned it.
    """
    parent_id = await find_spawner(backend.store, child_id)
    if parent_id is None:
        raise InvalidTarget(child_id, "was spawned by no thread, so there is nobody to report to")
    seed = seed_chain(backend.store.tenant.key, dialect=dialect.name)
    names = {edge.child: edge.name for edge in await list_children(backend.store, parent_id)}
    edge = SpawnBody(child=child_id, status=CLOSED, name=names.get(child_id, ""))
    return await MailService(backend, parent_id, dialect=dialect, seed=seed).deliver(mail, edge=edge)


async def find_spawner(store: ThreadStore, thread_id: str) -> str | None:
    """Return the thread that spawned this one, if any."""
    return (await load_metadata(store, thread_id)).spawned_by


async def list_children(store: ThreadStore, thread_id: str, *, status: str | None = None) -> list[Edge]:
    """Return a thread's sub-agents, sorted by id. Reads all its mail."""
    newest: dict[str, SpawnBody] = {}
    for body in await _load_edges(store, thread_id):
        known = newest.get(body.child)
        newest[body.child] = msgspec.structs.replace(body, name=body.name or (known.name if known else ""))
    edges = [Edge(parent=thread_id, child=body.child, status=body.status, name=body.name) for body in newest.values()]
    return sorted((edge for edge in edges if status in (None, edge.status)), key=lambda edge: edge.child)


async def _load_edges(store: ThreadStore, thread_id: str) -> list[SpawnBody]:
    """Return all edge records of a thread, oldest first."""
    row = await store.get(thread_id)
    records = await store.read(Span(thread_id=thread_id, start=row.start, stop=row.next), kinds={RecordKind.MAIL})
    return [body for record in records if isinstance(body := read_mail_record(record), SpawnBody)]


async def list_descendants(store: ThreadStore, thread_id: str, *, status: str | None = None) -> list[Edge]:
    """Return all sub-agents below a thread, nearest first, then by id; with `status`, along such edges only."""
    found: list[Edge] = []
    seen = {thread_id}
    level, depth = [thread_id], 1
    while level:
        edges: list[Edge] = []
        for parent in level:
            edges += await _list_children_if_any(store, parent, status=status, depth=depth)
        # A thread that descends from itself is damaged; stop here.
        fresh = {edge.child: edge for edge in edges if edge.child not in seen}
        found += sorted(fresh.values(), key=lambda edge: edge.child)
        seen |= set(fresh)
        level, depth = sorted(fresh), depth + 1
    return found


async def _list_children_if_any(store: ThreadStore, parent: str, *, status: str | None, depth: int) -> list[Edge]:
    try:
        edges = await list_children(store, parent, status=status)
    except ThreadNotFound:
        return []
    return [Edge(parent=edge.parent, child=edge.child, status=edge.status, name=edge.name, depth=depth) for edge in edges]


async def _find_origin(
    backend: ThreadBackend, parent_id: str, history: Literal["full", "none"] | int, *, dialect: Dialect
) -> _Origin | None:
    """Return where a child begins: before any open call, so that it inherits no call it cannot answer."""
    if history == "none":
        return None
    store = backend.store
    row = await store.get(parent_id)
    entries = (await load_history(store, await load_live_path(store, parent_id, stop=row.next))).entries
    cuts = find_boundaries([dialect.view(entry.item) for entry in entries])
    open_entry = entries[cuts[-1]] if cuts[-1] < len(entries) else None
    is_after_cut = open_entry is not None and open_entry.after_cut and open_entry.source is not None
    at = open_entry.source.ordinal if is_after_cut and open_entry and open_entry.source else row.next
    path = await load_live_path(store, parent_id, stop=row.next, whole=True)
    parent = path.find_thread(at - 1)
    if parent is None:
        return None
    before = await store.read(Span(thread_id=parent, start=at - 1, stop=at), bodies=False)
    origin = _Origin(parent=parent, at=at, turn=before[0].turn)
    return origin if history == "full" else await _limit_to_turns(store, parent_id, path, origin, turns=history)


async def _limit_to_turns(store: ThreadStore, parent_id: str, path: LivePath, origin: _Origin, *, turns: int) -> _Origin:
    if turns < 1:
        raise InvalidTarget(parent_id, f"cannot hand over {turns} turns; name one or more, or 'none'")
    spans = [Span(thread_id=each.thread_id, start=each.start, stop=min(each.stop, origin.at)) for each in path.spans]
    within = LivePath(spans=tuple(each for each in spans if each.start < each.stop), checkpoint=None, whole=True)
    first = await find_turn_back(store, within, turns=turns)
    if first is None:
        return origin
    covers = 0
    for span in within.spans:
        earlier = Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, first.ordinal))
        for record in await store.read(earlier, kinds={RecordKind.ITEM}, newest_first=True, limit=1, bodies=False):
            covers = max(covers, record.depth or 0)
    return _Origin(parent=origin.parent, at=origin.at, turn=origin.turn, cut=first.ordinal, covers=covers)


def _make_cut(cut: int, *, covers: int, turn: int, at_ms: int) -> NewRecord:
    """Return the checkpoint that leaves everything before `cut` out of a child's window."""
    checkpoint = Checkpoint(
        strategy=STRATEGY,
        cut=cut,
        covers=covers,
        layout=[],
        state=msgspec.Raw(EMPTY_STATE),
        audit=msgspec.Raw(EMPTY_AUDIT),
        figures={"tokens_before": 0, "tokens_after": 0, "model_calls": 0},
        trigger="auto",
        reason="spawned",
    )
    return NewRecord(kind=RecordKind.CHECKPOINT, at_ms=at_ms, turn=turn, tokens=0, body=encode_body(checkpoint), target=cut)


def _make_task(task: str, *, parent_id: str, child_id: str, dialect: Dialect, backend: ThreadBackend) -> MailBody:
    item = dialect.make_user_message(render_mail(task, sender=parent_id, way=Way.TRIGGER))
    raw = backend.redact(item.raw) if backend.redact else item.raw
    return MailBody(id=_make_task_id(child_id, task, closings=0), items=[msgspec.Raw(raw)], sender=parent_id, way=Way.TRIGGER)


def _make_task_id(child_id: str, task: str, *, closings: int) -> str:
    """Return the mail id of a task; the same task gets a new id once the edge was closed."""
    return f"{child_id}:task:{closings}:{blake2b(task.encode('utf-8', 'replace'), digest_size=8).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentIdentity:
    """The agent of a thread; see `threadkeep.hooks.CompactionFacts`. All None if it is no sub-agent."""

    session_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None


async def load_agent_identity(store: ThreadStore, thread_id: str) -> AgentIdentity:
    """Return the agent of a thread.

    A spawned thread has its own id, the name it was spawned under, and the root thread's id. A thread of a client's sub-agent
    behind a gateway has the client's name for it.
    """
    meta = await load_metadata(store, thread_id)
    if meta.spawned_by is None:
        return AgentIdentity(agent_id=meta.agent or None)
    root, seen = meta.spawned_by, {thread_id}
    while root not in seen:
        seen.add(root)
        # A parent that is gone is the root.
        with suppress(ThreadNotFound):
            root = (await load_metadata(store, root)).spawned_by or root
    return AgentIdentity(session_id=root, agent_id=thread_id, agent_type=await _find_name(store, meta.spawned_by, thread_id))


async def _find_name(store: ThreadStore, parent: str, child: str) -> str | None:
    try:
        edges = await list_children(store, parent)
    except ThreadNotFound:
        return None
    return next((edge.name for edge in edges if edge.child == child and edge.name), None)
