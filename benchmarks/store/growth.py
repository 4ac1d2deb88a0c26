"""Builds threads of very different lengths that end alike: the same window after a thousand records and after a million."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.store.workload import DIALECT, Workload
from threadkeep.client import Config, Threadkeep
from threadkeep.compaction.backend import Backend
from threadkeep.dialects import find_dialect
from threadkeep.items import seed_chain
from threadkeep.store import NewRecord, RecordKind, Span
from threadkeep.threads import Arrival, Checkpoint, KeepEntry, StateEntry, Tip, decode_body, encode_body, make_records
from threadkeep.threads.writer import create_thread, make_arrival

THREAD = "long"
# A thread that is compacted at a quarter of a million tokens has a checkpoint about every thousand records.
CHECKPOINT_EVERY = 1_000
KEPT_ITEMS = 40
ENDING_TURNS = 8
AFTER_TURNS = 2
MODEL_TURNS = 60
BATCH_RECORDS = 2_000
# The lookup measures ask about histories up to this long.
CHAIN_KEPT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A store with one long thread. `chain` is its digest chain, no longer than its newest hundred thousand links."""

    path: Path
    records: int
    turns: int
    chain: tuple[bytes, ...]


async def make_real_checkpoint(folder: Path, *, workload: Workload) -> Checkpoint:
    """Return what compacting a session of some length really leaves; the long threads' checkpoints are made after it."""
    async with Threadkeep(Config(store=str(folder / "model.db"))) as tk:
        # Named and begun like the long threads, so that what its state points at is there in every one of them.
        thread = await tk.thread(THREAD, dialect=DIALECT)
        for _, items in zip(range(MODEL_TURNS), workload.turns(), strict=False):
            await thread.record(items)
        report = await thread.compact()
        assert report.checkpoint is not None
        span = Span(thread_id=THREAD, start=report.checkpoint, stop=report.checkpoint + 1)
        return decode_body((await tk.backend.store.read(span))[0].body, Checkpoint)


async def grow(path: Path, *, records: int, workload: Workload, model: Checkpoint) -> Grown:
    """Make a store with a thread of about that many records, checkpoints on the way included.

    Filled in batches of thousands a commit, because one by one a million would take an hour: what is measured comes after.
    A thread too short for the common ending is one turn, never compacted.
    """
    return await grow_in(Config(store=str(path)), records=records, workload=workload, model=model)


async def grow_in(config: Config, *, records: int, workload: Workload, model: Checkpoint) -> Grown:
    """`grow`, wherever the configuration has its store."""
    (grown,) = await grow_alike([config], records=records, workload=workload, model=model)
    return grown


async def grow_alike(
    configs: Sequence[Config],
    *,
    records: int,
    workload: Workload,
    model: Checkpoint,
    say: Callable[[str], None] = lambda text: None,
) -> list[Grown]:
    """`grow_in` at several places at once: making the items is most of the work, and every place is given the same ones."""
    async with AsyncExitStack() as stack:
        backends = [(await stack.enter_async_context(Threadkeep(config))).backend for config in configs]
        makers = [_Maker(backend, model=model) for backend in backends]
        for backend in backends:
            await create_thread(backend, find_dialect(DIALECT), thread_id=THREAD)
        ending = workload.ending(ENDING_TURNS + AFTER_TURNS)
        # Each turn's own mark and the checkpoint among them.
        ending_size = 1 + sum(len(items) + 1 for items in ending)
        if records > ending_size:
            for batch in _batches(workload.turns(), stop=records - ending_size):
                await asyncio.gather(*(maker.store(maker.laid_down(batch)) for maker in makers))
                say(f"{makers[0].tip.next:,} of {records:,} records")
            await asyncio.gather(*(maker.store(maker.ending(_prepared(ending))) for maker in makers))
        else:
            await asyncio.gather(*(maker.store(maker.turn(_prepared([next(workload.turns())])[0])) for maker in makers))
    return [
        Grown(path=Path(config.store), records=maker.tip.next, turns=maker.tip.turn, chain=tuple(maker.chain))
        for config, maker in zip(configs, makers, strict=True)
    ]


