"""Forks, rollbacks and undo: each is one small record."""

from __future__ import annotations

from dataclasses import dataclass

from threadkeep.dialects import Dialect
from threadkeep.errors import InvalidTarget, NotEnoughTurns, NothingToUndo, RecordNotFound
from threadkeep.items import Item, View
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.threads import LivePath, MetaBody, RollbackBody, UndoBody, check_thread_id, encode_body
from threadkeep.threads.backend import ThreadBackend, new_thread_id
from threadkeep.threads.reader import Turn, find_turn, load_current_turn, load_live_path, load_newest_turns
from threadkeep.threads.writer import ThreadStart, append_mark


@dataclass(frozen=True, slots=True, kw_only=True)
class ForkPoint:
    """Where a fork begins: at a record, before a turn, after a turn, or (if none is given) at the end."""

    at: int | None = None
    before_turn: int | None = None
    after_turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Branched:
    """Where a fork or rollback took a thread: `at` is the ordinal it goes on from."""

    thread: str
    parent: str | None
    at: int


async def fork_thread(backend: ThreadBackend, thread_id: str, place: ForkPoint, *, new_id: str | None = None) -> Branched:
    """Create a thread that begins at a place on another's live path; nothing is copied.

    Raises:
        InvalidTarget: The live path has no such place, or several places were given.
    """
    row = await backend.store.get(thread_id)
    path = await load_live_path(backend.store, thread_id, stop=row.next, whole=True)
    at = await _find_fork_ordinal(backend, thread_id, path, place, end=row.next)
    parent = path.find_thread(at - 1)
    if parent is None:
        raise InvalidTarget(thread_id, f"no fork can begin at #{at}; the live path ends before it or left it behind")
    return await create_fork(backend, parent, at=at, new_id=new_id)


async def create_fork(backend: ThreadBackend, parent: str, *, at: int, new_id: str | None = None) -> Branched:
    """Create a thread that shares `parent`'s path before ordinal `at`, even if that path is no longer live.

    Raises:
        InvalidThreadId: `new_id` cannot name a thread.
        RecordNotFound: `parent` has no record before `at`.
    """
    begun = await prepare_fork(backend, parent, at=at, new_id=new_id)
    await backend.create(begun.thread, [begun.meta])
    return Branched(thread=begun.thread.id, parent=parent, at=at)


async def prepare_fork(backend: ThreadBackend, parent: str, *, at: int, new_id: str | None = None) -> ThreadStart:
    """Return the thread that `create_fork` would create, for what follows to be written with it.

    Raises:
        InvalidThreadId: `new_id` cannot name a thread.
        RecordNotFound: `parent` has no record before `at`.
    """
    child_id = check_thread_id(new_id) if new_id is not None else None
    row = await backend.store.get(parent)
    before = await backend.store.read(Span(thread_id=parent, start=at - 1, stop=at), bodies=False)
    if not before:
        raise RecordNotFound(parent, at - 1)
    now = backend.clock.now_ms()
    child = NewThread(id=child_id or new_thread_id(now), dialect=row.dialect, created_at_ms=now, start=at, parent=parent)
    body = encode_body(MetaBody(dialect=row.dialect, parent=parent))
    return ThreadStart(thread=child, meta=NewRecord(kind=RecordKind.META, at_ms=now, turn=before[0].turn, tokens=0, body=body))


