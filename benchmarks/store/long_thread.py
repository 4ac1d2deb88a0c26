"""Measures what a thread's length costs: resume, append, fork, rollback and lookup."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from hashlib import blake2b
from itertools import count

from benchmarks import build_child_environ
from benchmarks.result import Found
from benchmarks.samples import measure_ms, sample_interleaved, summarise, summarise_ratios
from benchmarks.store.growth import THREAD, Grown
from benchmarks.store.workload import DIALECT, Workload
from threadkeep.client import Config, Thread, Threadkeep
from threadkeep.threads.writer import find_deepest

THREADKEEP = "threadkeep"
RESUME = "resume, from closed"
WINDOW = "window, store open"
APPEND = "append"
FORK = "fork in the middle"
ROLLBACK = "rollback, one turn"
FLAT = 1.5
RESUME_MS = 10.0
RESUME_SPREAD = 2.0
RESUME_AT = 10_000
SHORTEST_COMPACTED = 1_000
# What a client adds to the history it had sent before: its last answer, some outputs, the next question.
NEW_ITEMS = 5

Sampler = Callable[[], Awaitable[float]]


async def measure_resume(grown: Mapping[int, Grown], found: Found, *, rounds: int) -> None:
    """Time from nothing to the window: the file opened, the thread found, its window in hand. Then the window alone."""
    compacted = {size: each for size, each in grown.items() if size >= SHORTEST_COMPACTED}
    reopened: dict[int, Sampler] = {size: partial(_reopened, each) for size, each in compacted.items()}
    await _put_down(found, RESUME, reopened, rounds=rounds, at_most=RESUME_SPREAD)
    async with AsyncExitStack() as stack:
        threads = {size: await _thread(stack, each) for size, each in compacted.items()}
        windows: dict[int, Sampler] = {size: partial(measure_ms, thread.window) for size, thread in threads.items()}
        await _put_down(found, WINDOW, windows, rounds=rounds, at_most=RESUME_SPREAD)
    opened = found.value(RESUME, size=RESUME_AT)
    found.hold_below(f"resume at {RESUME_AT:,} records", at_most=RESUME_MS, value=opened, unit="ms")


async def _reopened(grown: Grown) -> float:
    tk = Threadkeep(Config(store=str(grown.path)))

    async def work() -> None:
        await tk.__aenter__()
        await (await tk.thread(THREAD, dialect=DIALECT)).window()

    try:
        return await measure_ms(work)
    finally:
        await tk.__aexit__(None, None, None)


async def measure_memory(grown: Mapping[int, Grown], found: Found) -> None:
    """Put down the peak memory of a process that does nothing but resume."""
    for size, each in grown.items():
        child = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "benchmarks.store.resume_process",
            str(each.path),
            THREAD,
            stdout=asyncio.subprocess.PIPE,
            env=build_child_environ(),
        )
        said, _ = await child.communicate()
        if child.returncode:
            raise RuntimeError(f"the process that was to resume a thread of {size:,} records ended with {child.returncode}")
        found.add("peak memory", THREADKEEP, "MB", summarise([int(said) / 1e6]), size=size)


async def measure_branching(grown: Mapping[int, Grown], found: Found, *, workload: Workload, rounds: int) -> None:
    """Time a lone append, a fork in mid-thread and a rollback at every length, each round at all lengths."""
    items = next(workload.turns())
    async with AsyncExitStack() as stack:
        threads = {size: await _thread(stack, each) for size, each in grown.items()}
        numbers = count()
        appends = {size: partial(_appended, thread, items[:1], numbers) for size, thread in threads.items()}
        forks = {size: partial(_forked, threads[size], each) for size, each in grown.items()}
        rollbacks = {size: partial(_rolled_back, thread, items, numbers) for size, thread in threads.items()}
        await _put_down(found, APPEND, appends, rounds=rounds, at_most=FLAT)
        await _put_down(found, FORK, forks, rounds=rounds, at_most=FLAT)
        await _put_down(found, ROLLBACK, rollbacks, rounds=rounds, at_most=FLAT)


async def _appended(thread: Thread, items: Sequence[Mapping[str, object]], numbers: count[int]) -> float:
    marked = [{**item, "id": f"msg_{next(numbers)}"} for item in items]
    return await measure_ms(partial(thread.record, marked))


async def _forked(thread: Thread, grown: Grown) -> float:
    return await measure_ms(partial(thread.fork, before_turn=max(1, grown.turns // 2)))


async def _rolled_back(thread: Thread, items: Sequence[Mapping[str, object]], numbers: count[int]) -> float:
    # A turn of its own to take back each time; laying it down is not part of the measure.
    await _appended(thread, items[:1], numbers)
    return await measure_ms(partial(thread.rollback, turns=1))


async def measure_lookup(grown: Mapping[int, Grown], found: Found, *, rounds: int) -> None:
    """Time finding a history that was sent before, grown by a few items, and one that was never sent."""
    known: dict[int, Sampler] = {}
    unknown: dict[int, Sampler] = {}
    async with AsyncExitStack() as stack:
        for size, each in grown.items():
            tk = await stack.enter_async_context(Threadkeep(Config(store=str(each.path))))
            store = tk.backend.store
            added = [_made_up(f"new {number}", like=each.chain[0]) for number in range(NEW_ITEMS)]
            strange = [_made_up(f"strange {number}", like=each.chain[0]) for number in range(len(each.chain))]
            known[size] = partial(measure_ms, partial(find_deepest, store, [*each.chain, *added]))
            unknown[size] = partial(measure_ms, partial(find_deepest, store, strange))
        await _put_down(found, "lookup, known", known, rounds=rounds)
        await _put_down(found, "lookup, unknown", unknown, rounds=max(1, rounds // 3))


def _made_up(text: str, *, like: bytes) -> bytes:
    return blake2b(text.encode(), digest_size=len(like)).digest()


async def _thread(stack: AsyncExitStack, grown: Grown) -> Thread:
    tk = await stack.enter_async_context(Threadkeep(Config(store=str(grown.path))))
    return await tk.thread(THREAD, dialect=DIALECT)


async def _put_down(
    found: Found, measure: str, samplers: Mapping[int, Sampler], *, rounds: int, at_most: float | None = None
) -> None:
    """Take samples at every length; `at_most` bounds how many times the shortest thread's the longest one's may be."""
    taken = await sample_interleaved({str(size): sampler for size, sampler in samplers.items()}, rounds=rounds)
    for size, samples in taken.items():
        found.add(measure, THREADKEEP, "ms", summarise(samples), size=int(size))
    if at_most is not None:
        _hold_spread(found, measure, taken, at_most=at_most)


def _hold_spread(found: Found, measure: str, samples: Mapping[str, Sequence[float]], *, at_most: float) -> None:
    """Hold the longest thread's figure against the shortest one's."""
    sizes = [int(size) for size in samples]
    if len(sizes) < 2:
        return
    ratio = summarise_ratios(samples[str(max(sizes))], samples[str(min(sizes))])
    found.hold_below(f"{measure}, {max(sizes):,} : {min(sizes):,}", at_most=at_most, value=ratio, unit="×")
