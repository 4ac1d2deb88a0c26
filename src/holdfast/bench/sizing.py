"""What a thread takes on disk after many compactions, beside the JSON of its items."""

from __future__ import annotations

from pathlib import Path

from holdfast.bench.result import Found
from holdfast.bench.timing import summary
from holdfast.bench.workload import DIALECT, Workload
from holdfast.errors import NothingToCompact
from holdfast.runtime import Config, Holdfast
from holdfast.store import RecordKind, Span

MOST_WITHOUT_INDEX = 1.3
MOST_WITH_INDEX = 2.0
TURNS_BETWEEN = 5


async def measure_size(folder: Path, found: Found, *, workload: Workload, checkpoints: int) -> None:
    """Record a thread, compact it for real every few turns, and weigh the closed file; then index it and weigh it again."""
    path = folder / "compacted.db"
    plain = await _lived_through(path, workload=workload, checkpoints=checkpoints)
    without = _weight(path) / plain
    async with Holdfast(Config(store=str(path))) as hf:
        thread = await hf.thread("sized", dialect=DIALECT)
        row = await hf.backend.store.get(thread.id)
        span = Span(thread_id=thread.id, start=row.start, stop=row.next)
        # Any search brings the index up to date.
        await hf.backend.store.search([span], "deploy", limit=1)
        made = len(await hf.backend.store.read(span, kinds={RecordKind.CHECKPOINT}, bodies=False))
    indexed = _weight(path) / plain
    for measure, ratio, most in (
        ("file without search", without, MOST_WITHOUT_INDEX),
        ("file with search", indexed, MOST_WITH_INDEX),
    ):
        weighed = summary([ratio])
        found.add(measure, "holdfast", "× JSON", weighed)
        found.hold_below(f"{measure}, over {made} checkpoints", at_most=most, value=weighed, unit="×")


async def _lived_through(path: Path, *, workload: Workload, checkpoints: int) -> int:
    """Return how many bytes of JSON the thread was given."""
    plain = 0
    made = 0
    async with Holdfast(Config(store=str(path))) as hf:
        thread = await hf.thread("sized", dialect=DIALECT)
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


def _weight(path: Path) -> int:
    """Return the bytes of a closed store: its file, and a log if one was left behind."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
