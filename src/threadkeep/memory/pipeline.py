"""One pass of the memory pipeline: extract from idle threads, then consolidate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec

from threadkeep.compaction import Section, Speaker, read_ledger
from threadkeep.compaction.backend import Backend
from threadkeep.compaction.message_judgement import is_acknowledgement, may_bind
from threadkeep.compaction.message_shortener import shorten
from threadkeep.compaction.secrets import mask_secrets
from threadkeep.dialects import Dialect, find_dialect
from threadkeep.errors import ModelError, NotFound, StoreCorrupt, ThreadkeepError
from threadkeep.items import Item, ItemKind
from threadkeep.llm import Model
from threadkeep.memory.extraction import Statement, build_prompt, is_polluting, parse_answer, select_entries
from threadkeep.memory.memory_thread import MEMORY_THREAD, MemoryThread
from threadkeep.memory.records import (
    Entry,
    Extraction,
    FailedExtraction,
    Memory,
    MemoryState,
    Snapshot,
    make_memory_id,
    rank_memory,
)
from threadkeep.memory.settings import MemorySettings
from threadkeep.store import RecordKind, Span, ThreadRow, ThreadStore
from threadkeep.threads import EntryKind
from threadkeep.threads.lease import hold_lease
from threadkeep.threads.reader import iterate_records, load_history, load_live_path, load_metadata

mask = mask_secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadStatements:
    """The statements of a thread, oldest first, and the memory ids of those it took back."""

    candidates: tuple[Statement, ...]
    superseded: tuple[str, ...] = ()


async def collect_statements(store: ThreadStore, thread_id: str, *, dialect: Dialect) -> ThreadStatements:
    """Return the statements of a thread. Reads its window only: the ledger carries what came before.

    Only people's messages and the session's decisions count; no tool output, host context or reasoning.

    Raises:
        StoreCorrupt, RecordNotFound: The thread has no window.
    """
    history = await load_history(store, await load_live_path(store, thread_id))
    ledger = read_ledger(history)
    held = [entry for entry in ledger.section(Section.ACTIVE) if entry.sources and entry.speaker in (Speaker.USER, Speaker.MODEL)]
    found = {
        entry.text: Statement(
            text=entry.text,
            source=str(entry.sources[-1]),
            by_user=entry.speaker is Speaker.USER,
            binds=entry.speaker is Speaker.MODEL or entry.noted or entry.pinned or may_bind(entry.text),
        )
        for entry in held
    }
    for placed in history.entries:
        view = dialect.view(placed.item)
        is_message = view.kind is ItemKind.MESSAGE and view.by_person and placed.kind is not EntryKind.STUB
        if placed.source is not None and is_message and not is_acknowledgement(view.said):
            text = shorten(view.said)
            found[text] = Statement(text=text, source=str(placed.source), by_user=True, binds=may_bind(text))
    gone = tuple(make_memory_id(mask_secrets(entry.text)) for entry in ledger.section(Section.INACTIVE))
    standing = tuple(each for each in found.values() if make_memory_id(mask_secrets(each.text)) not in gone)
    return ThreadStatements(candidates=standing, superseded=gone)


PAGE = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPass:
    """The result of one pass: how many threads gave memories, gave none, failed, or are polluted; and the memories now."""

    extracted: int
    empty: int
    failed: int
    memories: int
    polluted: int = 0


class MemoryPipeline:
    """Reads a tenant's idle threads and writes its memory thread."""

    def __init__(self, backend: Backend, settings: MemorySettings, thread: MemoryThread) -> None:
        self._backend = backend
        self._settings = settings
        self._thread = thread

    async def run(self) -> MemoryPass:
        """Read what is due and consolidate. Any number of workers may do so at once; a thread is one worker's at a time.

        Raises:
            UnknownModel: The model that is to choose cannot be asked; nothing was done.
        """
        named = self._settings.model
        model = self._backend.models.get(named) if isinstance(named, str) else named
        done: Counter[str] = Counter()
        await self._thread.clear()
        for row in await self._find_due(await self._thread.load()):
            async with hold_lease(self._backend, f"memory:extract:{row.id}") as mine:
                # Another worker may have read it before the lease was taken.
                if mine and (outcome := await self._extract(row, model)) is not None:
                    done[outcome] += 1
        await self._consolidate()
        memories = len((await self._thread.load()).memories)
        return MemoryPass(
            extracted=done["extracted"],
            empty=done["empty"],
            failed=done["failed"],
            polluted=done["polluted"],
            memories=memories,
        )

    def make_snapshot(
        self, state: MemoryState, *, forget: list[str] | None = None, polluted: list[str] | None = None
    ) -> Snapshot:
        """Return the consolidated memory, without what these threads said."""
        now = self._backend.clock.now_ms()
        return consolidate(state, now_ms=now, settings=self._settings, forget=forget or (), polluted=polluted or ())

    async def _find_due(self, state: MemoryState) -> list[ThreadRow]:
        now = self._backend.clock.now_ms()
        rows = await self._backend.store.threads(limit=self._settings.threads)
        return [row for row in rows if row.updated_at_ms + self._settings.idle_ms <= now and self._is_due(state, row, now)]

    def _is_due(self, state: MemoryState, row: ThreadRow, now_ms: int) -> bool:
        if row.id == MEMORY_THREAD or state.is_excluded(row.id) or state.get_watermark(row.id) >= row.next:
            return False
        failure = state.failures.get(row.id)
        # New records since a failure are a new chance.
        return failure is None or failure.watermark < row.next or failure.retry_at_ms <= now_ms

    async def _extract(self, row: ThreadRow, model: Model | None) -> str | None:
        state, now = await self._thread.load(), self._backend.clock.now_ms()
        if not self._is_due(state, row, now) or (await load_metadata(self._backend.store, row.id)).archived:
            return None
        done = Extraction(thread=row.id, watermark=row.next, at_ms=row.updated_at_ms, entries=[])
        try:
            if await self._is_polluted(row, since=state.get_watermark(row.id)):
                return await self._record_pollution(done, state)
            said = await collect_statements(self._backend.store, row.id, dialect=find_dialect(row.dialect))
        except (StoreCorrupt, NotFound) as error:
            return await self._record_failure(row, error, state)
        entries, fell_back_from = select_entries(said.candidates, mask=mask), None
        if model is not None and said.candidates:
            try:
                entries = await _ask_model(model, said)
            except ModelError as error:
                failure = state.failures.get(row.id)
                if failure is None or failure.watermark < row.next or failure.attempt < self._settings.attempts:
                    return await self._record_failure(row, error, state)
                fell_back_from = error.code
        found = Extraction(
            thread=row.id,
            watermark=row.next,
            at_ms=row.updated_at_ms,
            entries=entries,
            superseded=list(said.superseded),
            fell_back_from=fell_back_from,
        )
        return ("extracted" if entries else "empty") if await self._append_extraction(found, state) else None

    async def _append_extraction(self, found: Extraction, state: MemoryState) -> bool:
        """Append an extraction, unless the memory was rewritten since `state` was read; the next pass then reads again."""
        as_it_was = state.snapshot.nonce

        def unless_rewritten(now: MemoryState) -> Extraction | None:
            return found if now.snapshot.nonce == as_it_was else None

        after = await self._thread.change(unless_rewritten)
        return after.snapshot.nonce == as_it_was

    async def _record_pollution(self, done: Extraction, state: MemoryState) -> str:
        """Record that a thread is polluted, and erase what was extracted from it before."""
        if state.get_watermark(done.thread):
            await self._thread.rewrite(lambda now: self.make_snapshot(now, polluted=[done.thread]))
        else:
            await self._thread.add(msgspec.structs.replace(done, polluted=True))
        return "polluted"

    async def _is_polluted(self, row: ThreadRow, *, since: int) -> bool:
        """Whether a thread's path has a call of a polluting tool since the last extraction."""
        patterns = self._settings.polluting_tools
        if not patterns:
            return False
        path = await load_live_path(self._backend.store, row.id, whole=True)
        for span in path.spans:
            begins = max(span.start, since) if span.thread_id == row.id else span.start
            # The part of a fork's parent was checked with the fork's first extraction.
            if span.thread_id != row.id and since:
                continue
            rest = Span(thread_id=span.thread_id, start=begins, stop=span.stop)
            async for record in iterate_records(self._backend.store, [rest], kinds={RecordKind.ITEM}, page=PAGE):
                if not record.erased and is_polluting(Item(record.body), patterns):
                    return True
        return False

    async def _record_failure(self, row: ThreadRow, error: ThreadkeepError, state: MemoryState) -> str:
        before = state.failures.get(row.id)
        attempt = before.attempt + 1 if before is not None and before.watermark == row.next else 1
        retry_at_ms = self._backend.clock.now_ms() + self._settings.retry_ms * attempt
        failure = FailedExtraction(thread=row.id, watermark=row.next, error=error.code, attempt=attempt, retry_at_ms=retry_at_ms)
        await self._thread.add(failure)
        return "failed"

    async def _consolidate(self) -> None:
        async with hold_lease(self._backend, "memory:consolidate") as mine:
            if mine and (await self._thread.load()) != MemoryState():
                await self._thread.change(self._make_next_snapshot)

    def _make_next_snapshot(self, state: MemoryState) -> Snapshot | None:
        """Return the next snapshot; None if nothing changed."""
        made = self.make_snapshot(state)
        same = not state.pending and not state.citations and made.memories == state.snapshot.memories
        return None if same else made


