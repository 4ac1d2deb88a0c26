"""A process that appends until it is done or killed, and says what was acknowledged.

    appender.py FILE fill               several threads at once, batches of one to three, for ever
    appender.py FILE race NAME COUNT    COUNT records to the one thread `shared`, against whoever else does the same

Imports no more than it needs: the crash test starts it a hundred times.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.errors import OrdinalConflict, ThreadNotFound
from holdfast.store import NewRecord, NewThread, RecordKind
from holdfast.store.sqlite import SqliteDatabase, SqliteStore

LANES = ("a", "b", "c", "d")


def record(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=f"{text};".encode() * 40)


async def fill(store: SqliteStore, lane: str) -> None:
    try:
        ordinal = (await store.get(lane)).next
    except ThreadNotFound:
        await store.create(NewThread(id=lane, dialect="chat", created_at_ms=0), [])
        ordinal = 0
    while True:
        batch = [record(f"{lane}-{ordinal + offset}") for offset in range(1 + ordinal % 3)]
        ordinal = await store.append(lane, batch, expected=ordinal)
        # One small write to a pipe is never torn; buffered output would die with the process.
        os.write(1, f"{lane} {ordinal}\n".encode())


async def race(store: SqliteStore, name: str, count: int) -> None:
    done = 0
    ordinal = (await store.get("shared")).next
    while done < count:
        try:
            ordinal = await store.append("shared", [record(f"{name}-{done}")], expected=ordinal)
            done += 1
        except OrdinalConflict as conflict:
            ordinal = conflict.actual


async def main() -> None:
    database = await SqliteDatabase.open(sys.argv[1], searchable=lambda _, body: body.decode())
    store = await database.tenant()
    if sys.argv[2] == "fill":
        await asyncio.gather(*(fill(store, lane) for lane in LANES))
    else:
        await race(store, sys.argv[3], int(sys.argv[4]))
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
