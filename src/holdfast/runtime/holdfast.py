"""The facade: a store opened, and the threads in it."""

from __future__ import annotations

import os
from types import TracebackType

from holdfast.dialects import dialect_named
from holdfast.errors import AmbiguousThread, RecordNotFound, StoreClosed, StoreCorrupt, ThreadExists, ThreadNotFound
from holdfast.runtime.backend import Backend, Redact
from holdfast.runtime.clock import Clock, SystemClock
from holdfast.runtime.config import Config
from holdfast.runtime.describing import description
from holdfast.runtime.handle import Thread
from holdfast.runtime.locations import open_database
from holdfast.runtime.reading import current_turn, live_path, load_history, readable
from holdfast.runtime.recording import create_thread
from holdfast.runtime.reports import Problem, ThreadSummary, Verdict
from holdfast.runtime.verifying import verify_thread
from holdfast.store import RecordKind, Span, ThreadRow
from holdfast.thread import Persistence, TurnBody, checked_thread_id
from holdfast.tokens import Limits

EVERY = 1_000_000
MATCHES_NAMED = 6


class Holdfast:
    """An open store. Use it as an async context manager; leaving it finishes what was accepted and closes the store."""

    def __init__(self, config: Config, *, clock: Clock | None = None, redact: Redact | None = None) -> None:
        """Name a store to open.

        Args:
            redact: Called with each item's JSON before it is written; what it returns is what is kept. It must return JSON
                of the same shape. A link of the chain over a redacted item cannot be proven later, and is not wrong for it.
        """
        self.config = config
        self._clock = clock or SystemClock()
        self._redact = redact
        self._backend: Backend | None = None

    async def __aenter__(self) -> Holdfast:
        database = await open_database(self.config.store)
        limits = Limits.of_window(self.config.model_context_window, auto_limit=self.config.model_auto_compact_token_limit)
        self._backend = Backend(
            store=await database.tenant(self.config.tenant),
            clock=self._clock,
            limits=limits,
            holder=f"{os.getpid()}-{self._clock.now_ms():x}-{id(self):x}",
            persistence=Persistence(self.config.persistence),
            redact=self._redact,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._backend is not None:
            await self._backend.store.close()
            self._backend = None

    @property
    def backend(self) -> Backend:
        """What the edges build on.

        Raises:
            StoreClosed: It is not open.
        """
        if self._backend is None:
            raise StoreClosed(self.config.store)
        return self._backend

    async def thread(self, thread_id: str | None = None, *, dialect: str = "responses") -> Thread:
        """Resume the thread called `thread_id`, or create it; without a name, create one with a new id.

        Raises:
            InvalidThreadId: The name cannot be an id.
            UnknownDialect: There is no such dialect.
        """
        language = dialect_named(dialect)
        if thread_id is not None:
            try:
                return await self._resumed(checked_thread_id(thread_id))
            except ThreadNotFound:
                pass
        try:
            name = await create_thread(self.backend, language, thread_id=thread_id)
        except ThreadExists as race:
            return await self._resumed(race.thread_id)
        return Thread(self.backend, name, dialect=language)

    async def find(self, prefix: str) -> Thread:
        """Resume the one thread whose id is `prefix` or begins with it.

        Raises:
            ThreadNotFound: None does.
            AmbiguousThread: Several do.
        """
        try:
            row = await self.backend.store.get(prefix)
        except ThreadNotFound:
            row = await self._only(prefix)
        return Thread(self.backend, row.id, dialect=dialect_named(row.dialect))

    async def _only(self, prefix: str) -> ThreadRow:
        rows = await self.backend.store.threads(prefix=prefix, limit=MATCHES_NAMED)
        if not rows:
            raise ThreadNotFound(prefix)
        if len(rows) > 1:
            raise AmbiguousThread(prefix, matches=tuple(row.id for row in rows))
        return rows[0]

    async def threads(self, *, limit: int = 50, archived: bool = False) -> list[ThreadSummary]:
        """List threads, the most recently written first; those put away only with `archived`."""
        summaries = [await self._summary(row) for row in await self.backend.store.threads(limit=limit)]
        return [summary for summary in summaries if archived or not summary.archived]

    async def verify(self, thread: Thread | None = None) -> Verdict:
        """Check one thread, or all, against what their records promise. Changes nothing."""
        store = self.backend.store
        rows = [await store.get(thread.id)] if thread else await store.threads(limit=EVERY)
        problems: list[Problem] = []
        records = 0
        for row in rows:
            count, found = await verify_thread(store, row, dialect=dialect_named(row.dialect))
            records += count
            problems.extend(found)
        return Verdict(threads=len(rows), records=records, problems=tuple(problems))

    async def _resumed(self, thread_id: str) -> Thread:
        row = await self.backend.store.get(thread_id)
        return Thread(self.backend, row.id, dialect=dialect_named(row.dialect))

    async def _summary(self, row: ThreadRow) -> ThreadSummary:
        store = self.backend.store
        own = Span(thread_id=row.id, start=row.start, stop=row.next)
        checkpoints = await store.read(own, kinds={RecordKind.CHECKPOINT}, bodies=False)
        known = await description(store, row.id)
        return ThreadSummary(
            id=row.id,
            title=known.title or await self._title(row),
            dialect=row.dialect,
            records=row.next - row.start,
            turns=await current_turn(store, row, stop=row.next),
            checkpoints=len(checkpoints),
            tokens=await self._window_tokens(row),
            updated_at_ms=row.updated_at_ms,
            parent=row.parent,
            archived=known.archived,
        )

    async def _window_tokens(self, row: ThreadRow) -> int:
        """Return the size of a thread's window; 0 where it cannot be put together, so that one thread hides no other."""
        store = self.backend.store
        try:
            return (await load_history(store, await live_path(store, row.id))).tokens
        except (StoreCorrupt, RecordNotFound):
            return 0

    async def _title(self, row: ThreadRow) -> str:
        """Return the first line a person said, here or, in a fork, where it came from."""
        while True:
            span = Span(thread_id=row.id, start=row.start, stop=row.next)
            first = await self.backend.store.read(span, kinds={RecordKind.TURN}, limit=1)
            if first:
                opened = readable(first[0], TurnBody)
                return opened.preview if opened else ""
            if row.parent is None:
                return ""
            row = await self.backend.store.get(row.parent)