async def _ask_model(model: Model, said: ThreadStatements) -> list[Entry]:
    dialect = find_dialect(model.dialect)
    request = dialect.compose(system=None, tools=(), cache_key=None)
    asked = dialect.make_user_message(build_prompt(said.candidates, mask=mask))
    reply = await model.ask(replace(request, items=(asked,)))
    return parse_answer(reply.text, said.candidates, model=model.name, mask=mask)


def consolidate(
    state: MemoryState,
    *,
    now_ms: int,
    settings: MemorySettings,
    forget: Collection[str] = (),
    polluted: Collection[str] = (),
) -> Snapshot:
    """Merge pending extractions into the memory. Pure: the same state gives the same memory.

    A thread's newest extraction replaces its older ones: what it no longer says loses that thread as a source, and a memory
    without a source is dropped unless a person pinned it. Rules of several threads stay side by side; code does not decide which
    one replaces which. `forget` and `polluted` name threads to drop for good.
    """
    before = state.snapshot
    forgotten = {*before.forgotten, *forget}
    unclean = {*before.polluted, *polluted, *(each.thread for each in state.pending.values() if each.polluted)}
    held = {memory.id: memory for memory in before.memories}
    no_longer = {*state.pending, *forgotten, *unclean}
    held = {name: _drop_threads(memory, no_longer, erased=forgotten) for name, memory in held.items()}
    for pending in sorted(state.pending.values(), key=lambda each: (each.at_ms, each.thread)):
        if pending.thread not in forgotten | unclean:
            _set_aside(held, pending)
            _take_in(held, pending, removed=before.removed)
    alive = [memory for memory in held.values() if memory.pinned or (memory.sources and not _is_unused(memory, now_ms, settings))]
    kept = sorted(alive, key=rank_memory, reverse=True)[: settings.memories]
    return msgspec.structs.replace(
        before,
        at_ms=now_ms,
        memories=sorted(kept, key=lambda memory: memory.id),
        watermarks={**before.watermarks, **{each.thread: each.watermark for each in state.pending.values()}},
        forgotten=sorted(forgotten),
        polluted=sorted(unclean),
    )


