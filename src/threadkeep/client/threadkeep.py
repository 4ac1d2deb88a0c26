"""The facade: an open store and the threads in it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import cast

import msgspec

from threadkeep.client.thread import Thread
from threadkeep.compaction import load_ledger
from threadkeep.compaction.backend import Backend, CompactionPolicy, DraftBudget
from threadkeep.compaction.state_budget import StateBudget
from threadkeep.compaction.telemetry import CompactionObserver, find_installed_observer
from threadkeep.config import Config, build_memory_settings
from threadkeep.dialects import DEFAULT, Dialect, find_dialect
from threadkeep.errors import (
    AmbiguousThread,
    InvalidPointer,
    RecordNotFound,
    StoreClosed,
    StoreCorrupt,
    ThreadExists,
    ThreadNotFound,
)
from threadkeep.hooks import Hooks, parse_hooks
from threadkeep.items import Item, digest_body, find_orphans, format_digest, link_chain, seed_chain
from threadkeep.llm.models import Models
from threadkeep.memory.memory import Memories
from threadkeep.store import Record, RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.store.base import FullStore
from threadkeep.store.locations import Database, open_database
from threadkeep.threads import (
    Checkpoint,
    KeepEntry,
    LivePath,
    MetaBody,
    Persistence,
    Pointer,
    StubEntry,
    check_thread_id,
    decode_body,
)
from threadkeep.threads.backend import Clock, Redact, SystemClock
from threadkeep.threads.path import is_rewrite_mark
from threadkeep.threads.reader import CHAINED, load_history, load_live_path
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem that `verify` found."""

    pointer: Pointer
    code: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of `verify`."""

    threads: int
    records: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        return not self.problems


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


PAGE = 512


async def verify_thread(store: ThreadStore, row: ThreadRow, *, dialect: Dialect) -> tuple[int, list[Problem]]:
    """Return the number of a thread's records and all their problems. Reads in pages; changes nothing."""
    problems: list[Problem] = []
    named: set[Pointer] = set()
    count = 0
    expected = row.start
    async for record in _read_records(store, Span(thread_id=row.id, start=row.start, stop=row.next), problems):
        count += 1
        problems.extend(_find_gap(row, expected, record.ordinal))
        expected = record.ordinal + 1
        problems.extend(_check_digest(record))
        if record.kind is RecordKind.CHECKPOINT and not record.erased:
            named |= _collect_pointers(record, problems)
    problems.extend(_find_gap(row, expected, row.next))
    problems.extend(await _check_chain(store, row, dialect))
    problems.extend([problem for pointer in sorted(named) if (problem := await _check_pointer(store, row, pointer))])
    problems.extend(await _check_window(store, row, dialect))
    return count, list(dict.fromkeys(problems))


async def _read_records(store: ThreadStore, span: Span, problems: list[Problem]) -> AsyncIterator[Record]:
    """Yield the records of a span. If a page cannot be read, read its records one by one and report the broken ones."""
    start = span.start
    while start < span.stop:
        part = Span(thread_id=span.thread_id, start=start, stop=min(start + PAGE, span.stop))
        try:
            page = await store.read(part)
        except StoreCorrupt:
            page = await _read_one_by_one(store, part, problems)
        for record in page:
            yield record
        start = part.stop


async def _read_one_by_one(store: ThreadStore, span: Span, problems: list[Problem]) -> list[Record]:
    found: list[Record] = []
    for ordinal in range(span.start, span.stop):
        one = Span(thread_id=span.thread_id, start=ordinal, stop=ordinal + 1)
        try:
            found.extend(await store.read(one))
        except StoreCorrupt as error:
            problems.append(
                _make_problem(Pointer(span.thread_id, ordinal), "unreadable", f"its body cannot be read: {error.detail}")
            )
            found.extend(await store.read(one, bodies=False))
    return found


def _find_gap(row: ThreadRow, expected: int, found: int) -> list[Problem]:
    if found <= expected:
        return []
    missing = f"record #{expected} is missing" if found == expected + 1 else f"records #{expected} to #{found - 1} are missing"
    return [_make_problem(Pointer(row.id, expected), "gap", missing)]


