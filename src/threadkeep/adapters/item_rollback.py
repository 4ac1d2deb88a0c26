"""Rollbacks for hosts that take back items rather than turns. Each is one record; nothing is deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from threadkeep.client import Thread, Threadkeep
from threadkeep.compaction import AuditReport, read_ledger
from threadkeep.compaction.ledger import dump_ledger
from threadkeep.dialects import Dialect
from threadkeep.items import decode_json, digest_body, seed_chain
from threadkeep.store import NewRecord, Record, RecordKind, Span
from threadkeep.threads import Checkpoint, History, KeepEntry, LayoutEntry, LiteralEntry, LivePath, RollbackBody, encode_body
from threadkeep.threads.reader import load_history, load_live_path, load_tip
from threadkeep.tokens import estimate_item

# The ordinal after a thread's first record, which describes the thread.
BEGINNING = 1
ELSEWHERE = "elsewhere"


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


async def record_foreign_compaction(tk: Threadkeep, thread: Thread, items: Sequence[Mapping[str, Any]]) -> bool:
    """Record `items` as the checkpoint of a compaction that the host made, if it cleared the thread just before.

    The clearing is rolled back, so that the earlier items can be recalled. Returns False and writes nothing if the thread was not
    just cleared.

    Raises:
        OrdinalConflict: Another writer appended meanwhile.
        InvalidItem: One of them is not an item of the thread's dialect.
    """
    store = tk.backend.store
    row = await store.get(thread.id)
    newest = await store.read(Span(thread_id=row.id, start=row.next - 1, stop=row.next))
    if not newest or newest[0].kind is not RecordKind.ROLLBACK or newest[0].target != BEGINNING:
        return False
    cleared_at = newest[0].ordinal
    history = await load_history(store, await load_live_path(store, row.id, stop=cleared_at))
    tip = await load_tip(store, row.id, seed=seed_chain(store.tenant.key, dialect=row.dialect), stop=cleared_at)
    layout = _make_layout(items, history, dialect=thread.dialect)
    checkpoint = _make_checkpoint(layout, history, cut=row.next + 1, covers=tip.depth)
    record = NewRecord(
        kind=RecordKind.CHECKPOINT,
        at_ms=tk.backend.clock.now_ms(),
        turn=tip.turn,
        tokens=checkpoint.figures["tokens_after"],
        body=encode_body(checkpoint),
        target=checkpoint.cut,
    )
    back = _make_rollback(tk, at=cleared_at, turn=tip.turn)
    await tk.backend.append(row.id, [back, record], expected=row.next)
    return True


async def _find_newest_item(tk: Threadkeep, path: LivePath) -> Record | None:
    for span in path.spans:
        for record in await tk.backend.store.read(span, kinds={RecordKind.ITEM}, newest_first=True, limit=1):
            return record
    return None


def _make_rollback(tk: Threadkeep, *, at: int, turn: int) -> NewRecord:
    body = encode_body(RollbackBody(turns=0))
    return NewRecord(kind=RecordKind.ROLLBACK, at_ms=tk.backend.clock.now_ms(), turn=turn, tokens=0, body=body, target=at)


def _make_layout(items: Sequence[Mapping[str, Any]], history: History, *, dialect: Dialect) -> list[LayoutEntry]:
    """Return the layout of the new window: a record if one holds the item, else the item's own bytes."""
    known = {digest_body(entry.item.raw): entry for entry in history.entries if entry.source is not None}
    layout: list[LayoutEntry] = []
    for item in items:
        raw = dialect.parse(item).raw
        entry = known.get(digest_body(raw))
        if entry is not None and entry.source is not None and entry.depth is not None:
            layout.append(KeepEntry(thread=entry.source.thread_id, ordinal=entry.source.ordinal, depth=entry.depth))
        else:
            layout.append(LiteralEntry(item=msgspec.Raw(raw), issuer=ELSEWHERE))
    return layout


def _make_checkpoint(layout: list[LayoutEntry], history: History, *, cut: int, covers: int) -> Checkpoint:
    by_place = {(entry.source.thread_id, entry.source.ordinal): entry.tokens for entry in history.entries if entry.source}
    tokens = sum(
        estimate_item(bytes(entry.item)) if isinstance(entry, LiteralEntry) else by_place[entry.thread, entry.ordinal]
        for entry in layout
        if isinstance(entry, LiteralEntry | KeepEntry)
    )
    return Checkpoint(
        strategy=ELSEWHERE,
        base=history.checkpoint_ordinal,
        cut=cut,
        covers=covers,
        layout=layout,
        state=msgspec.Raw(dump_ledger(read_ledger(history))),
        audit=msgspec.Raw(msgspec.json.encode(AuditReport(required=0, kept=0))),
        figures={"tokens_before": history.tokens, "tokens_after": tokens, "model_calls": 0},
        remarks_to=cut,
    )
