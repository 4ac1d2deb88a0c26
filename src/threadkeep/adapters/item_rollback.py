"""Rollbacks for hosts that take back items rather than turns. Each is one record; nothing is deleted."""

from __future__ import annotations

from typing import Any

from threadkeep.client import Thread, Threadkeep
from threadkeep.items import decode_json
from threadkeep.store import NewRecord, Record, RecordKind, Span
from threadkeep.threads import LivePath, RollbackBody, encode_body
from threadkeep.threads.reader import load_live_path

# The ordinal after a thread's first record, which describes the thread.
BEGINNING = 1


async def pop_newest_item(tk: Threadkeep, thread: Thread) -> dict[str, Any] | None:
    """Roll back the newest item and return it as recorded; None if there is none.

    If a checkpoint already covers the item, the checkpoint is rolled back too.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    store = tk.backend.store
    row = await store.get(thread.id)
    path = await load_live_path(store, thread.id, stop=row.next, whole=True)
    newest = await _find_newest_item(tk, path)
    if newest is None:
        return None
    before = await store.read(Span(thread_id=newest.thread_id, start=newest.ordinal - 1, stop=newest.ordinal), bodies=False)
    # A turn record without its request would still count as a turn, so it is rolled back too.
    opens_turn = bool(before) and before[0].kind is RecordKind.TURN
    at, turn = (newest.ordinal - 1, newest.turn - 1) if opens_turn else (newest.ordinal, newest.turn)
    await tk.backend.append(thread.id, [_make_rollback(tk, at=at, turn=turn)], expected=row.next)
    item: dict[str, Any] = decode_json(newest.body)
    return item


async def clear_thread(tk: Threadkeep, thread: Thread) -> None:
    """Roll back everything; the window is then empty, and every record can still be read.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
    """
    row = await tk.backend.store.get(thread.id)
    await tk.backend.append(thread.id, [_make_rollback(tk, at=BEGINNING, turn=0)], expected=row.next)


async def _find_newest_item(tk: Threadkeep, path: LivePath) -> Record | None:
    for span in path.spans:
        for record in await tk.backend.store.read(span, kinds={RecordKind.ITEM}, newest_first=True, limit=1):
            return record
    return None


def _make_rollback(tk: Threadkeep, *, at: int, turn: int) -> NewRecord:
    body = encode_body(RollbackBody(turns=0))
    return NewRecord(kind=RecordKind.ROLLBACK, at_ms=tk.backend.clock.now_ms(), turn=turn, tokens=0, body=body, target=at)
