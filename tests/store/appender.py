"""A process that shares a store with others. It waits for a line of input before it begins.

appender.py STORE open              opens the store and prints the tenant's key
appender.py STORE race NAME COUNT   appends COUNT records to the thread `shared`, against whoever else does the same
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

from threadkeep.errors import OrdinalConflict
from threadkeep.store import NewRecord, RecordKind, ThreadStore
from threadkeep.store.locations import open_database


def record(text: str) -> NewRecord:
    """Return the record that the process makes of a text."""
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=f"{text};".encode() * 40)


def run_together(store: str, *words: tuple[str, ...]) -> list[str]:
    """Run one such process for each of `words`, all beginning at once, and return what each said."""
    pipe = subprocess.PIPE
    started = [subprocess.Popen([sys.executable, __file__, store, *each], stdin=pipe, stdout=pipe, text=True) for each in words]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate()[0].strip() for process in started]
    assert [process.returncode for process in started] == [0] * len(started)
    return said


async def race(store: ThreadStore, name: str, count: int) -> None:
    done = 0
    ordinal = (await store.get("shared")).next
    while done < count:
        try:
            ordinal = await store.append("shared", [record(f"{name}-{done}")], expected=ordinal)
            done += 1
        except OrdinalConflict as conflict:
            ordinal = conflict.actual


async def main(location: str, what: str, *words: str) -> None:
    sys.stdin.readline()
    store = await (await open_database(location)).open_tenant()
    if what == "race":
        await race(store, words[0], int(words[1]))
    else:
        sys.stdout.write(store.tenant.key.hex())
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
