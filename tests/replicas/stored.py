"""What is in a store after everything that was done to it, held against what clients were told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from threadkeep import Threadkeep
from threadkeep.dialects import find_dialect
from threadkeep.store import RecordKind, Span, ThreadRow
from threadkeep.threads import Checkpoint, ReplyBody, decode_body
from threadkeep.threads.writer import compute_chain, find_deepest


async def known_items(tk: Threadkeep, history: Sequence[Mapping[str, Any]], *, dialect: str) -> int:
    """Return how many items of a history, from its beginning, a request that resends it would be recognised by."""
    speaks = find_dialect(dialect)
    found = await find_deepest(tk.backend.store, compute_chain(tk.backend, speaks, [speaks.parse(item) for item in history]))
    return max((match.depth for match in found), default=0)


async def is_answered(tk: Threadkeep, history: Sequence[Mapping[str, Any]], *, dialect: str) -> bool:
    """Whether a whole answer is recorded behind a history, in a thread that holds all of it."""
    speaks, store = find_dialect(dialect), tk.backend.store
    found = await find_deepest(store, compute_chain(tk.backend, speaks, [speaks.parse(item) for item in history]))
    for match in found:
        behind = Span(thread_id=match.thread_id, start=match.ordinal + 1, stop=(await store.get(match.thread_id)).next)
        replies = [decode_body(record.body, ReplyBody) for record in await store.read(behind, kinds={RecordKind.REPLY})]
        if match.depth == len(history) and any(reply.outcome == "completed" and reply.items for reply in replies):
            return True
    return False


async def compactions(tk: Threadkeep, row: ThreadRow) -> int:
    """Return how many compactions a thread had, each on a base of its own, with something new between any two."""
    store = tk.backend.store
    made = await store.read(Span(thread_id=row.id, start=row.start, stop=row.next), kinds={RecordKind.CHECKPOINT})
    bases = [decode_body(record.body, Checkpoint).base for record in made]
    assert len(bases) == len(set(bases))
    for one, other in pairwise(made):
        between = Span(thread_id=row.id, start=one.ordinal, stop=other.ordinal)
        assert await store.read(between, kinds={RecordKind.ITEM}, limit=1)
    return len(made)
