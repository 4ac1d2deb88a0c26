"""SessionStart hooks in conversations through the gateway: run before a compacted window is first sent.

What they add is no part of the client's history. It is recorded once, with what the model is told outside that history, and
stands behind the state in every request of that window, byte for byte: so what a provider is sent only grows.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from weakref import WeakValueDictionary

from threadkeep.client.turn import Started, run_start_hooks
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import Dialect
from threadkeep.errors import CompactionStopped
from threadkeep.gateway.arrivals import Arrived
from threadkeep.gateway.known import Known, Standing, Told
from threadkeep.gateway.placing import Placing, told_now
from threadkeep.gateway.rewriting import Placed
from threadkeep.hooks import HookEvent
from threadkeep.items import Item
from threadkeep.threads.reader import live_path, load_start
from threadkeep.tokens import estimate_item

Start = tuple[bytes, ...]


class Starts:
    """Runs the hooks for conversations of one dialect in one tenant's store."""

    def __init__(self, backend: Backend, dialect: Dialect, placing: Placing) -> None:
        self._backend = backend
        self._dialect = dialect
        self._placing = placing
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def is_due(self, known: Known) -> bool:
        """Whether hooks are to be run before the window that counts is sent.

        Where there was no such hook when it was compacted there is none to run later: the window was sent without what it adds.
        """
        standing, told = known.standing, known.told
        if standing is None or not standing.checkpoint.start_due or (told is not None and told.started == standing.ordinal):
            return False
        return self._backend.policy.hooks.has_any(HookEvent.SESSION_START)

    async def ran(self, known: Known, arrived: Arrived) -> Known:
        """Run the hooks for a window that is about to be sent; return the thread with what they add recorded.

        Of requests that come at once one runs them and all send the same; so do other gateways on this store, though each of them
        may have run them. A compaction that is undone brings back the window before it, and what was added to that.

        Raises:
            CompactionStopped: A hook wants the turn to end. The next request goes on.
        """
        standing = known.standing
        if standing is None:
            return known
        lock = self._locks.setdefault(known.thread_id, asyncio.Lock())
        async with lock:
            first, stopped_by = await self._first(known, standing), None
            if first is None:
                started = await self._run(known, arrived, standing)
                known = await self._record(known, arrived, standing, self._written(started))
                first, stopped_by = await self._first(known, standing), started.stopped_by
            if first is not None and (known.told is None or (known.told.started, known.told.start) != (standing.ordinal, first)):
                known = await self._record(known, arrived, standing, first)
        if stopped_by is not None:
            raise CompactionStopped(known.thread_id, event=str(HookEvent.SESSION_START), reason=stopped_by)
        return known

    async def _run(self, known: Known, arrived: Arrived, standing: Standing) -> Started:
        model = arrived.hints.model or None
        return await run_start_hooks(
            self._backend, known.thread_id, dialect=self._dialect, model=model, checkpoint=standing.ordinal
        )

    def _written(self, started: Started) -> Start:
        redact = self._backend.redact
        return tuple(redact(item.raw) if redact else item.raw for item in started.items)

    async def _record(self, known: Known, arrived: Arrived, standing: Standing, start: Start) -> Known:
        links, memory = len(arrived.seen.items), arrived.memory.pin
        told = told_now(known.told, arrived.request, arrived.hints, dialect=self._dialect, links=links, memory=memory)
        return await self._placing.tell(known, replace(told, started=standing.ordinal, start=start), arrived.request)

    async def _first(self, known: Known, standing: Standing) -> Start | None:
        """Return what was first recorded to be told with a window; None where its hooks were not run yet."""
        path = await live_path(self._backend.store, known.thread_id)
        said = await load_start(self._backend.store, path, checkpoint=standing.ordinal)
        return None if said is None else tuple(item.raw for item in said)


def start_of(told: Told | None, standing: Standing | None) -> list[Placed]:
    """Return what hooks added to a window, in the places it has there; nothing where it was added to another."""
    if told is None or standing is None or told.started != standing.ordinal:
        return []
    return [Placed(item=Item(raw), tokens=estimate_item(raw), laid_out=True) for raw in told.start]
