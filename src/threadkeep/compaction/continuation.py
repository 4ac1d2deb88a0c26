"""The ledger that a thread takes over from the thread it continues, after a client rewrote its history."""

from __future__ import annotations

import asyncio

from threadkeep.compaction import Ledger, read_ledger
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.engine import remember
from threadkeep.dialects import find_dialect
from threadkeep.threads.reader import load_history, load_live_path, load_metadata

# A longer chain is a circle.
HOPS = 64


async def load_carried_ledger(backend: Backend, thread_id: str) -> Ledger | None:
    """Return the ledger of the newest compacted thread that this one continues; None if there is none.

    Cheap: messages since that checkpoint are not read. A compaction uses `load_carried_memory`.
    """
    for continued in await _find_continued(backend, thread_id):
        history = await load_history(backend.store, await load_live_path(backend.store, continued))
        if history.checkpoint is not None or history.remarks:
            return read_ledger(history)
    return None


async def load_carried_memory(backend: Backend, thread_id: str) -> Ledger | None:
    """Return the ledger of the thread that this one continues, with the messages since its last checkpoint.

    None if it continues none. Costs as much as a compaction of that thread's window without a model.
    """
    memory: Ledger | None = None
    for continued in reversed(await _find_continued(backend, thread_id)):
        history = await load_history(backend.store, await load_live_path(backend.store, continued))
        dialect = find_dialect((await backend.store.get(continued)).dialect)
        memory = await asyncio.to_thread(remember, history, dialect=dialect, carried=memory)
    return memory


async def _find_continued(backend: Backend, thread_id: str) -> list[str]:
    """Return the threads that this one, or one it was forked from, continues, newest first, up to one that was compacted."""
    found: list[str] = []
    walked: set[str] = set()
    while thread_id not in walked and len(walked) < HOPS:
        walked.add(thread_id)
        continues = (await load_metadata(backend.store, thread_id)).continues
        if continues is not None:
            found.append(continues)
            if (await load_live_path(backend.store, continues)).checkpoint is not None:
                break
        parent = continues or (await backend.store.get(thread_id)).parent
        if parent is None:
            break
        thread_id = parent
    return found
