"""Compactions of conversations that go on meanwhile: when one is due, one at a time per thread, never in another's way."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from traceback import format_tb
from typing import Any, Literal

import msgspec

from threadkeep.compaction.backend import Backend
from threadkeep.compaction.fallback import Deadline, Futility
from threadkeep.compaction.order import Order
from threadkeep.compaction.report import CompactionReport
from threadkeep.compaction.run import compact_thread
from threadkeep.dialects import Dialect
from threadkeep.errors import CompactionError, NothingToCompact, ThreadkeepError
from threadkeep.gateway.known import Known, Memory
from threadkeep.gateway.rules import AutoCompact
from threadkeep.store import NewRecord, RecordKind
from threadkeep.tokens import Limits, Pressure

log = logging.getLogger("threadkeep.gateway")

Due = Literal["nothing", "in_background", "now"]


def due(pressure: Pressure, mode: AutoCompact) -> Due:
    """Return what a request's pressure calls for."""
    if mode == "off":
        return "nothing"
    if pressure.must_compact:
        return "now"
    return "in_background" if mode == "background" and pressure.worth_preparing else "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Running:
    task: asyncio.Task[CompactionReport]
    deadline: Deadline


class Upkeep:
    """Compacts threads of one dialect in one tenant's store. `close` must be called before the store is closed."""

    def __init__(self, backend: Backend, dialect: Dialect, memory: Memory) -> None:
        self._backend = backend
        self._dialect = dialect
        self._memory = memory
        self._running: dict[str, _Running] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._futility = Futility()

    async def compact(self, known: Known, order: Order, *, seed: bytes, limits: Limits) -> CompactionReport:
        """Compact a thread, or, where a compaction of it is under way, wait for that one; its draft has to the order's deadline.

        Raises:
            CompactionError: It did not happen, and the thread is what it was; or something broke that nobody foresaw.
            Conflict: Another process was at it, or moved the thread meanwhile.
        """
        return await asyncio.shield(self._started(known, order, seed=seed, limits=limits))

    def begin(self, known: Known, order: Order, *, seed: bytes, pressure: Pressure) -> None:
        """Compact a thread while requests go on; what goes wrong is recorded in the thread. At most one at a time per thread.

        Where it gains nothing from a window under this pressure, that is remembered.
        """
        if known.thread_id in self._running:
            return
        started = self._started(known, order, seed=seed, limits=pressure.limits)
        watching = asyncio.create_task(self._watch(known, started, tokens=pressure.tokens))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)

    def is_futile(self, known: Known, *, tokens: int, called_for: Due = "now") -> bool:
        """Whether a compaction of about this window was tried and found not to be worth it.

        What was tried in the background holds back none that must happen now: by then a turn is over that could not be replaced.
        """
        return self._futility.holds((known.thread_id, called_for), tokens=tokens)

    def found_futile(self, known: Known, *, tokens: int, called_for: Due = "now") -> None:
        """Take note that nothing can be gained from a window of this size."""
        self._futility.found((known.thread_id, called_for), tokens=tokens)

    async def settled(self) -> None:
        """Return once every compaction that is under way has ended."""
        while tasks := self._tasks():
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Break off what is under way, which leaves every thread as it was, and return once it has ended."""
        tasks = self._tasks()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return {*(running.task for running in self._running.values()), *self._watching}

    def _started(self, known: Known, order: Order, *, seed: bytes, limits: Limits) -> asyncio.Task[CompactionReport]:
        running = self._running.get(known.thread_id)
        if running is not None:
            running.deadline.follow(order.deadline)
            return running.task
        task = asyncio.create_task(self._compact(known, order, seed=seed, limits=limits))
        self._running[known.thread_id] = _Running(task=task, deadline=order.deadline)
        task.add_done_callback(lambda done: self._ended(known.thread_id, done))
        return task

    def _ended(self, thread_id: str, task: asyncio.Task[CompactionReport]) -> None:
        self._running.pop(thread_id, None)
        self._memory.forget(thread_id)
        # Whoever waits is told; where nobody does, the error must not be reported as one nobody looked at.
        if not task.cancelled():
            task.exception()

    async def _compact(self, known: Known, order: Order, *, seed: bytes, limits: Limits) -> CompactionReport:
        backend = replace(self._backend, limits=limits)
        try:
            report = await compact_thread(backend, known.thread_id, dialect=self._dialect, seed=seed, order=order)
        except ThreadkeepError:
            raise
        except Exception as error:
            # Where it broke and what kind it is, but not what it says: that may quote the conversation.
            kind, trace = type(error).__name__, "".join(format_tb(error.__traceback__))
            log.error("a compaction of thread %s broke: %s\n%s", known.thread_id, kind, trace)  # noqa: TRY400
            raise CompactionError(f"the compaction of thread {known.thread_id!r} broke ({kind}); the log says where") from error
        log.info("compacted thread %s: %d to %d tokens", known.thread_id, report.tokens_before, report.tokens_after)
        return report

    async def _watch(self, known: Known, task: asyncio.Task[CompactionReport], *, tokens: int) -> None:
        await asyncio.wait({task})
        error = None if task.cancelled() else task.exception()
        if isinstance(error, NothingToCompact):
            self.found_futile(known, tokens=tokens, called_for="in_background")
        elif isinstance(error, ThreadkeepError):
            log.warning("a compaction of thread %s failed in the background: %s", known.thread_id, error.code)
            try:
                await self._note(known, error)
            except ThreadkeepError as unnoted:
                log.warning("thread %s could not be told of it: %s", known.thread_id, unnoted.code)

    async def _note(self, known: Known, error: ThreadkeepError) -> None:
        """Record in a thread that it could not be compacted, and why."""
        body = msgspec.json.encode({"event": "compaction_failed", "code": error.code, "reason": str(error)})
        at_ms = self._backend.clock.now_ms()
        note = NewRecord(kind=RecordKind.NOTE, at_ms=at_ms, turn=known.tip.turn, tokens=0, body=body)
        await self._backend.append_beside(known.thread_id, note, expected=known.tip.next)
        self._memory.forget(known.thread_id)
