"""The facade: a store opened, and the threads in it."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from types import TracebackType

from threadkeep.dialects import dialect_named
from threadkeep.errors import (
    AmbiguousThread,
    RecordNotFound,
    StoreClosed,
    StoreCorrupt,
    ThreadExists,
    ThreadNotFound,
)
from threadkeep.hooks import Hooks
from threadkeep.runtime.assembling import backend_of
from threadkeep.runtime.backend import Backend, Redact
from threadkeep.runtime.clock import Clock, SystemClock
from threadkeep.runtime.config import Config
from threadkeep.runtime.describing import description
from threadkeep.runtime.handle import Thread
from threadkeep.runtime.locations import Database, open_database
from threadkeep.runtime.memory_settings import memory_settings_of
from threadkeep.runtime.reading import current_turn, live_path, load_history, readable
from threadkeep.runtime.recording import create_thread
from threadkeep.runtime.remembering import Memories
from threadkeep.runtime.reports import Problem, ThreadSummary, Verdict
from threadkeep.runtime.telemetry import CompactionObserver
from threadkeep.runtime.verifying import verify_thread
from threadkeep.store import RecordKind, Span, ThreadRow
from threadkeep.thread import TurnBody, checked_thread_id

EVERY = 1_000_000
MATCHES_NAMED = 6


class Threadkeep:
    """An open store. Use it as an async context manager; leaving it finishes what was accepted and closes the store.

    A compaction that was begun beside a turn is over with it. One that is being written is waited for; a draft is broken off, so
    that no process that ends waits for a model, and the turn that needs one makes it.
    """

    def __init__(
        self,
        config: Config,
        *,
        clock: Clock | None = None,
        redact: Redact | None = None,
        hooks: Hooks | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Name a store to open.

        Args:
            redact: Called with each item's JSON before it is written; what it returns is what is kept. It must return JSON
                of the same shape. A link of the chain over a redacted item cannot be proven later, and is not wrong for it.
            hooks: Run around compactions, after those the configuration names.
            environ: Where models' keys and addresses are looked up, and what commands run as hooks see; nothing, if None.
        """
        self.config = config
        self._clock = clock or SystemClock()
        self._redact = redact
        self._hooks = hooks
        self._environ = environ or {}
        self._backend: Backend | None = None
        self._database: Database | None = None

    async def __aenter__(self) -> Threadkeep:
        self._database = database = await open_database(self.config.store, listen=self.config.store_listen)
        try:
            store = await database.tenant(self.config.tenant)
            self._backend = backend_of(
                self.config, store, clock=self._clock, environ=self._environ, redact=self._redact, hooks=self._hooks
            )
        except BaseException:
            # Cancelled too: nobody else knows of the threads and connections that are there by now.
            await database.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._backend is None:
            return
        try:
            await self._backend.upkeep.close()
        finally:
            try:
                await self._backend.models.close()
            finally:
                backend, self._backend = self._backend, None
                await backend.store.close()

    async def for_tenant(self, name: str, *, observer: CompactionObserver | None = None) -> Threadkeep:
        """Return the same open store as the tenant called `name` has it; it lives as long as this one does, and is not closed.

        `observer` is told of the compactions made through it, in place of whoever is told of this one's.

        Raises:
            StoreClosed: This one is not open.
        """
        known = self.backend
        if self._database is None:
            raise StoreClosed(self.config.store)
        policy = replace(known.policy, observer=observer) if observer is not None else known.policy
        other = copy(self)
        other.config = replace(self.config, tenant=name)
        other._backend = replace(known, store=await self._database.tenant(name), policy=policy)
        return other

    @property
    def backend(self) -> Backend:
        """What the edges build on.

        Raises:
            StoreClosed: It is not open.
        """
        if self._backend is None:
            raise StoreClosed(self.config.store)
        return self._backend

    @property
    def memory(self) -> Memories:
        """What outlives the tenant's threads: `summary`, `search` and `read` it, count what was cited with `cite_in`, make it
        with `run`.

        Raises:
            StoreClosed: It is not open.
        """
        return Memories(self.backend, memory_settings_of(self.config))

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