Turn = list[Arrival]


def _prepared(turns: Iterable[list[dict[str, object]]]) -> list[Turn]:
    dialect = find_dialect(DIALECT)
    return [[make_arrival(dialect, dialect.parse(item)) for item in items] for items in turns]


def _batches(turns: Iterator[list[dict[str, object]]], *, stop: int) -> Iterator[list[Turn]]:
    """Yield turns, some thousand records at a time, until the next one would reach `stop` with the checkpoints among them."""
    reached, due, waiting = 1, CHECKPOINT_EVERY, 0
    batch: list[list[dict[str, object]]] = []
    for items in turns:
        if reached + len(items) + 1 > stop:
            break
        batch.append(items)
        reached += len(items) + 1
        waiting += len(items) + 1
        if reached >= due:
            reached += 1
            due = reached + CHECKPOINT_EVERY
        if waiting >= BATCH_RECORDS:
            yield _prepared(batch)
            batch, waiting = [], 0
    if batch:
        yield _prepared(batch)


class _Maker:
    """Lays turns and checkpoints down at one place, one after another."""

    def __init__(self, backend: Backend, *, model: Checkpoint) -> None:
        self._backend = backend
        self._state = [entry for entry in model.layout if isinstance(entry, StateEntry)]
        self._model = model
        key = backend.store.tenant.key
        self.tip = Tip(next=1, turn=0, depth=0, chain=seed_chain(key, dialect=DIALECT))
        self.chain: deque[bytes] = deque(maxlen=CHAIN_KEPT)
        self._newest: deque[tuple[int, int]] = deque(maxlen=KEPT_ITEMS)
        self._base: int | None = None
        self._stored = 1
        self._due = CHECKPOINT_EVERY

    def laid_down(self, batch: Sequence[Turn]) -> list[NewRecord]:
        """Return the records of some turns, a checkpoint among them wherever one is due."""
        records: list[NewRecord] = []
        for arrivals in batch:
            records += self.turn(arrivals)
            if self.tip.next >= self._due:
                records.append(self.checkpoint())
                self._due = self.tip.next + CHECKPOINT_EVERY
        return records

    def ending(self, turns: Sequence[Turn]) -> list[NewRecord]:
        records = [record for arrivals in turns[:ENDING_TURNS] for record in self.turn(arrivals)]
        records.append(self.checkpoint())
        return records + [record for arrivals in turns[ENDING_TURNS:] for record in self.turn(arrivals)]

    def turn(self, arrivals: Turn) -> list[NewRecord]:
        first = self.tip.next
        key, now = self._backend.store.tenant.key, self._backend.clock.now_ms()
        records, self.tip = make_records(self.tip, arrivals, key=key, at_ms=now)
        for ordinal, record in enumerate(records, start=first):
            if record.chain is not None and record.depth is not None:
                self.chain.append(record.chain)
                self._newest.append((ordinal, record.depth))
        return records

    def checkpoint(self) -> NewRecord:
        """Return a checkpoint that keeps the newest items and puts the model's state in place of all before them."""
        kept = [KeepEntry(thread=THREAD, ordinal=ordinal, depth=depth) for ordinal, depth in self._newest]
        body = msgspec.structs.replace(
            self._model, cut=self.tip.next, covers=self.tip.depth, layout=[*self._state, *kept], base=self._base
        )
        self._base = self.tip.next
        record = NewRecord(
            kind=RecordKind.CHECKPOINT,
            at_ms=self._backend.clock.now_ms(),
            turn=self.tip.turn,
            tokens=0,
            body=encode_body(body),
            target=self.tip.next,
        )
        self.tip = Tip(next=self.tip.next + 1, turn=self.tip.turn, depth=self.tip.depth, chain=self.tip.chain)
        return record

    async def store(self, records: list[NewRecord]) -> None:
        self._stored = await self._backend.store.append(THREAD, records, expected=self._stored)
