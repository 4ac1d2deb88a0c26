"""Finding where values came from whose output has left the window: the store is searched, `compaction.origins` decides.

What it costs is bounded: so many values, so many records for each, none of them read twice. A store whose index is far behind
catches up with it first; that may take longer than a compaction should wait, and then the compaction goes on without, and says
for how many values.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from threadkeep.compaction.bindings import origin_in
from threadkeep.compaction.drafting import Brief
from threadkeep.compaction.extractive import known_bindings
from threadkeep.compaction.ledger import Speaker
from threadkeep.compaction.origins import Sought, Traced, origin_of, sought
from threadkeep.compaction.working import Observed
from threadkeep.dialects import Dialect
from threadkeep.items import Item
from threadkeep.runtime.backend import Backing
from threadkeep.runtime.reading import live_path, records_at
from threadkeep.store import RecordKind, Span
from threadkeep.thread import History, Pointer, Tip

# A value that more records than this hold is one of the surroundings, or any of them explains it.
RECORDS_PER_VALUE = 12
# A short figure stands in many records: which of them says what it is, is seen in their text.
RECORDS_PER_FIGURE = 40
LONGEST_SEARCH_S = 3.0


async def looked_back(store: Backing, brief: Brief, history: History, *, tip: Tip) -> Brief:
    """Return the brief with where the values came from that new calls of a window were given, as far as earlier records tell."""
    if history.checkpoint is None or history.checkpoint_ordinal is None:
        return replace(brief, traced=Traced())
    since = history.checkpoint_ordinal
    wanted = await asyncio.to_thread(_sought, brief, since=since)
    if not wanted:
        return replace(brief, traced=Traced(since=since))
    spans = await _behind(store, brief.thread_id, stop=tip.next, cut=history.checkpoint.cut)
    found: dict[str, list[Pointer]] = {}

    async def look_for(each: Sought) -> None:
        limit = RECORDS_PER_FIGURE if each.is_short_figure else RECORDS_PER_VALUE
        hits = await store.search(spans, each.query, limit=limit)
        found[each.value] = [Pointer(hit.thread_id, hit.ordinal) for hit in hits]

    with suppress(TimeoutError):
        async with asyncio.timeout(LONGEST_SEARCH_S):
            # The first search has the index catch up; the others find it so.
            await look_for(wanted[0])
            await asyncio.gather(*map(look_for, wanted[1:]))
    records = await _read(store, [pointer for pointers in found.values() for pointer in pointers], dialect=brief.dialect)
    origins = (
        origin_of(each, [records[pointer] for pointer in found.get(each.value, ()) if pointer in records]) for each in wanted
    )
    found_out = Traced(since=since, origins=tuple(origin for origin in origins if origin is not None))
    return replace(brief, traced=found_out, untraced=sum(each.value not in found for each in wanted))


def _sought(brief: Brief, *, since: int) -> tuple[Sought, ...]:
    known = (line.text for line in known_bindings(brief.ledger).values() if origin_in(line.text) is not None)
    said = (entry.text for entry in brief.ledger.entries if entry.speaker is Speaker.USER)
    return sought(brief.plan.observed, since=since, told=(*known, *said))


async def _behind(store: Backing, thread_id: str, *, stop: int, cut: int) -> list[Span]:
    """Return the part of a thread's path that its checkpoint stands for."""
    path = await live_path(store, thread_id, stop=stop, whole=True)
    clipped = (Span(thread_id=span.thread_id, start=span.start, stop=min(span.stop, cut)) for span in path.spans)
    return [span for span in clipped if span.start < span.stop]


async def _read(store: Backing, pointers: Sequence[Pointer], *, dialect: Dialect) -> dict[Pointer, Observed]:
    found = await records_at(store, pointers, kinds={RecordKind.ITEM})
    return {
        source: Observed(view=dialect.view(Item(record.body)), source=source)
        for source, record in found.items()
        if not record.erased
    }
