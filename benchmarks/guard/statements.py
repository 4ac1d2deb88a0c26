"""How many statements each operation of the library sends to its database, and what the file then holds: rows, bodies, bytes.

Run as a process of its own, which prints one JSON object: it watches every connection there is.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import tempfile
from collections.abc import Awaitable, Callable
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, Self

from benchmarks.store.workload import DIALECT, Workload
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.store import RecordKind
from threadkeep.store.sqlite.operations import Form, unpack_body

STORE = "guard.db"
TURNS = 24
AT_MS = 1_767_225_600_000
# Without the tables that the search index keeps for itself, whose rows depend on SQLite's version.
TABLES = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"


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
    """Return the statements of each operation, the bytes of what was written and what the file holds of it, on a new store in
    `folder`."""
    turns = list(islice(Workload(seed=5).turns(), TURNS))
    found: dict[str, int] = {}
    with Watched() as watched:
        async with Threadkeep(Config(store=str(folder / STORE)), clock=StillClock()) as tk:
            thread = await tk.thread("guard", dialect=DIALECT)
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
            # What another thread says again is in the file already.
            await (await tk.thread("again", dialect=DIALECT)).record(turns[0])
    return {"statements": found, "bytes": bytes_of, **stored(folder / STORE)}


async def _written(thread: Thread) -> dict[str, int]:
    records = await thread.records()
    kinds = (RecordKind.ITEM, RecordKind.CHECKPOINT)
    return {kind.value: sum(len(record.body) for record in records if record.kind is kind) for kind in kinds}


def stored(file: Path) -> dict[str, dict[str, int]]:
    """Return the rows of each table of a store, and its bodies: how many, and the bytes they take.

    What deflating leaves differs between builds of zlib. So a deflated body counts with the bytes it had before, and by whether
    it takes more than it should: no build leaves two thirds of this text.
    """
    with closing(sqlite3.connect(file)) as connection:
        tables = [name for (name,) in connection.execute(TABLES)]
        rows = {name: int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]) for name in tables}
        bodies = connection.execute("SELECT digest, form, data FROM body").fetchall()
    packed = [(len(unpack_body(form, data)), len(data)) for _, form, data in bodies if form == Form.DEFLATED]
    return {
        "rows": rows,
        "bodies": {
            "distinct": len({digest for digest, _, _ in bodies}),
            "stored as they are, bytes": sum(len(data) for _, form, data in bodies if form == Form.PLAIN),
            "deflated": len(packed),
            "deflated, bytes before": sum(before for before, _ in packed),
            "deflated to more than two thirds": sum(after * 3 > before * 2 for before, after in packed),
        },
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="threadkeep-guard-") as made:
        sys.stdout.write(json.dumps(asyncio.run(counted(Path(made)))))