def _check_digest(record: Record) -> list[Problem]:
    if record.erased:
        return []
    found = digest_body(record.body)
    if found == record.digest:
        return []
    text = f"its bytes are {format_digest(found)}, its digest says {format_digest(record.digest)}"
    return [_make_problem(Pointer(record.thread_id, record.ordinal), "bad_digest", text)]


def _collect_pointers(record: Record, problems: list[Problem]) -> set[Pointer]:
    """Return every record a checkpoint names, or report that it cannot be read."""
    try:
        checkpoint = decode_body(record.body, Checkpoint)
        entries = load_ledger(bytes(checkpoint.state)).entries
    except (msgspec.MsgspecError, InvalidPointer) as error:
        pointer = Pointer(record.thread_id, record.ordinal)
        problems.append(_make_problem(pointer, "unreadable", f"this checkpoint cannot be read: {error}"))
        return set()
    named = {Pointer(entry.thread, entry.ordinal) for entry in checkpoint.layout if isinstance(entry, KeepEntry | StubEntry)}
    for entry in entries:
        named.update(entry.sources)
        if entry.claim:
            named.add(entry.claim.source)
    return named


async def _check_chain(store: ThreadStore, row: ThreadRow, dialect: Dialect) -> list[Problem]:
    """Derive the chain along the live path again and report the first wrong link.

    The stored link of a redacted, erased or unreadable record is taken as given.
    """
    path = await load_live_path(store, row.id, whole=True)
    key = store.tenant.key
    link = seed = seed_chain(key, dialect=dialect.name, agent=await _find_agent(store, path))
    depth = 0
    for span in reversed(path.spans):
        unread: list[Problem] = []
        async for record in _read_records(store, span, unread):
            if is_rewrite_mark(record):
                link, depth = seed, 0
            if record.chain is None or record.kind not in CHAINED:
                continue
            depth += 1
            link = link_chain(key, link, dialect.canonical(Item(record.body)))
            broken = {problem.pointer for problem in unread}
            pointer = Pointer(record.thread_id, record.ordinal)
            if record.redacted or record.erased or pointer in broken:
                link = record.chain
            elif record.chain != link or record.depth != depth:
                return [_make_problem(pointer, "bad_chain", "its chain digest does not follow from its history")]
    return []


async def _find_agent(store: ThreadStore, path: LivePath) -> str:
    """Return the agent of a path's chain, from the root's metadata."""
    for record in await store.read(path.spans[-1], kinds={RecordKind.META}, limit=1):
        try:
            return decode_body(record.body, MetaBody).agent
        except msgspec.MsgspecError:
            break
    return ""


async def _check_pointer(store: ThreadStore, row: ThreadRow, pointer: Pointer) -> Problem | None:
    span = Span(thread_id=pointer.thread_id, start=pointer.ordinal, stop=pointer.ordinal + 1)
    if await store.read(span, bodies=False):
        return None
    return _make_problem(pointer, "dangling_pointer", f"a checkpoint of {row.id} points at it, but it is not there")


async def _check_window(store: ThreadStore, row: ThreadRow, dialect: Dialect) -> list[Problem]:
    """Report outputs in the window without their call, or that there is no window."""
    tip = Pointer(row.id, row.next - 1)
    try:
        history = await load_history(store, await load_live_path(store, row.id))
    except RecordNotFound as error:
        return [_make_problem(Pointer(error.thread_id, error.ordinal), "dangling_pointer", str(error))]
    except StoreCorrupt as error:
        return [_make_problem(tip, "no_window", f"the window cannot be put together: {error.detail}")]
    lost = find_orphans([dialect.view(item) for item in history.items])
    return [_make_problem(tip, "orphan_output", f"the window has an output for {call_id} but no call") for call_id in lost]


def _make_problem(pointer: Pointer, code: str, text: str) -> Problem:
    return Problem(pointer=pointer, code=code, text=text)
