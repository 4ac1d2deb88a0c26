"""Measures the disk size of a thread after many compactions, compared with the JSON of its items."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from benchmarks.result import Found
from benchmarks.samples import summarise
from benchmarks.store.workload import DIALECT, Workload
from threadkeep.client import Config, Threadkeep
from threadkeep.errors import NothingToCompact
from threadkeep.store import RecordKind, Span

MOST_WITHOUT_INDEX = 1.3
MOST_WITH_INDEX = 2.0
TURNS_BETWEEN = 5


async def measure_size(folder: Path, found: Found, *, workload: Workload, checkpoints: int) -> None:
    """Record a thread, compact it for real every few turns, index it to the end, and weigh the closed file with and without that.

    Compactions search what left the window, so the index is there before anybody asks for it.
    """
    path = folder / "compacted.db"
    plain = await _lived_through(path, workload=workload, checkpoints=checkpoints)
    async with Threadkeep(Config(store=str(path))) as tk:
        thread = await tk.thread("sized", dialect=DIALECT)
        row = await tk.backend.store.get(thread.id)
        span = Span(thread_id=thread.id, start=row.start, stop=row.next)
        # Any search brings the index up to date.
        await tk.backend.store.search([span], "deploy", limit=1)
        made = len(await tk.backend.store.read(span, kinds={RecordKind.CHECKPOINT}, bodies=False))
    indexed = _weight(path) / plain
    without = indexed - _index_weight(path, folder) / plain
    for measure, ratio, most in (
        ("file without search", without, MOST_WITHOUT_INDEX),
        ("file with search", indexed, MOST_WITH_INDEX),
    ):
        weighed = summarise([ratio])
        found.add(measure, "threadkeep", "× JSON", weighed)
        found.hold_below(f"{measure}, over {made} checkpoints", at_most=most, value=weighed, unit="×")


async def _lived_through(path: Path, *, workload: Workload, checkpoints: int) -> int:
    """Return how many bytes of JSON the thread was given."""
    plain = 0
    made = 0
    async with Threadkeep(Config(store=str(path))) as tk:
        thread = await tk.thread("sized", dialect=DIALECT)
        for number, items in enumerate(workload.turns(), start=1):
            await thread.record(items)
            plain += sum(len(thread.dialect.parse(item).raw) for item in items)
            if number % TURNS_BETWEEN:
                continue
            try:
                await thread.compact()
            except NothingToCompact:
                continue
            made += 1
            if made == checkpoints:
                return plain
    raise AssertionError("turns have no end")


def _index_weight(path: Path, folder: Path) -> int:
    """Return the bytes that the search index takes: what a copy loses with it, neither holding free pages."""
    whole, bare = folder / "whole.db", folder / "bare.db"
    with closing(sqlite3.connect(path)) as store:
        store.execute("VACUUM INTO ?", (str(whole),))
    with closing(sqlite3.connect(whole)) as copy:
        copy.execute("DROP TABLE search")
        copy.commit()
        copy.execute("VACUUM INTO ?", (str(bare),))
        # Dropped pages stay in the copy as free ones: it weighs what it weighed.
    return whole.stat().st_size - bare.stat().st_size


def _weight(path: Path) -> int:
    """Return the bytes of a closed store: its file, and a log if one was left behind."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