def _set_aside(held: dict[str, Memory], pending: Extraction) -> None:
    """Drop memories that the thread took back."""
    older = {name for name, memory in held.items() if not memory.pinned and memory.seen_ms <= pending.at_ms}
    for name in older.intersection(pending.superseded):
        del held[name]


def _take_in(held: dict[str, Memory], pending: Extraction, *, removed: Collection[str]) -> None:
    for entry in pending.entries:
        name = make_memory_id(entry.text)
        if name in removed:
            continue
        known = held.get(name)
        if known is None:
            known = Memory(id=name, kind=entry.kind, text=entry.text, sources=[], seen_ms=pending.at_ms)
        said = {**_list_sources(known), pending.thread: entry.source}
        held[name] = msgspec.structs.replace(_set_sources(known, said), seen_ms=max(known.seen_ms, pending.at_ms))


def _drop_threads(memory: Memory, threads: Collection[str], *, erased: Collection[str]) -> Memory:
    """Return a memory without these threads as sources; records of an `erased` thread are no source for its forks either."""
    said = _list_sources(memory)
    left = {name: at for name, at in said.items() if name not in threads and at.rpartition("#")[0] not in erased}
    return memory if left == said else _set_sources(memory, left)


def _set_sources(memory: Memory, said: dict[str, str]) -> Memory:
    return msgspec.structs.replace(memory, said=dict(sorted(said.items())), sources=sorted(set(said.values())))


def _list_sources(memory: Memory) -> dict[str, str]:
    """Return the sources by thread; older snapshots have only the records."""
    return memory.said or {source.rpartition("#")[0]: source for source in memory.sources}


def _is_unused(memory: Memory, now_ms: int, settings: MemorySettings) -> bool:
    return max(memory.used_ms, memory.seen_ms) + settings.unused_ms < now_ms
