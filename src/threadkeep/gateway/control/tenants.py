"""The stores and conversations of every tenant a gateway serves, opened when they are first asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self

from threadkeep.client import Threadkeep
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.telemetry import CompactionAttempt, CompactionObserver
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.gateway.conversation.proxy_interface import Conversations, HostConversations
from threadkeep.gateway.http.metrics import Metrics, Runs
from threadkeep.threads import Attempt
from threadkeep.threads.records import AttemptCost


class OpenConversations(Conversations, HostConversations, Protocol):
    """Conversations that may still be at work when the gateway stops."""

    async def close(self) -> None:
        """Break off what is under way."""
        ...


class Tenants:
    """One open store as each tenant has it. Nothing of one is ever reached through another: not a digest, not a thread.

    Use it as an async context manager inside that of the store: leaving it ends what conversations still do.
    """

    def __init__(
        self,
        tk: Threadkeep,
        *,
        conversing: Callable[[Threadkeep, Dialect], OpenConversations],
        metrics: Metrics,
        runs: Runs | None = None,
    ) -> None:
        """Take an open store, and what makes the conversations of one tenant in one dialect."""
        self._tk = tk
        self._conversing = conversing
        self._metrics = metrics
        self._runs = runs or Runs()
        self._stores: dict[str, Threadkeep] = {}
        self._conversations: dict[tuple[str, str], OpenConversations] = {}
        self._opening = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for conversations in self._conversations.values():
            await conversations.close()

    async def store(self, tenant: str | None) -> Threadkeep:
        """Return a tenant's store; None is the one of a gateway without keys."""
        name = self._tk.config.tenant if tenant is None else tenant
        async with self._opening:
            if name not in self._stores:
                observer = CountedCompactions(self._metrics, self._runs, beside=self._tk.backend.policy.observer)
                self._stores[name] = await self._tk.for_tenant(name, observer=observer)
        return self._stores[name]

    async def conversations(self, tenant: str | None, dialect: str) -> OpenConversations:
        """Return who decides about a tenant's requests in a dialect; always the same one."""
        tk = await self.store(tenant)
        key = (tk.config.tenant, dialect)
        if key not in self._conversations:
            self._conversations[key] = self._conversing(tk, find_dialect(dialect))
        return self._conversations[key]

    async def check_writable(self) -> None:
        """Write something small to the store and return once it is durable.

        Raises:
            StoreError: It cannot be written.
        """
        backend = self._tk.backend
        await backend.store.acquire("gateway:ready", holder=backend.holder, now_ms=backend.clock.now_ms(), ttl_ms=1)


class CountedCompactions(CompactionObserver):
    """Counts compactions for the metrics and for runs, and tells whoever else watches."""

    def __init__(self, metrics: Metrics, runs: Runs, *, beside: CompactionObserver) -> None:
        self._metrics = metrics
        self._runs = runs
        self._beside = beside

    def started(self, attempt: CompactionAttempt) -> None:
        self._beside.started(attempt)

    def tried(self, attempt: CompactionAttempt, trial: Attempt) -> None:
        self._beside.tried(attempt, trial)

    def finished(self, attempt: CompactionAttempt, report: CompactionReport, *, duration_ms: int) -> None:
        if report.checkpoint is not None:
            counted = {"tokens_before": report.tokens_before, "tokens_after": report.tokens_after}
            self._metrics.count_compaction(trigger=attempt.trigger, **counted)
            self._runs.count_compaction(attempt.thread_id)
        self._beside.finished(attempt, report, duration_ms=duration_ms)

    def failed(self, attempt: CompactionAttempt, error: BaseException, *, duration_ms: int, cost: AttemptCost) -> None:
        self._metrics.count_failure("compaction")
        self._beside.failed(attempt, error, duration_ms=duration_ms, cost=cost)
