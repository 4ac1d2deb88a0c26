"""Records that a checkpoint replaced and no journal knows: another tool's compaction, or one made by an older version."""

from __future__ import annotations

from threadkeep.compaction.facts import Observed
from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.runtime.reading import live_path
from threadkeep.store import RecordKind, Span, ThreadStore
from threadkeep.thread import History, Pointer


async def read_unread(
    store: ThreadStore, thread_id: str, history: History, *, dialect: Dialect, upto: int, stop: int
) -> tuple[Observed, ...]:
    """Return the items behind a window's checkpoint from `upto` on, oldest first; nothing where its journal holds them all."""
    if history.checkpoint is None or upto >= history.checkpoint.cut:
        return ()
    shown = {entry.source for entry in history.entries}
    path = await live_path(store, thread_id, stop=stop, whole=True)
    found: list[Observed] = []
    for span in reversed(path.spans):
        clipped = Span(thread_id=span.thread_id, start=max(span.start, upto), stop=min(span.stop, history.checkpoint.cut))
        for record in await store.read(clipped, kinds={RecordKind.ITEM}) if clipped.start < clipped.stop else ():
            source = Pointer(record.thread_id, record.ordinal)
            if source not in shown and not record.erased:
                item = Item(record.body)
                found.append(Observed(view=dialect.view(item), source=source, item=item))
    return tuple(found)
