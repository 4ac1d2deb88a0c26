"""Threads of very different lengths that end alike: the same window behind a thousand records and behind a million."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from holdfast.bench.workload import DIALECT, Workload, records_of
from holdfast.dialects import dialect_named
from holdfast.items import chain_seed
from holdfast.runtime import Config, Holdfast
from holdfast.runtime.backend import Backend
from holdfast.runtime.recording import create_thread
from holdfast.store import NewRecord, RecordKind, Span
from holdfast.thread import Checkpoint, KeepEntry, StateEntry, Tip, decode_body, encode_body

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


async def real_checkpoint(folder: Path, *, workload: Workload) -> Checkpoint:
    """Return what compacting a session of some length really leaves; the long threads' checkpoints are made after it."""
    async with Holdfast(Config(store=str(folder / "model.db"))) as hf:
        # Named and begun like the long threads, so that what its state points at is there in every one of them.
        thread = await hf.thread(THREAD, dialect=DIALECT)
        for _, items in zip(range(MODEL_TURNS), workload.turns(), strict=False):
            await thread.record(items)
        report = await thread.compact()
        assert report.checkpoint is not None
        span = Span(thread_id=THREAD, start=report.checkpoint, stop=report.checkpoint + 1)
        return decode_body((await hf.backend.store.read(span))[0].body, Checkpoint)


async def grow(path: Path, *, records: int, workload: Workload, model: Checkpoint) -> Grown:
    """Make a store with a thread of about that many records, checkpoints on the way included.

    Filled in batches of thousands a commit, because one by one a million would take an hour: what is measured comes after.
    A thread too short for the common ending is one turn, never compacted.
    """
    return await grow_in(Config(store=str(path)), records=records, workload=workload, model=model)


async def grow_in(config: Config, *, records: int, workload: Workload, model: Checkpoint) -> Grown:
    """`grow`, wherever the configuration has its store."""
    async with Holdfast(config) as hf:
        await create_thread(hf.backend, dialect_named(DIALECT), thread_id=THREAD)
        maker = _Maker(hf.backend, workload=workload, model=model)
        ending = maker.ending_size()
        if records > ending:
            maker.fill(records - ending)
            for batch in maker.batches():
                await maker.store(batch)
            await maker.store(maker.ending())
        else:
            await maker.store(maker.turn(next(workload.turns())))
    return Grown(path=Path(config.store), records=maker.tip.next, turns=maker.tip.turn, chain=tuple(maker.chain))


class _Maker:
    """Lays turns and checkpoints down, one after another."""

    def __init__(self, backend: Backend, *, workload: Workload, model: Checkpoint) -> None:
        self._backend = backend
        self._workload = workload
        self._state = [entry for entry in model.layout if isinstance(entry, StateEntry)]
        self._model = model
        self._dialect = dialect_named(DIALECT)
        key = backend.store.tenant.key
        self.tip = Tip(next=1, turn=0, depth=0, chain=chain_seed(key, dialect=DIALECT))
        self.chain: deque[bytes] = deque(maxlen=CHAIN_KEPT)
        self._newest: deque[tuple[int, int]] = deque(maxlen=KEPT_ITEMS)
        self._base: int | None = None
        self._stored = 1
        self._wanted = 0

    def ending_size(self) -> int:
        """Return how many records the common ending has, each turn's own mark and the checkpoint among them."""
        return 1 + sum(len(items) + 1 for items in self._workload.ending(ENDING_TURNS + AFTER_TURNS))

    def fill(self, records: int) -> None:
        self._wanted = records

    def batches(self) -> Iterator[list[NewRecord]]:
        batch: list[NewRecord] = []
        due = CHECKPOINT_EVERY
        for items in self._workload.turns():
            if self.tip.next + len(items) + 1 > self._wanted:
                break
            batch += self.turn(items)
            if self.tip.next >= due:
                batch.append(self.checkpoint())
                due = self.tip.next + CHECKPOINT_EVERY
            if len(batch) >= BATCH_RECORDS:
                yield batch
                batch = []
        if batch:
            yield batch

    def ending(self) -> list[NewRecord]:
        turns = self._workload.ending(ENDING_TURNS + AFTER_TURNS)
        records = [record for items in turns[:ENDING_TURNS] for record in self.turn(items)]
        records.append(self.checkpoint())
        return records + [record for items in turns[ENDING_TURNS:] for record in self.turn(items)]

    def turn(self, items: list[dict[str, object]]) -> list[NewRecord]:
        first = self.tip.next
        key, now = self._backend.store.tenant.key, self._backend.clock.now_ms()
        records, self.tip = records_of(items, dialect=self._dialect, tip=self.tip, key=key, at_ms=now)
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
