"""The facade: an open store and the threads in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import cast

from threadkeep.client.config import Config, memory_settings_of
from threadkeep.client.thread import Thread
from threadkeep.client.verification import verify_thread
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.budget import StateBudget
from threadkeep.compaction.order import CompactionPolicy, DraftBudget
from threadkeep.compaction.telemetry import CompactionObserver, installed_observer
from threadkeep.dialects import DEFAULT, find_dialect
from threadkeep.errors import (
    AmbiguousThread,
    RecordNotFound,
    StoreClosed,
    StoreCorrupt,
    ThreadExists,
    ThreadNotFound,
)
from threadkeep.hooks import Hooks, parse_hooks
from threadkeep.llm.models import Models
from threadkeep.memory.memory import Memories
from threadkeep.store import RecordKind, Span, ThreadRow
from threadkeep.store.base import FullStore
from threadkeep.store.locations import Database, open_database
from threadkeep.threads import Persistence, TurnBody, checked_thread_id
from threadkeep.threads.backend import Redact
from threadkeep.threads.clock import Clock, SystemClock
from threadkeep.threads.reader import current_turn, live_path, load_history, readable
from threadkeep.threads.reports import Problem, ThreadSummary, Verdict
from threadkeep.threads.titles import description
from threadkeep.threads.writer import create_thread
from threadkeep.tokens import Limits, Scope


def backend_of(
    config: Config,
    store: FullStore,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    redact: Redact | None = None,
    hooks: Hooks | None = None,
) -> Backend:
    """Return the outside world of a store's threads.

    Raises:
        BadInput: A hook is configured in a way that cannot be run.
        UnknownModel: `compact_model` names no model that can be asked.
    """
    models = Models(environ)
    scope = cast(Scope, config.model_auto_compact_token_limit_scope)
    policy = CompactionPolicy(
        strategy=config.compact_strategy,
        model=models.get(config.compact_model) if config.compact_model else None,
        prompt=config.compact_prompt,
        user_tokens=config.compact_user_message_tokens,
        state_budget=StateBudget(
            tokens=config.compact_state_tokens,
            messages=config.compact_state_messages_percent,
            findings=config.compact_state_findings_percent,
            handoff=config.compact_state_handoff_percent,
            evidence=config.compact_state_evidence_percent,
            drafted=config.compact_state_drafted_percent,
        ),
        timeout_s=config.compact_timeout_s,
        wait_s=config.compact_wait_s,
        draft_budget=DraftBudget(
            input_tokens=config.compact_draft_input_tokens,
            output_tokens=config.compact_draft_output_tokens,
            cents=config.compact_draft_cents,
        ),
        hooks=parse_hooks(config.hooks) + (hooks or Hooks()),
        observer=installed_observer(),
        cwd=str(Path.cwd()),
        environ=dict(environ),
    )
    return Backend(
        store=store,
        clock=clock,
        limits=_limits(config, config.model_context_window, scope=scope),
        holder=f"{os.getpid()}-{clock.now_ms():x}-{id(store):x}",
        persistence=Persistence(config.persistence),
        redact=redact,
        policy=policy,
        models=models,
        limits_by_model={name: _limits(config, window, scope=scope) for name, window in config.model_windows.items()},
        scope=scope,
        of_window=partial(_limits, config, scope=scope),
    )


def _limits(config: Config, window: int, *, scope: Scope) -> Limits:
    return Limits.of_window(
        window,
        auto_limit=config.model_auto_compact_token_limit,
        soft_limit=config.model_soft_compact_token_limit,
        scope=scope,
    )


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
            store = await database.open_tenant(self.config.tenant)
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
        other._backend = replace(known, store=await self._database.open_tenant(name), policy=policy)
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

    async def thread(self, thread_id: str | None = None, *, dialect: str = DEFAULT.name) -> Thread:
        """Resume the thread called `thread_id`, or create it; without a name, create one with a new id.

        Raises:
            InvalidThreadId: The name cannot be an id.
            UnknownDialect: There is no such dialect.
        """
        language = find_dialect(dialect)
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
        return Thread(self.backend, row.id, dialect=find_dialect(row.dialect))

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
            count, found = await verify_thread(store, row, dialect=find_dialect(row.dialect))
            records += count
            problems.extend(found)
        return Verdict(threads=len(rows), records=records, problems=tuple(problems))

    async def _resumed(self, thread_id: str) -> Thread:
        row = await self.backend.store.get(thread_id)
        return Thread(self.backend, row.id, dialect=find_dialect(row.dialect))

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
