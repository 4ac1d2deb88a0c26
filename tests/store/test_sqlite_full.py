"""A full disk: the append says so and leaves nothing, what was acknowledged stays, and the store goes on once there is room.

Of one backend alone: the disk of a server is its own.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadkeep.errors import StoreFull
from threadkeep.store import NewRecord, NewThread, RecordKind, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore

pytestmark = pytest.mark.anyio


def item(body: bytes) -> NewRecord:
    return NewRecord(kind=RecordKind.ITEM, at_ms=0, turn=0, tokens=0, body=body)


async def open_store(path: Path) -> SqliteStore:
    store = await (await SqliteDatabase.open(path, searchable=lambda _, body: body.hex())).open_tenant()
    if not await store.threads():
        await store.create(NewThread(id="t", dialect="chat", created_at_ms=0), [])
    return store


async def bodies(store: SqliteStore) -> list[bytes]:
    return [record.body for record in await store.read(Span(thread_id="t", start=0, stop=10**9))]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of two megabytes."""
    mount, unmount = shutil.which("mount"), shutil.which("umount")
    if sys.platform != "linux" or os.geteuid() != 0 or mount is None or unmount is None:
        pytest.skip("only root on Linux can mount a small file system")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run([mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", place], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield place
    subprocess.run([unmount, place], check=True)


async def test_a_full_disk_costs_the_append_and_nothing_else(small_disk: Path) -> None:
    """When the disk is full the append fails; everything acknowledged before is there, also after reopening."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 600_000)
    noise = random.Random(3)
    acknowledged: list[bytes] = []
    store = await open_store(small_disk / "s.db")

    async def fill() -> None:
        while True:
            batch = [noise.randbytes(5_000), noise.randbytes(300)]
            await store.append("t", [item(body) for body in batch], expected=len(acknowledged))
            acknowledged.extend(batch)

    with pytest.raises(StoreFull, match="free some space"):
        await fill()
    assert (len(acknowledged) > 20, await bodies(store)) == (True, acknowledged)
    ballast.unlink()
    with pytest.raises(StoreFull):
        await fill()
    assert await bodies(store) == acknowledged
    await store.close()
    again = await open_store(small_disk / "s.db")
    assert await bodies(again) == acknowledged
    await again.close()


async def test_a_file_that_may_not_grow_costs_the_append_and_nothing_else(tmp_path: Path) -> None:
    """The same where no small disk can be had: SQLite's own limit fills up, and is lifted again."""
    store = await open_store(tmp_path / "s.db")
    await store.append("t", [item(b"acknowledged")], expected=0)
    await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
    with pytest.raises(StoreFull, match="free some space"):
        await store.append("t", [item(b"small"), item(random.Random(1).randbytes(1_000_000))], expected=1)
    assert await bodies(store) == [b"acknowledged"]
    await store._writer.run(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchall())
    assert await store.append("t", [item(b"x" * 1_000_000)], expected=1) == 2
    assert await bodies(store) == [b"acknowledged", b"x" * 1_000_000]
    await store.close()
