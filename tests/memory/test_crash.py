"""Workers that die anywhere: whoever comes next comes to the memory an undisturbed one makes, in every store."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import ManualClock
from tests.memory.conftest import HOUR_MS, ran, say, texts, user
from tests.memory.crash_process import READS, WRITES, Dying, PowerCut

from threadkeep import Config, Threadkeep
from threadkeep.memory.memory import Memories
from threadkeep.memory.memory_thread import MEMORY_THREAD
from threadkeep.memory.pipeline import MemoryPass
from threadkeep.memory.records import Extraction, decode_record
from threadkeep.store import Span
from threadkeep.threads.lease import LEASE_MS

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).resolve().parents[2]
RULES = ("Never push to the main branch.", "All times are in UTC, always.", "Only Ana may release.")
FETCHED = [{**each, "name": "WebFetch"} if "name" in each else each for each in ran("w1", "whatever")]


@pytest.fixture(params=["memory:", "sqlite", "postgres"])
async def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = await request.getfixturevalue("postgres_server").new_store()
        return url
    return str(tmp_path / "s.db") if request.param == "sqlite" else "memory:"


@pytest.fixture
async def tk(location: str, clock: ManualClock) -> AsyncIterator[Threadkeep]:
    async with Threadkeep(Config(store=location), clock=clock) as opened:
        yield opened


async def stored(tk: Threadkeep) -> bytes:
    records = await tk.backend.store.read(Span(thread_id=MEMORY_THREAD, start=0, stop=10**6))
    return b"\n".join(record.body for record in records)


async def prepared(tk: Threadkeep, clock: ManualClock) -> None:
    """Leave work of every kind: two threads to be read, one of them again, and one that was remembered and is polluted since."""
    await say(tk, "one", RULES[0])
    await say(tk, "web", RULES[2])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    await say(tk, "one", RULES[1])
    await say(tk, "two", RULES[0])
    await (await tk.thread("web")).record(FETCHED)
    clock.ms += 7 * HOUR_MS


async def check_undisturbed(tk: Threadkeep) -> None:
    """The memory is what one undisturbed pass makes of it, once, and nothing else can be read anywhere in it."""
    state = await tk.memory.state()
    assert texts(state.memories) == sorted(RULES[:2])
    assert {memory.text: sorted(memory.said) for memory in state.memories} == {RULES[0]: ["one", "two"], RULES[1]: ["one"]}
    assert (state.pending, state.snapshot.polluted) == ({}, ["web"])
    assert RULES[2].encode() not in await stored(tk)


@pytest.mark.slow
async def test_a_crash_at_every_call_is_made_good(location: str, tk: Threadkeep, clock: ManualClock) -> None:
    """Right before every call of the store, reading or writing, and after every write: the next worker finishes the work.

    In a database, what is left by dying before a call is what the write before it left.
    """
    counted = (*READS, *WRITES) if location == "memory:" else WRITES
    whole = await tk.for_tenant("undisturbed")
    await prepared(whole, clock)
    counting = Dying(whole.backend.store, at=0, after=False, counted=counted)
    await Memories(replace(whole.backend, store=counting)).run()
    await check_undisturbed(whole)
    assert {"append", "erase", "acquire", "release"} <= set(counting.calls)
    deaths = [(at, False) for at in range(1, len(counting.calls) + 1)] if location == "memory:" else [(1, False)]
    deaths += [(at, True) for at, call in enumerate(counting.calls, start=1) if call in WRITES]
    for at, after in deaths:
        tenant = await tk.for_tenant(f"dies-{at}-{after}")
        await prepared(tenant, clock)
        doomed = Dying(tenant.backend.store, at=at, after=after, counted=counted)
        with pytest.raises(PowerCut):
            await Memories(replace(tenant.backend, store=doomed)).run()
        clock.ms += LEASE_MS
        await tenant.memory.run()
        await check_undisturbed(tenant)
        assert await tenant.memory.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=2)


async def killed(location: str, clock: ManualClock, *, at: int, when: str) -> int:
    """Run a worker in a process that kills itself at its nth write; return what its exit says."""
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.memory.worker", location, str(clock.ms), str(at), when, cwd=ROOT
    )
    async with asyncio.timeout(60):
        return await worker.wait()


@pytest.mark.slow
@pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)
async def test_a_killed_process_leaves_nothing_half_done(location: str, tk: Threadkeep, clock: ManualClock) -> None:
    """Killed at its writes, one process after the other goes on where the last one was; what it held is free in time."""
    await prepared(tk, clock)
    died = 0
    for at in range(1, 9):
        code = await killed(location, clock, at=at, when="after" if at % 2 else "before")
        clock.ms += LEASE_MS
        if code == 0:
            break
        assert code == -signal.SIGKILL
        died += 1
    await tk.memory.run()
    assert died > 3
    await check_undisturbed(tk)
    assert (await tk.verify()).problems == ()


@pytest.mark.parametrize("location", ["sqlite", "postgres"], indirect=True)
async def test_a_dead_holder_is_waited_for_and_then_replaced(location: str, tk: Threadkeep, clock: ManualClock) -> None:
    """Another worker leaves a thread to whoever holds it, does the rest, and takes it over once the lease has run out."""
    await say(tk, "one", RULES[0])
    await say(tk, "two", RULES[1])
    clock.ms += 7 * HOUR_MS
    assert await killed(location, clock, at=1, when="after") == -signal.SIGKILL
    assert await tk.memory.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=1)
    clock.ms += LEASE_MS - 1
    assert await tk.memory.run() == MemoryPass(extracted=0, empty=0, failed=0, memories=1)
    clock.ms += 1
    assert await tk.memory.run() == MemoryPass(extracted=1, empty=0, failed=0, memories=2)


async def test_two_workers_read_a_thread_once(tk: Threadkeep, clock: ManualClock) -> None:
    """Side by side on one store, every thread is extracted by one of them, and the memory is one memory."""
    wanted = [f"Rule {number} is that you must never touch table {number}." for number in range(5)]
    for number, rule in enumerate(wanted):
        await say(tk, f"thread-{number}", rule)
        await say(tk, f"echo-{number}", rule)
    clock.ms += 7 * HOUR_MS
    done = await asyncio.gather(*(Memories(tk.backend).run() for _ in range(2)))
    await tk.memory.run()
    assert sum(each.extracted for each in done) == 10
    records = await tk.backend.store.read(Span(thread_id=MEMORY_THREAD, start=0, stop=10**6))
    read = [said.thread for record in records if isinstance(said := decode_record(record.body), Extraction)]
    assert sorted(read) == sorted([*(f"thread-{n}" for n in range(5)), *(f"echo-{n}" for n in range(5))])
    state = await tk.memory.state()
    assert {memory.text: len(memory.said) for memory in state.memories} == dict.fromkeys(wanted, 2)


async def test_a_thread_read_twice_gives_one_memory(tk: Threadkeep, clock: ManualClock) -> None:
    """Read again for what was added, it says what it said before once, with one source; so it does if nobody knew it was read."""
    await say(tk, "one", RULES[0])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    (before,) = (await tk.memory.state()).memories
    await (await tk.thread("one")).record([user(RULES[0].upper())])
    clock.ms += 7 * HOUR_MS
    await tk.memory.run()
    await tk.memory.read_again(["one"])
    await tk.memory.run()
    (after,) = (await tk.memory.state()).memories
    assert (after.id, len(after.sources), sorted(after.said)) == (before.id, 1, ["one"])
