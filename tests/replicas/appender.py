"""A process that appends to a PostgreSQL store until it is done or killed, and says what was acknowledged.

appender.py URL fill NAME [COUNT]   lanes NAME-0 to NAME-3 at once, batches of one to three, for ever or COUNT appends each
appender.py URL race NAME COUNT     COUNT records to the one thread `shared`, against whoever else does the same
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.errors import OrdinalConflict, ThreadNotFound
from holdfast.store import NewRecord, NewThread, RecordKind
from holdfast.store.postgres import PostgresDatabase, PostgresStore

LANES = 4


def record(text: str) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=f"{text};".encode() * 40)


async def fill(store: PostgresStore, lane: str, count: int) -> None:
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


async def race(store: PostgresStore, name: str, count: int) -> None:
    done = 0
    ordinal = (await store.get("shared")).next
    while done < count:
        try:
            ordinal = await store.append("shared", [record(f"{name}-{done}")], expected=ordinal)
            done += 1
        except OrdinalConflict as conflict:
            ordinal = conflict.actual


async def main() -> None:
    database = await PostgresDatabase.open(sys.argv[1], searchable=lambda _, body: body.decode())
    store = await database.tenant()
    name, count = sys.argv[3], int(sys.argv[4]) if len(sys.argv) > 4 else 10**9
    if sys.argv[2] == "fill":
        await asyncio.gather(*(fill(store, f"{name}-{lane}", count) for lane in range(LANES)))
    else:
        await race(store, name, count)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main())
