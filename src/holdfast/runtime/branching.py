"""Forks, rollbacks and undo: each is one small record, whatever the thread has lived through."""

from __future__ import annotations

from holdfast.errors import InvalidTarget, NothingToUndo, RecordNotFound
from holdfast.runtime.backend import Backend
from holdfast.runtime.clock import new_thread_id
from holdfast.runtime.reading import live_path, turn_starting, turns_back
from holdfast.runtime.reports import Branched
from holdfast.store import NewRecord, NewThread, RecordKind, Span
from holdfast.thread import LivePath, MetaBody, RollbackBody, UndoBody, checked_thread_id, encode_body


async def fork_thread(
    backend: Backend,
    thread_id: str,
    *,
    at: int | None = None,
    before_turn: int | None = None,
    new_id: str | None = None,
) -> Branched:
    """Create a thread that begins at record `at`, before turn `before_turn`, or at the end; nothing is copied.

    Raises:
        InvalidTarget: The live path has no such record or turn.
    """
    row = await backend.store.get(thread_id)
    path = await live_path(backend.store, thread_id, stop=row.next, whole=True)
    at = await _fork_point(backend, thread_id, path, end=row.next, at=at, before_turn=before_turn)
    parent = path.holds(at - 1)
    if parent is None:
        raise InvalidTarget(thread_id, f"no fork can begin at #{at}; the live path ends before it or left it behind")
    return await branch_off(backend, parent, at=at, new_id=new_id)


async def branch_off(backend: Backend, parent: str, *, at: int, new_id: str | None = None) -> Branched:
    """Create a thread whose path before ordinal `at` is what `parent`'s was then, whether or not that is live today.

    Raises:
        InvalidThreadId: `new_id` cannot name a thread.
        RecordNotFound: `parent` has no record before `at`.
    """
    child_id = checked_thread_id(new_id) if new_id is not None else None
    row = await backend.store.get(parent)
    before = await backend.store.read(Span(thread_id=parent, start=at - 1, stop=at), bodies=False)
    if not before:
        raise RecordNotFound(parent, at - 1)
    now = backend.clock.now_ms()
    child = NewThread(id=child_id or new_thread_id(now), dialect=row.dialect, created_at_ms=now, start=at, parent=parent)
    meta = NewRecord(
        kind=RecordKind.META,
        at_ms=now,
        turn=before[0].turn,
        tokens=0,
        body=encode_body(MetaBody(dialect=row.dialect, parent=parent)),
    )
    await backend.store.create(child, [meta])
    return Branched(thread=child.id, parent=parent, at=at)


async def roll_back(backend: Backend, thread_id: str, *, turns: int) -> Branched:
    """Take back the last `turns` turns: the path goes on from where the oldest of them began.

    More turns than there are takes back all of them. Nothing is removed; the records left behind stay readable.

    Raises:
        InvalidTarget: `turns` is below one, or there is no turn to take back.
    """
    if turns < 1:
        raise InvalidTarget(thread_id, f"cannot take back {turns} turns; name one or more")
    row = await backend.store.get(thread_id)
    path = await live_path(backend.store, thread_id, stop=row.next, whole=True)
    target = await turns_back(backend.store, path, turns=turns)
    if target is None:
        raise InvalidTarget(thread_id, "has no turn to take back")
    record = NewRecord(
        kind=RecordKind.ROLLBACK,
        at_ms=backend.clock.now_ms(),
        turn=target.number - 1,
        tokens=0,
        body=encode_body(RollbackBody(turns=turns)),
        target=target.ordinal,
    )
    await backend.store.append(thread_id, [record], expected=row.next)
    return Branched(thread=thread_id, parent=row.parent, at=target.ordinal)


async def undo_compaction(backend: Backend, thread_id: str) -> int:
    """Cancel the newest checkpoint that counts and return its ordinal; the window is what it was without it.

    Raises:
        NothingToUndo: No checkpoint counts.
    """
    row = await backend.store.get(thread_id)
    path = await live_path(backend.store, thread_id, stop=row.next)
    if path.checkpoint is None:
        raise NothingToUndo(thread_id)
    newest = await backend.store.read(
        Span(thread_id=thread_id, start=row.start, stop=row.next), newest_first=True, limit=1, bodies=False
    )
    record = NewRecord(
        kind=RecordKind.UNDO,
        at_ms=backend.clock.now_ms(),
        turn=newest[0].turn,
        tokens=0,
        body=encode_body(UndoBody()),
        target=path.checkpoint.ordinal,
    )
    await backend.store.append(thread_id, [record], expected=row.next)
    return path.checkpoint.ordinal


async def _fork_point(
    backend: Backend, thread_id: str, path: LivePath, *, end: int, at: int | None, before_turn: int | None
) -> int:
    if at is not None and before_turn is not None:
        raise InvalidTarget(thread_id, "name a record or a turn to fork at, not both")
    if before_turn is None:
        return end if at is None else at
    turn = await turn_starting(backend.store, path, number=before_turn)
    if turn is None:
        raise InvalidTarget(thread_id, f"has no turn {before_turn} on its live path")
    return turn.ordinal
