"""Nothing acknowledged is lost to a kill, and processes that share a file do not lose to each other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.store.appender import LANES, record, start

from threadkeep.errors import OrdinalConflict, ThreadNotFound
from threadkeep.items import digest_body
from threadkeep.store import NewThread, Span
from threadkeep.store.sqlite import SqliteDatabase, SqliteStore

LANE_NAMES = [f"lane-{number}" for number in range(LANES)]
KILLS = 100


async def open_store(path: Path) -> SqliteStore:
    return await (await SqliteDatabase.open(path, searchable=lambda _, body: body.decode())).open_tenant()


def killed_after(acknowledgements: int, path: Path) -> dict[str, int]:
    """Kill an appender once it has acknowledged that often; return how far each lane was acknowledged by then."""
    reached = dict.fromkeys(LANE_NAMES, 0)
    with start(path, "fill", "lane") as appender:
        assert appender.stdout is not None
        for count, line in enumerate(appender.stdout, start=1):
            lane, ordinal = line.split()
            reached[lane] = int(ordinal)
            if count == acknowledgements:
                appender.kill()
        assert appender.wait() != 0
    return reached


async def check_lane(store: SqliteStore, lane: str, *, acknowledged: int) -> None:
    try:
        end = (await store.get(lane)).next
    except ThreadNotFound:
        assert acknowledged == 0
        return
    assert end >= acknowledged
    found = [(each.ordinal, each.body, each.digest) for each in await store.read(Span(thread_id=lane, start=0, stop=10**9))]
    bodies = [record(f"{lane}-{ordinal}").body for ordinal in range(end)]
    assert found == [(ordinal, body, digest_body(body)) for ordinal, body in enumerate(bodies)]
    assert await store.append(lane, [record(f"{lane}-{end}")], expected=end) == end + 1


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_hundred_kills_lose_nothing_acknowledged(tmp_path: Path) -> None:
    """After a hundred kills during appends, every acknowledged record is there without a gap, and the next one fits."""
    path = tmp_path / "s.db"
    chance = random.Random(20)
    for _ in range(KILLS):
        acknowledged = killed_after(chance.randint(1, 40), path)
        store = await open_store(path)
        for lane in LANE_NAMES:
            await check_lane(store, lane, acknowledged=acknowledged[lane])
        await store.close()


@pytest.mark.anyio
async def test_processes_share_a_thread(tmp_path: Path) -> None:
    """Two processes race for the same ordinals: every record of both is there, each one's in its own order."""
    path = tmp_path / "s.db"
    store = await open_store(path)
    await store.create(NewThread(id="shared", dialect="chat", created_at_ms=0), [])
    racers = [start(path, "race", name, "150") for name in ("left", "right")]
    assert [racer.wait() for racer in racers] == [0, 0]
    found = await store.read(Span(thread_id="shared", start=0, stop=10**9))
    await store.close()
    for racer in racers:
        assert racer.stdout is not None
        racer.stdout.close()
    assert [each.ordinal for each in found] == list(range(300))
    for name in ("left", "right"):
        own = [each.body for each in found if each.body.startswith(name.encode())]
        assert own == [record(f"{name}-{number}").body for number in range(150)]


@pytest.mark.anyio
async def test_an_append_elsewhere_is_a_clear_conflict(tmp_path: Path) -> None:
    """Whoever read the thread before another process appended is told where it stands now."""
    path = tmp_path / "s.db"
    store = await open_store(path)
    await store.create(NewThread(id="shared", dialect="chat", created_at_ms=0), [])
    before = (await store.get("shared")).next
    with start(path, "race", "other", "3") as other:
        assert other.wait() == 0
    with pytest.raises(OrdinalConflict) as conflict:
        await store.append("shared", [record("stale")], expected=before)
    assert (conflict.value.thread_id, conflict.value.expected, conflict.value.actual) == ("shared", 0, 3)
    assert await store.append("shared", [record("fresh")], expected=conflict.value.actual) == 4
    await store.close()
