"""`python -m benchmarks store --store postgresql://…`: the same threads in a SQLite file and on a server, sampled in turns.

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

from benchmarks.result import Competitor, Found, Result, describe_machine
from benchmarks.samples import measure_fsync, measure_ms, sample_interleaved, summarise, summarise_ratios
from benchmarks.store.growth import THREAD, Grown, grow_alike, make_real_checkpoint
from benchmarks.store.run import Plan
from benchmarks.store.workload import DIALECT, Workload
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.store import NewRecord, NewThread, RecordKind
from threadkeep.threads import MetaBody, encode_body
from threadkeep.threads.writer import find_deepest

FILE, SERVER = "SQLite", "PostgreSQL"
FLAT = 2.0
CREATED_AT_ONCE = 256
PROGRESS_SECONDS = 20.0
# A single question is over so soon that a sample of one tells what else the machine did just then.
TIMES_A_SAMPLE = {"lookup": 20}
# How many threads stand beside the long ones, for each record of the longest: a hundred thousand beside a million.
THREADS_A_RECORD = 0.1

Sampler = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """One long thread somewhere, resumed."""

    grown: Grown
    tk: Threadkeep
    thread: Thread


async def run_server(plan: Plan, *, url: str, seed: int, say: Callable[[str], None]) -> Result:
    """Measure append, 64 writers, window, fork and lookup at every length of the plan, in a file and on the server."""
    began, found, workload = time.monotonic(), Found(), Workload(seed=seed)
    run = secrets.token_hex(4)
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as made:
        folder = Path(made)
        before = measure_fsync(folder, times=plan.probes)
        model = await make_real_checkpoint(folder, workload=workload)
        async with AsyncExitStack() as stack:
            places: dict[str, dict[int, _Place]] = {FILE: {}, SERVER: {}}
            for size in plan.sizes:
                say(f"building threads of {size:,} records")
                configs = {
                    FILE: Config(store=str(folder / f"{size}.db")),
                    SERVER: Config(store=url, tenant=f"bench-{run}-{size}"),
                }
                made_alike = await grow_alike(
                    list(configs.values()), records=size, workload=workload, model=model, say=_now_and_then(say)
                )
                for (name, config), grown in zip(configs.items(), made_alike, strict=True):
                    tk = await stack.enter_async_context(Threadkeep(config))
                    places[name][size] = _Place(grown=grown, tk=tk, thread=await tk.thread(THREAD, dialect=DIALECT))
            crowd = max(1, int(max(plan.sizes) * THREADS_A_RECORD))
            say(f"adding {crowd:,} threads on the server")
            await _surround(places[SERVER][max(plan.sizes)].tk, crowd, say=_now_and_then(say))
            for what, samplers in _measures(places, workload).items():
                say(what)
                await _put_down(found, what, samplers, rounds=plan.rounds)
            say(f"{plan.writers} writers at once")
            await _writers(found, {name: by_size[min(by_size)] for name, by_size in places.items()}, workload, plan)
        after = measure_fsync(folder, times=plan.probes)
    return Result(
        bench="store",
        plan=f"{plan.name}, {crowd:,} threads",
        seed=seed,
        seconds=round(time.monotonic() - began, 1),
        machine=describe_machine(fsync_before=before, fsync_after=after),
        contenders=[
            Competitor(name=FILE, version="file", durability="WAL, synchronous FULL", note=""),
            Competitor(name=SERVER, version="server", durability="as the server is set, never less than its own disk", note=""),
        ],
        figures=found.figures,
        targets=found.targets,
    )


def _now_and_then(say: Callable[[str], None]) -> Callable[[str], None]:
    """Return a reporter that passes on the newest text, only as often as a person wants to read."""
    told_at = time.monotonic()

    def maybe(text: str) -> None:
        nonlocal told_at
        if time.monotonic() - told_at >= PROGRESS_SECONDS:
            told_at = time.monotonic()
            say(text)

    return maybe


async def _surround(tk: Threadkeep, crowd: int, *, say: Callable[[str], None]) -> None:
    """Make that many threads, each with a first record, so that every partition has some."""
    store, now = tk.backend.store, tk.backend.clock.now_ms()
    meta = NewRecord(kind=RecordKind.META, at_ms=now, turn=0, tokens=0, body=encode_body(MetaBody(dialect=DIALECT)))
    for first in range(0, crowd, CREATED_AT_ONCE):
        numbers = range(first, min(crowd, first + CREATED_AT_ONCE))
        made = [NewThread(id=f"other-{number:07}", dialect=DIALECT, created_at_ms=now) for number in numbers]
        await asyncio.gather(*(store.create(thread, [meta]) for thread in made))
        say(f"{numbers[-1] + 1:,} of {crowd:,} threads")


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
        await find_deepest(place.tk.backend.store, place.grown.chain)

    works = {"append": append, "window": window, "fork": fork, "lookup": lookup}
    return {
        what: {
            f"{name}/{size}": partial(_mean_ms, partial(work, place), times=TIMES_A_SAMPLE.get(what, 1))
            for name, by_size in places.items()
            for size, place in by_size.items()
        }
        for what, work in works.items()
    }


async def _mean_ms(work: Callable[[], Awaitable[object]], *, times: int) -> float:
    async def all_of_it() -> None:
        for _ in range(times):
            await work()

    return await measure_ms(all_of_it) / times


async def _put_down(found: Found, what: str, samplers: Mapping[str, Sampler], *, rounds: int) -> None:
    """Sample, and hold the server's longest thread against its shortest of those that end alike."""
    taken = await sample_interleaved(samplers, rounds=rounds)
    for key, samples in taken.items():
        name, _, size = key.partition("/")
        found.add(what, name, "ms", summarise(samples), size=int(size))
    lengths = sorted(int(key.partition("/")[2]) for key in taken if key.startswith(SERVER))
    # A thread of a few records was never compacted: its window is another, and so is what reading it costs.
    shortest = next((length for length in lengths if length >= 1_000), lengths[0])
    if shortest != lengths[-1]:
        ratio = summarise_ratios(taken[f"{SERVER}/{lengths[-1]}"], taken[f"{SERVER}/{shortest}"])
        found.hold_below(f"{what}, {lengths[-1]:,} : {shortest:,}, {SERVER}", at_most=FLAT, value=ratio, unit="×")


async def _writers(found: Found, places: Mapping[str, _Place], workload: Workload, plan: Plan) -> None:
    turns = [[turn[0]] for turn, _ in zip(workload.turns(), range(plan.writers), strict=False)]
    for name, place in places.items():
        threads = [await place.tk.thread(f"writer-{number}", dialect=DIALECT) for number in range(plan.writers)]

        async def everyone(threads: list[Thread] = threads) -> None:
            await asyncio.gather(*(thread.record(items) for thread, items in zip(threads, turns, strict=True)))

        took = [await measure_ms(everyone) for _ in range(plan.rounds)]
        found.add(f"{plan.writers} writers", name, "rows/s", summarise([plan.writers * 1_000 / each for each in took]))
