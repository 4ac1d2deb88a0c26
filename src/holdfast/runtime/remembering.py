"""The memory pipeline: extract what idle threads left to remember, consolidate it, and read it again.

Every step ends in one append and begins by looking at what is there, so a worker may die anywhere: its lease runs out, and
whoever comes next goes on. Doing a step twice gives the same memory.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

import msgspec

from holdfast.dialects import dialect_named
from holdfast.errors import HoldfastError, ModelError, NotFound, StoreCorrupt
from holdfast.llm import Model
from holdfast.memory import (
    Bounds,
    Cited,
    Entry,
    Extracted,
    Failed,
    Kept,
    MemoryState,
    Snapshot,
    consolidated,
    edited,
    extracted,
    found,
    instruction,
    page,
    parsed,
    summary,
)
from holdfast.runtime.backend import Backend
from holdfast.runtime.describing import description
from holdfast.runtime.memory_thread import MEMORY_THREAD, MemoryThread
from holdfast.runtime.statements_of import Statements, mask, statements_of
from holdfast.store import ThreadRow

LEASE_MS = 120_000
RENEWAL_S = 30.0
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySettings:
    """How memory is made.

    Attributes:
        idle_ms: A thread is read once nothing was added to it for so long.
        model: Who chooses what is worth remembering; nobody, and code does, if None.
        attempts: How often a thread is tried with the model before code does it.
        threads: How many threads one pass looks at, the most recently written first.
    """

    idle_ms: int = 6 * HOUR_MS
    model: Model | None = None
    attempts: int = 3
    retry_ms: int = HOUR_MS
    threads: int = 5_000
    summary_tokens: int = 2_500
    bounds: Bounds = field(default_factory=Bounds)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPass:
    """What one pass did: threads read, of those without anything, put off after a failure; and how much is remembered now."""

    extracted: int
    empty: int
    failed: int
    memories: int


class Memories:
    """A tenant's memory. Apart from transcripts: nothing here changes a thread but the memory's own."""

    def __init__(self, backend: Backend, settings: MemorySettings | None = None) -> None:
        self._backend = backend
        self._settings = settings or MemorySettings()
        self._thread = MemoryThread(backend)

    async def run(self) -> MemoryPass:
        """Read what is due and consolidate. Any number of workers may do so at once; a thread is one worker's at a time."""
        counts = {"extracted": 0, "empty": 0, "failed": 0}
        for row in await self._due(await self._thread.load()):
            async with self._lease(f"memory:extract:{row.id}") as mine:
                # Another worker may have read it between the look and the lease.
                if mine and (outcome := await self._extract(row)) is not None:
                    counts[outcome] += 1
        await self._consolidate()
        return MemoryPass(**counts, memories=len((await self._thread.load()).memories))

    async def state(self) -> MemoryState:
        return await self._thread.load()

    async def page(self) -> str:
        """Return everything remembered as a page to read and edit."""
        return page((await self._thread.load()).memories)

    async def summary(self) -> str:
        """Return what a model is shown: the most useful memories, never more than the configured tokens."""
        return summary((await self._thread.load()).memories, tokens=self._settings.summary_tokens)

    async def search(self, query: str, *, limit: int = 10) -> list[Kept]:
        return found((await self._thread.load()).memories, query, limit=limit)

    async def read(self, memory_id: str) -> Kept | None:
        return (await self._thread.load()).find(memory_id)

    async def cite(self, ids: Sequence[str]) -> None:
        """Count memories as used; names that are not there are passed over."""
        known = await self._thread.load()
        used = [name for name in dict.fromkeys(ids) if known.find(name) is not None]
        if used:
            await self._thread.add(Cited(ids=used, at_ms=self._backend.clock.now_ms()))

    async def edit(self, text: str) -> MemoryState:
        """Take over a page that a person changed. What was taken out of it can no longer be read anywhere in the memory.

        Raises:
            BadInput: The page cannot be read as one; nothing was changed.
        """
        now = self._backend.clock.now_ms()
        return await self._thread.rewrite(lambda state: edited(self._snapshot(state), text, now_ms=now))

    async def forget(self, thread_ids: Sequence[str]) -> MemoryState:
        """Drop what these threads alone said, and read them no more: they were erased, or hold what nobody should rely on."""
        return await self._thread.rewrite(lambda state: self._snapshot(state, forget=thread_ids))

    async def read_again(self, thread_ids: Sequence[str]) -> MemoryState:
        """Drop what these threads said, and let the next pass read them anew: something was taken out of them."""

        def made(state: MemoryState) -> Snapshot:
            dropped = self._snapshot(state, forget=thread_ids)
            unread = {name: at for name, at in dropped.watermarks.items() if name not in thread_ids}
            return msgspec.structs.replace(dropped, watermarks=unread, forgotten=state.snapshot.forgotten)

        return await self._thread.rewrite(made)

    async def reset(self) -> MemoryState:
        """Forget everything, how far threads were read too: the next pass begins anew."""
        now = self._backend.clock.now_ms()
        return await self._thread.rewrite(lambda _: Snapshot(at_ms=now, memories=[], watermarks={}))

    async def _due(self, state: MemoryState) -> list[ThreadRow]:
        now = self._backend.clock.now_ms()
        rows = await self._backend.store.threads(limit=self._settings.threads)
        return [row for row in rows if row.updated_at_ms + self._settings.idle_ms <= now and self._wants(state, row, now)]

    def _wants(self, state: MemoryState, row: ThreadRow, now_ms: int) -> bool:
        if row.id == MEMORY_THREAD or row.id in state.snapshot.forgotten or state.watermark(row.id) >= row.next:
            return False
        failure = state.failures.get(row.id)
        # What was added since a failure is a new chance.
        return failure is None or failure.watermark < row.next or failure.retry_at_ms <= now_ms

    async def _extract(self, row: ThreadRow) -> str | None:
        state, now = await self._thread.load(), self._backend.clock.now_ms()
        if not self._wants(state, row, now) or (await description(self._backend.store, row.id)).archived:
            return None
        try:
            said = await statements_of(self._backend.store, row.id, dialect=dialect_named(row.dialect))
        except (StoreCorrupt, NotFound) as error:
            return await self._failed(row, error, state)
        entries, fell_back_from = extracted(said.candidates, mask=mask), None
        if self._settings.model is not None and said.candidates:
            try:
                entries = await self._asked(self._settings.model, said)
            except ModelError as error:
                failure = state.failures.get(row.id)
                if failure is None or failure.watermark < row.next or failure.attempt < self._settings.attempts:
                    return await self._failed(row, error, state)
                fell_back_from = error.code
        done = Extracted(
            thread=row.id,
            watermark=row.next,
            at_ms=row.updated_at_ms,
            entries=entries,
            superseded=list(said.superseded),
            fell_back_from=fell_back_from,
        )
        await self._thread.add(done)
        return "extracted" if entries else "empty"

    async def _asked(self, model: Model, said: Statements) -> list[Entry]:
        dialect = dialect_named(model.dialect)
        request = dialect.compose(system=None, tools=(), cache_key=None)
        asked = dialect.state_item(instruction(said.candidates, mask=mask))
        reply = await model.ask(replace(request, items=(asked,)))
        return parsed(reply.text, said.candidates, model=model.name, mask=mask)

    async def _failed(self, row: ThreadRow, error: HoldfastError, state: MemoryState) -> str:
        before = state.failures.get(row.id)
        attempt = before.attempt + 1 if before is not None and before.watermark == row.next else 1
        retry_at_ms = self._backend.clock.now_ms() + self._settings.retry_ms * attempt
        failure = Failed(thread=row.id, watermark=row.next, error=error.code, attempt=attempt, retry_at_ms=retry_at_ms)
        await self._thread.add(failure)
        return "failed"

    async def _consolidate(self) -> None:
        async with self._lease("memory:consolidate") as mine:
            if mine and (await self._thread.load()) != MemoryState():
                await self._thread.change(self._next)

    def _next(self, state: MemoryState) -> Snapshot | None:
        """Return the next snapshot, or None where it would say what the last one says."""
        made = self._snapshot(state)
        return None if not state.pending and made.memories == state.snapshot.memories else made

    def _snapshot(self, state: MemoryState, *, forget: Sequence[str] = ()) -> Snapshot:
        return consolidated(state, now_ms=self._backend.clock.now_ms(), bounds=self._settings.bounds, forget=forget)

    @asynccontextmanager
    async def _lease(self, key: str) -> AsyncIterator[bool]:
        """Hold one piece of work, or learn that another has it."""
        store, clock = self._backend.store, self._backend.clock
        holder = f"{self._backend.holder}-{secrets.token_hex(4)}"
        if not await store.acquire(key, holder=holder, now_ms=clock.now_ms(), ttl_ms=LEASE_MS):
            yield False
            return

        async def renew() -> None:
            while True:
                await asyncio.sleep(RENEWAL_S)
                await store.acquire(key, holder=holder, now_ms=clock.now_ms(), ttl_ms=LEASE_MS)

        renewing = asyncio.create_task(renew())
        try:
            yield True
        finally:
            renewing.cancel()
            with suppress(asyncio.CancelledError):
                await renewing
            await store.release(key, holder=holder)
