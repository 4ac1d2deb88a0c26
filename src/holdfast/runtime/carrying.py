"""What a thread takes over from the one it continues: a client that rewrote its history has not forgotten what was demanded."""

from __future__ import annotations

from holdfast.compaction import Ledger, ledger_of
from holdfast.runtime.backend import Backend
from holdfast.runtime.describing import description
from holdfast.runtime.reading import live_path, load_history

# More rewritings of one history than this are a circle that somebody made by hand.
HOPS = 64


async def carried_ledger(backend: Backend, thread_id: str) -> Ledger | None:
    """Return what the thread remembers that this one, or the one it was forked from, continues; None if it continues none."""
    walked: set[str] = set()
    while thread_id not in walked and len(walked) < HOPS:
        walked.add(thread_id)
        continues = (await description(backend.store, thread_id)).continues
        if continues is None:
            parent = (await backend.store.get(thread_id)).parent
            if parent is None:
                return None
            thread_id = parent
            continue
        history = await load_history(backend.store, await live_path(backend.store, continues))
        if history.checkpoint is not None or history.remarks:
            return ledger_of(history)
        thread_id = continues
    return None