async def roll_back(backend: ThreadBackend, thread_id: str, *, turns: int, dialect: Dialect) -> Branched:
    """Take back the last `turns` turns: the path continues from where the oldest of them began.

    Host context recorded right before that turn goes with it. No record is removed; those left behind stay readable.

    Raises:
        NotEnoughTurns: The live path has fewer turns. Nothing changed.
        InvalidTarget: `turns` is below one.
    """
    if turns < 1:
        raise InvalidTarget(thread_id, f"cannot take back {turns} turns; name one or more")
    row = await backend.store.get(thread_id)
    path = await load_live_path(backend.store, thread_id, stop=row.next, whole=True)
    found = await load_newest_turns(backend.store, path, limit=turns)
    if len(found) < turns:
        raise NotEnoughTurns(thread_id, asked=turns, turns=len(found))
    target = found[-1]
    at = await _find_turn_start(backend, path, target, dialect=dialect)
    await append_mark(backend, row, RecordKind.ROLLBACK, RollbackBody(turns=turns), turn=target.number - 1, target=at)
    return Branched(thread=thread_id, parent=row.parent, at=at)


async def undo_rollback(backend: ThreadBackend, thread_id: str) -> int:
    """Undo the newest rollback and return its ordinal; the window is what it was before.

    The undo is itself a rollback, and can be undone.

    Raises:
        NothingToUndo: There is no rollback, or items were recorded since.
    """
    row = await backend.store.get(thread_id)
    path = await load_live_path(backend.store, thread_id, stop=row.next, whole=True)
    newest = path.spans[0]
    since = await backend.store.read(newest, kinds={RecordKind.ROLLBACK, RecordKind.ITEM}, limit=2, bodies=False)
    if newest.thread_id != thread_id or [record.kind for record in since] != [RecordKind.ROLLBACK]:
        raise NothingToUndo(thread_id, "rollback to undo, or something was recorded since")
    at = since[0].ordinal
    turn = await load_current_turn(backend.store, row, stop=at)
    await append_mark(backend, row, RecordKind.ROLLBACK, RollbackBody(turns=0), turn=turn, target=at)
    return at


async def undo_compaction(backend: ThreadBackend, thread_id: str) -> int:
    """Cancel the newest checkpoint and return its ordinal; the window is what it was before.

    Raises:
        NothingToUndo: There is no checkpoint.
    """
    row = await backend.store.get(thread_id)
    path = await load_live_path(backend.store, thread_id, stop=row.next)
    if path.checkpoint is None:
        raise NothingToUndo(thread_id)
    turn = await load_current_turn(backend.store, row, stop=row.next)
    await append_mark(backend, row, RecordKind.UNDO, UndoBody(), turn=turn, target=path.checkpoint.ordinal)
    return path.checkpoint.ordinal


async def _find_turn_start(backend: ThreadBackend, path: LivePath, turn: Turn, *, dialect: Dialect) -> int:
    """Return the ordinal where a turn begins, including host context right before it (except for the first turn)."""
    at = turn.ordinal
    while turn.number > 1 and (thread_id := path.find_thread(at - 1)) is not None:
        found = await backend.store.read(Span(thread_id=thread_id, start=at - 1, stop=at), kinds={RecordKind.ITEM})
        if not found or found[0].erased or not _is_context(dialect.view(Item(found[0].body))):
            break
        at -= 1
    return at


def _is_context(view: View) -> bool:
    return view.context is not None and not view.by_person


async def _find_fork_ordinal(backend: ThreadBackend, thread_id: str, path: LivePath, place: ForkPoint, *, end: int) -> int:
    named = [value for value in (place.at, place.before_turn, place.after_turn) if value is not None]
    if len(named) > 1:
        raise InvalidTarget(thread_id, "name one place to fork at, not several")
    if place.at is not None:
        return place.at
    if place.before_turn is not None:
        return (await _find_turn(backend, thread_id, path, number=place.before_turn)).ordinal
    if place.after_turn is None:
        return end
    await _find_turn(backend, thread_id, path, number=place.after_turn)
    following = await find_turn(backend.store, path, number=place.after_turn + 1)
    return following.ordinal if following else end


async def _find_turn(backend: ThreadBackend, thread_id: str, path: LivePath, *, number: int) -> Turn:
    turn = await find_turn(backend.store, path, number=number)
    if turn is None:
        raise InvalidTarget(thread_id, f"has no turn {number} on its live path")
    return turn
