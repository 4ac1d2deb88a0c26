"""How many statements each operation of the library sends to its database, and how many bytes a thread comes to.

Run as a process of its own, which prints one JSON object: it watches every connection there is.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from itertools import islice
from pathlib import Path
from typing import Any, Self

from holdfast.bench.workload import DIALECT, Workload
from holdfast.runtime import Config, Holdfast, Thread
from holdfast.store import RecordKind

TURNS = 24
AT_MS = 1_767_225_600_000


class StillClock:
    """Always the same moment, so that nothing that is written depends on when."""

    def now_ms(self) -> int:
        return AT_MS


class Watched:
    """Counts statements of every connection that is opened inside the block. Pragmas are looked at by time, and not counted."""

    def __init__(self) -> None:
        self._count = 0
        self._connect = sqlite3.connect

    def __enter__(self) -> Self:
        sqlite3.connect = self._watched  # type: ignore[assignment]  # the store opens its connections by this name
        return self

    def __exit__(self, *_: object) -> None:
        sqlite3.connect = self._connect

    def _watched(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = self._connect(*arguments, **options)
        connection.set_trace_callback(self._ran)
        return connection

    async def during(self, work: Callable[[], Awaitable[object]]) -> int:
        """Return how many statements `work` sends."""
        self._count = 0
        await work()
        return self._count

    def _ran(self, statement: str) -> None:
        told = statement.strip()
        # What the search index does inside a statement is traced as one line of comment; it is SQLite's, and its version's, own.
        if not told.upper().startswith("PRAGMA") and not (told.startswith("--") and "\n" not in told):
            self._count += 1


async def counted(folder: Path) -> dict[str, dict[str, int]]:
    """Return the statements of each operation and the bytes of what was written, on a new store in `folder`."""
    turns = list(islice(Workload(seed=5).turns(), TURNS))
    found: dict[str, int] = {}
    with Watched() as watched:
        async with Holdfast(Config(store=str(folder / "guard.db")), clock=StillClock()) as hf:
            thread = await hf.thread("guard", dialect=DIALECT)
            found["first turn"] = await watched.during(lambda: thread.record(turns[0]))
            for items in turns[1:-2]:
                await thread.record(items)
            found["one turn"] = await watched.during(lambda: thread.record(turns[-2]))
            found["one item"] = await watched.during(lambda: thread.record(turns[-1][:1]))
            found["window, never compacted"] = await watched.during(thread.window)
            found["compaction, extractive"] = await watched.during(lambda: thread.compact(target="30%"))
            found["window, compacted"] = await watched.during(thread.window)
            found["state"] = await watched.during(thread.state)
            found["fork"] = await watched.during(thread.fork)
            found["recall by words"] = await watched.during(lambda: thread.recall("which command failed"))
            found["undo"] = await watched.during(thread.undo)
            found["rollback"] = await watched.during(lambda: thread.rollback(turns=1))
            bytes_of = await _written(thread)
    return {"statements": found, "bytes": bytes_of}


async def _written(thread: Thread) -> dict[str, int]:
    records = await thread.records()
    kinds = (RecordKind.ITEM, RecordKind.CHECKPOINT)
    return {kind.value: sum(len(record.body) for record in records if record.kind is kind) for kind in kinds}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="holdfast-guard-") as made:
        sys.stdout.write(json.dumps(asyncio.run(counted(Path(made)))))
