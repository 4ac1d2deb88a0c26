"""A process that appends to a store until it is done or killed, and says what was acknowledged.

    appender.py STORE fill NAME [COUNT]   lanes NAME-0 to NAME-3 at once, batches of one to three, for ever or COUNT appends each
    appender.py STORE race NAME COUNT     COUNT records to the one thread `shared`, against whoever else does the same

STORE is a file's path or a PostgreSQL server's address. Imports no more than it needs: the crash test starts it a hundred times.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.store import NewRecord, NewThread, RecordKind, ThreadStore

LANES = 4


def record(text: str) -> NewRecord:
    """Return the record that the process makes of a text."""
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=f"{text};".encode() * 40)


def start(store: object, *arguments: str) -> subprocess.Popen[str]:
    """Start such a process; what it acknowledges comes out of its `stdout`."""
    return subprocess.Popen([sys.executable, __file__, str(store), *arguments], stdout=subprocess.PIPE, text=True)


async def open_store(location: str) -> ThreadStore:
    """Return the store of the tenant `local` there."""

    def searchable(_: str, body: bytes) -> str:
        return body.decode()

    if location.startswith("postgresql://"):
        from threadkeep.store.postgres import PostgresDatabase

        return await (await PostgresDatabase.open(location, searchable=searchable)).open_tenant()
    from threadkeep.store.sqlite import SqliteDatabase

    return await (await SqliteDatabase.open(location, searchable=searchable)).open_tenant()


async def fill(store: ThreadStore, lane: str, count: int) -> None:
    try:
        ordinal = (await store.get(lane)).next
    except ThreadNotFound:
        await store.create(NewThread(id=lane, dialect="chat", created_at_ms=0), [])
        ordinal = 0
    for _ in range(count):
        batch = [record(f"{lane}-{ordinal + offset}") for offset in range(1 + ordinal % 3)]
        ordinal = await store.append(lane, batch, expected=ordinal)
        # One small write to a pipe is never torn; buffered output would die with the process.
        os.write(1, f"{lane} {ordinal}\n".encode())


async def race(store: ThreadStore, name: str, count: int) -> None:
    done = 0
    ordinal = (await store.get("shared")).next
    while done < count:
        try:
            ordinal = await store.append("shared", [record(f"{name}-{done}")], expected=ordinal)
            done += 1
        except OrdinalConflict as conflict:
            ordinal = conflict.actual


async def main() -> None:
    store = await open_store(sys.argv[1])
    name, count = sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10**9
    if sys.argv[2] == "fill":
        await asyncio.gather(*(fill(store, f"{name}-{lane}", count) for lane in range(LANES)))
    else:
        await race(store, name, count)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main())
