"""`holdfast bench store --store postgresql://…`: the same threads in a SQLite file and on a server, sampled in turns.

On the server each length has a tenant of its own, named after the run, so that nothing of anybody's is touched. Records are never
deleted, there too: what a run leaves behind stays until the database it was pointed at is dropped.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path

from holdfast.bench.growth import THREAD, Grown, grow_in, real_checkpoint
from holdfast.bench.result import Competitor, Found, Result, machine
from holdfast.bench.store import Plan
from holdfast.bench.timing import fsync_ms, interleaved, paired, summary, timed_ms
from holdfast.bench.workload import DIALECT, Workload
from holdfast.runtime import Config, Holdfast, Thread
from holdfast.runtime.recording import deepest_known
from holdfast.store import NewThread

FILE, SERVER = "SQLite", "PostgreSQL"
FLAT = 2.0
CREATED_AT_ONCE = 256
# How many threads stand beside the long ones, for each record of the longest: a hundred thousand beside a million.
THREADS_A_RECORD = 0.1

Sampler = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One long thread somewhere, resumed."""

    grown: Grown
    hf: Holdfast
    thread: Thread


async def run_server(plan: Plan, *, url: str, seed: int, say: Callable[[str], None]) -> Result:
    """Measure append, 64 writers, window, fork and lookup at every length of the plan, in a file and on the server."""
    began, found, workload = time.monotonic(), Found(), Workload(seed=seed)
    run = secrets.token_hex(4)
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as made:
        folder = Path(made)
        before = fsync_ms(folder, times=plan.probes)
        model = await real_checkpoint(folder, workload=workload)
        async with AsyncExitStack() as stack:
            places: dict[str, dict[int, _Place]] = {FILE: {}, SERVER: {}}
            for size in plan.sizes:
                say(f"building threads of {size:,} records")
                configs = {
                    FILE: Config(store=str(folder / f"{size}.db")),
                    SERVER: Config(store=url, tenant=f"bench-{run}-{size}"),
                }
                for name, config in configs.items():
                    grown = await grow_in(config, records=size, workload=workload, model=model)
                    hf = await stack.enter_async_context(Holdfast(config))
                    places[name][size] = _Place(grown=grown, hf=hf, thread=await hf.thread(THREAD, dialect=DIALECT))
            crowd = max(1, int(max(plan.sizes) * THREADS_A_RECORD))
            say(f"adding {crowd:,} threads on the server")
            await _surround(places[SERVER][max(plan.sizes)].hf, crowd)
            for what, samplers in _measures(places, workload).items():
                say(what)
                await _put_down(found, what, samplers, rounds=plan.rounds)
            say(f"{plan.writers} writers at once")
            await _writers(found, {name: by_size[min(by_size)] for name, by_size in places.items()}, workload, plan)
        after = fsync_ms(folder, times=plan.probes)
    return Result(
        bench="store",
        plan=f"{plan.name}, {crowd:,} threads",
        seed=seed,
        seconds=round(time.monotonic() - began, 1),
        machine=machine(fsync_before=before, fsync_after=after),
        contenders=[
            Competitor(name=FILE, version="file", durability="WAL, synchronous FULL", note=""),
            Competitor(name=SERVER, version="server", durability="as the server is set, never less than its own disk", note=""),
        ],
        figures=found.figures,
        targets=found.targets,
    )


async def _surround(hf: Holdfast, crowd: int) -> None:
    store, now = hf.backend.store, hf.backend.clock.now_ms()
    for first in range(0, crowd, CREATED_AT_ONCE):
        numbers = range(first, min(crowd, first + CREATED_AT_ONCE))
        made = [NewThread(id=f"other-{number:07}", dialect=DIALECT, created_at_ms=now) for number in numbers]
        await asyncio.gather(*(store.create(thread, []) for thread in made))


def _measures(places: Mapping[str, Mapping[int, _Place]], workload: Workload) -> dict[str, dict[str, Sampler]]:
    """Return a sampler for each place and length, by what it measures."""
    items, numbers = next(workload.turns()), count()

    async def append(place: _Place) -> None:
        await place.thread.record([{**items[0], "id": f"msg_{next(numbers)}"}])

    async def fork(place: _Place) -> None:
        await place.thread.fork(before_turn=max(1, place.grown.turns // 2))

    async def window(place: _Place) -> None:
        await place.thread.window()

    async def lookup(place: _Place) -> None:
        await deepest_known(place.hf.backend.store, place.grown.chain)

    works = {"append": append, "window": window, "fork": fork, "lookup": lookup}
    return {
        what: {
            f"{name}/{size}": partial(timed_ms, partial(work, place))
            for name, by_size in places.items()
            for size, place in by_size.items()
        }
        for what, work in works.items()
    }


async def _put_down(found: Found, what: str, samplers: Mapping[str, Sampler], *, rounds: int) -> None:
    """Sample, and hold the server's longest thread against its shortest of those that end alike."""
    taken = await interleaved(samplers, rounds=rounds)
    for key, samples in taken.items():
        name, _, size = key.partition("/")
        found.add(what, name, "ms", summary(samples), size=int(size))
    lengths = sorted(int(key.partition("/")[2]) for key in taken if key.startswith(SERVER))
    # A thread of a few records was never compacted: its window is another, and so is what reading it costs.
    shortest = next((length for length in lengths if length >= 1_000), lengths[0])
    if shortest != lengths[-1]:
        ratio = paired(taken[f"{SERVER}/{lengths[-1]}"], taken[f"{SERVER}/{shortest}"])
        found.hold_below(f"{what}, {lengths[-1]:,} : {shortest:,}, {SERVER}", at_most=FLAT, value=ratio, unit="×")


async def _writers(found: Found, places: Mapping[str, _Place], workload: Workload, plan: Plan) -> None:
    turns = [[turn[0]] for turn, _ in zip(workload.turns(), range(plan.writers), strict=False)]
    for name, place in places.items():
        threads = [await place.hf.thread(f"writer-{number}", dialect=DIALECT) for number in range(plan.writers)]

        async def everyone(threads: list[Thread] = threads) -> None:
            await asyncio.gather(*(thread.record(items) for thread, items in zip(threads, turns, strict=True)))

        took = [await timed_ms(everyone) for _ in range(plan.rounds)]
        found.add(f"{plan.writers} writers", name, "rows/s", summary([plan.writers * 1_000 / each for each in took]))
