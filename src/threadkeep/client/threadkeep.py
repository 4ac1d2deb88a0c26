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

from threadkeep.client.thread import Thread
from threadkeep.client.verification import Problem, Verdict, verify_thread
from threadkeep.compaction.backend import Backend, CompactionPolicy, DraftBudget
from threadkeep.compaction.state_budget import StateBudget
from threadkeep.compaction.telemetry import CompactionObserver, find_installed_observer
from threadkeep.config import Config, build_memory_settings
from threadkeep.dialects import DEFAULT, find_dialect
from threadkeep.errors import (
    AmbiguousThread,
    StoreClosed,
    ThreadExists,
    ThreadNotFound,
)
from threadkeep.hooks import Hooks, parse_hooks
from threadkeep.llm.models import Models
from threadkeep.memory.memory import Memories
from threadkeep.store import ThreadRow
from threadkeep.store.base import FullStore
from threadkeep.store.locations import Database, open_database
from threadkeep.threads import (
    Persistence,
    check_thread_id,
)
from threadkeep.threads.backend import Clock, Redact, SystemClock
from threadkeep.threads.summary import ThreadSummary, summarise_threads
from threadkeep.threads.writer import create_thread
from threadkeep.tokens import Limits, Scope


def build_backend(
    config: Config,
    store: FullStore,
    *,
    clock: Clock,
    environ: Mapping[str, str],
    redact: Redact | None = None,
    hooks: Hooks | None = None,
) -> Backend:
    """Return the services and settings for a store's threads.

    Raises:
        BadInput: A configured hook cannot be run.
        UnknownModel: `compact_model` cannot be asked.
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
        observer=find_installed_observer(),
        cwd=str(Path.cwd()),
        environ=dict(environ),
    )
    return Backend(
        store=store,
        clock=clock,
        limits=_make_limits(config, config.model_context_window, scope=scope),
        holder=f"{os.getpid()}-{clock.now_ms():x}-{id(store):x}",
        persistence=Persistence(config.persistence),
        redact=redact,
        policy=policy,
        models=models,
        limits_by_model={name: _make_limits(config, window, scope=scope) for name, window in config.model_windows.items()},
        scope=scope,
        of_window=partial(_make_limits, config, scope=scope),
        is_window_configured=config.model_context_window != Config().model_context_window,
    )


def _make_limits(config: Config, window: int, *, scope: Scope) -> Limits:
    return Limits.of_window(
        window,
        auto_limit=config.model_auto_compact_token_limit,
        soft_limit=config.model_soft_compact_token_limit,
        scope=scope,
    )


EVERY = 1_000_000
MATCHES_NAMED = 6


class Threadkeep:
    """An open store. Use it as an async context manager; leaving it finishes accepted writes and closes the store.

    Background compactions end with it: a commit is waited for, a draft is cancelled, so that closing never waits for a model.
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
            redact: Called with each item's JSON before it is written; must return JSON of the same shape, which is stored
                instead. `verify` cannot prove the chain link of a redacted item, and does not report it.
            hooks: Run around compactions, after the configured hooks.
            environ: The environment for models' keys and addresses and for hook commands; empty, if None.
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
            self._backend = build_backend(
                self.config, store, clock=self._clock, environ=self._environ, redact=self._redact, hooks=self._hooks
            )
        except BaseException:
            # Also when cancelled: nobody else can close the database.
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
        """Return the same open store for another tenant; it closes with this one.

        `observer` replaces this store's observer for compactions made through it.

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
        """The services behind the store, for the packages above.

        Raises:
            StoreClosed: It is not open.
        """
        if self._backend is None:
            raise StoreClosed(self.config.store)
        return self._backend

    @property
    def memory(self) -> Memories:
        """The tenant's memory: `run` makes it from threads; `summary`, `search` and `read` return it; `cite_in` counts citations.

        Raises:
            StoreClosed: It is not open.
        """
        return Memories(self.backend, build_memory_settings(self.config))

    async def thread(self, thread_id: str | None = None, *, dialect: str = DEFAULT.name) -> Thread:
        """Resume the thread with this id, or create it; without an id, create one with a new id.

        Raises:
            InvalidThreadId: It is not a valid thread id.
            UnknownDialect: There is no such dialect.
        """
        language = find_dialect(dialect)
        if thread_id is not None:
            try:
                return await self._resume(check_thread_id(thread_id))
            except ThreadNotFound:
                pass
        try:
            name = await create_thread(self.backend, language, thread_id=thread_id)
        except ThreadExists as race:
            return await self._resume(race.thread_id)
        return Thread(self.backend, name, dialect=language)

    async def find(self, prefix: str) -> Thread:
        """Resume the one thread whose id is `prefix` or begins with it.

        Raises:
            ThreadNotFound: No id begins with it.
            AmbiguousThread: Several ids do.
        """
        try:
            row = await self.backend.store.get(prefix)
        except ThreadNotFound:
            row = await self._find_only(prefix)
        return Thread(self.backend, row.id, dialect=find_dialect(row.dialect))

    async def _find_only(self, prefix: str) -> ThreadRow:
        rows = await self.backend.store.threads(prefix=prefix, limit=MATCHES_NAMED)
        if not rows:
            raise ThreadNotFound(prefix)
        if len(rows) > 1:
            raise AmbiguousThread(prefix, matches=tuple(row.id for row in rows))
        return rows[0]

    async def threads(self, *, limit: int = 50, archived: bool = False) -> list[ThreadSummary]:
        """List threads, the most recently written first; archived ones only with `archived`."""
        return await summarise_threads(self.backend.store, limit=limit, archived=archived)

    async def verify(self, thread: Thread | None = None) -> Verdict:
        """Check the bytes, ordinals, chain and pointers of one thread, or of all. Changes nothing."""
        store = self.backend.store
        rows = [await store.get(thread.id)] if thread else await store.threads(limit=EVERY)
        problems: list[Problem] = []
        records = 0
        for row in rows:
            count, found = await verify_thread(store, row, dialect=find_dialect(row.dialect))
            records += count
            problems.extend(found)
        return Verdict(threads=len(rows), records=records, problems=tuple(problems))

    async def _resume(self, thread_id: str) -> Thread:
        row = await self.backend.store.get(thread_id)
        return Thread(self.backend, row.id, dialect=find_dialect(row.dialect))
