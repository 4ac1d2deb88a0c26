"""`python -m benchmarks gateway`: added latency and requests a second, by size, for known and unknown histories."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import aiohttp

from benchmarks.gateway.contenders import DIRECT, LITELLM, NOBODY, THREADKEEP, Proxy, list_proxies, provider, running
from benchmarks.result import Competitor, Found, Result, describe_machine
from benchmarks.samples import Summary, measure_fsync, sample_interleaved, summarise, summarise_ratios

WORDS: Final = (
    "ledger invoice parser token window thread commit branch retry queue stream buffer cursor schema index shard replica "
    "latency budget fixture harness snapshot rollback merge digest payload header socket"
).split()
OUTPUT_WORDS: Final = 300

Message = dict[str, Any]


class Conversation:
    """One conversation: a unique body of about `size` bytes, and every later one a turn longer."""

    def __init__(self, size: int, *, seed: int, model: str = "bench") -> None:
        self._model = model
        self._random = random.Random(seed)
        self._messages: list[Message] = [
            {"role": "user", "content": f"Session {seed}. Please work through the list. {self._words(8)}"}
        ]
        self._bytes = 0
        self._calls = 0
        while self._bytes < size - 600:
            self._add(self._call(min(OUTPUT_WORDS, max(8, (size - self._bytes) // 8))))
        self._add([{"role": "assistant", "content": "Done so far."}, {"role": "user", "content": "Go on, please."}])

    def next_body(self) -> bytes:
        """Return the next request of the conversation."""
        body = json.dumps({"model": self._model, "stream": True, "messages": self._messages}).encode()
        self._add([{"role": "assistant", "content": "word " * 20}, {"role": "user", "content": f"Next: {self._words(6)}."}])
        return body

    def _call(self, words: int) -> list[Message]:
        self._calls += 1
        called = {"name": "shell", "arguments": json.dumps({"cmd": f"cat part_{self._calls}.py"})}
        name = f"call_{self._calls}"
        return [
            {"role": "assistant", "content": None, "tool_calls": [{"id": name, "type": "function", "function": called}]},
            {"role": "tool", "tool_call_id": name, "content": self._words(words)},
        ]

    def _add(self, messages: list[Message]) -> None:
        self._messages.extend(messages)
        self._bytes += sum(len(json.dumps(message)) for message in messages)

    def _words(self, count: int) -> str:
        return " ".join(self._random.choices(WORDS, k=count))


PATH: Final = "/v1/chat/completions"
KNOWN: Final = "request, known history"
UNKNOWN: Final = "request, unknown history"
# What must be durable before an answer ends is written while the provider thinks; one that does not think hides nothing.
SLOW: Final = {KNOWN: f"{KNOWN}, provider thinks 0.2 s", UNKNOWN: f"{UNKNOWN}, provider thinks 0.2 s"}
# A client shows what comes as it comes, so that the wait it feels ends with the first byte of the answer.
FIRST: Final = {KNOWN: f"{KNOWN}, first byte of the answer", UNKNOWN: f"{UNKNOWN}, first byte of the answer"}
ADDED: Final = "added to it"
WORST: Final = "added at p99"
RATE: Final = "requests a second"
BESIDE: Final = f"{RATE} : {LITELLM}"
RATE_BYTES: Final = 1_000
RATE_SLICES: Final = 5
MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured.

    Attributes:
        sizes: Bodies, in bytes.
        rounds: Samples of every size, after one that is not counted.
        clients: How many ask at once where requests a second are counted.
        seconds: For how long each is counted; a little more is asked before that.
        probes: How often fsync is timed.
    """

    name: str
    sizes: Sequence[int]
    rounds: int
    clients: int
    seconds: float
    probes: int


QUICK = Plan(name="quick", sizes=(1_000, 100_000, MEGABYTE), rounds=25, clients=32, seconds=3, probes=50)
FULL = Plan(name="full", sizes=(1_000, 10_000, 100_000, MEGABYTE, 8 * MEGABYTE), rounds=101, clients=32, seconds=15, probes=100)


async def run_gateway(
    plan: Plan,
    *,
    seed: int,
    say: Callable[[str], None],
    only: Sequence[str] | None = None,
    pythons: Mapping[str, str] = NOBODY,
) -> Result:
    """Measure everything on loopback; every process that was started is gone afterwards.

    Args:
        only: Names of those who take part, beside the provider itself; everyone who is installed, if None.
        pythons: Interpreters of environments that have a proxy, by its name; see `proxies`.
    """
    began = time.monotonic()
    everyone = list_proxies(pythons)
    present = [proxy for proxy in everyone if proxy.version is not None and (only is None or proxy.name in only)]
    found = Found()
    with tempfile.TemporaryDirectory(prefix="threadkeep-bench-") as made:
        before = measure_fsync(Path(made), times=plan.probes)
        async with AsyncExitStack() as stack:
            urls = await _started(present, stack, folder=Path(made), say=say)
            took_part = set(urls)
            session = await stack.enter_async_context(_session())
            await _measure(plan, found, urls, session=session, seed=seed, say=say)
        after = measure_fsync(Path(made), times=plan.probes)
    _hold(found, plan)
    return Result(
        bench="gateway",
        plan=plan.name,
        seed=seed,
        seconds=round(time.monotonic() - began, 1),
        machine=describe_machine(fsync_before=before, fsync_after=after),
        contenders=[
            Competitor(name=each.name, version=each.version if each.name in took_part else None, durability=None, note=each.note)
            for each in everyone
        ],
        figures=found.figures,
        targets=found.targets,
    )


async def _started(
    present: Sequence[Proxy], stack: AsyncExitStack, *, folder: Path, say: Callable[[str], None]
) -> dict[str, str]:
    upstream = await stack.enter_async_context(provider())
    urls = {DIRECT: upstream}
    for proxy in present:
        say(f"starting {proxy.name}")
        try:
            urls[proxy.name] = await stack.enter_async_context(running(proxy, upstream=upstream, folder=folder))
        except (RuntimeError, TimeoutError) as error:
            if proxy.name == THREADKEEP:
                raise
            say(f"{proxy.name} did not start and takes no part: {str(error) or 'it took too long'}")
    return urls


async def _measure(
    plan: Plan, found: Found, urls: dict[str, str], *, session: aiohttp.ClientSession, seed: int, say: Callable[[str], None]
) -> None:
    for size in plan.sizes:
        say(f"requests of {size:,} bytes, each beside the others")
        for measure, model in _measures(size):
            known, first = measure.startswith(KNOWN), measure in FIRST.values()
            numbers = _numbers(measure, size, seed=seed)
            samplers = {
                name: _sampler(session, url, size, numbers=numbers, known=known, model=model, first=first)
                for name, url in urls.items()
            }
            samples = await _taken(samplers, urls, rounds=plan.rounds, say=say)
            for name, taken in samples.items():
                found.add(measure, name, "ms", summarise(taken), size=size)
                if name != DIRECT:
                    added = [mine - bare for mine, bare in zip(taken, samples[DIRECT], strict=True)]
                    found.add(f"{measure}: {ADDED}", name, "ms", summarise(added), size=size)
                    found.add(f"{measure}: {WORST}", name, "ms", _at_p99(added), size=size)
    await _measure_rate(plan, found, urls, session=session, seed=seed, say=say)


async def _measure_rate(
    plan: Plan, found: Found, urls: dict[str, str], *, session: aiohttp.ClientSession, seed: int, say: Callable[[str], None]
) -> None:
    """Count small requests that are asked again and again, so that their histories are known, in slices that take turns."""
    say(f"{plan.clients} clients at once, {RATE_BYTES:,} bytes each, in turns")
    bodies = [Conversation(RATE_BYTES, seed=seed * 7_919 + number).next_body() for number in range(plan.clients)]
    samplers = {name: partial(_rate, session, url, bodies, seconds=plan.seconds / RATE_SLICES) for name, url in urls.items()}
    samples = await _taken(samplers, urls, rounds=RATE_SLICES, say=say)
    for name, taken in samples.items():
        found.add(RATE, name, "1/s", summarise(taken))
    if LITELLM in samples:
        found.add(BESIDE, THREADKEEP, "×", summarise_ratios(samples[THREADKEEP], samples[LITELLM]))


async def _taken(
    samplers: Mapping[str, Callable[[], Awaitable[float]]], urls: dict[str, str], *, rounds: int, say: Callable[[str], None]
) -> dict[str, list[float]]:
    """Return everyone's samples; a peer that stops answering is left out from here on."""
    while True:
        try:
            return await sample_interleaved({name: samplers[name] for name in urls}, rounds=rounds, warm_up=2)
        except Unhelpful as refusal:
            name = next(name for name, url in urls.items() if url == refusal.url)
            _left_out(urls, name, refusal, say=say)


def _left_out(urls: dict[str, str], name: str, refusal: Unhelpful, *, say: Callable[[str], None]) -> None:
    if name in (DIRECT, THREADKEEP):
        raise refusal
    say(f"{name} is left out from here on: {refusal}")
    del urls[name]


class Unhelpful(Exception):
    """Somebody did not answer as a provider does."""

    def __init__(self, url: str, *, status: int, body: bytes) -> None:
        super().__init__(f"it answered {status}: {body[:200]!r}")
        self.url = url


def _measures(size: int) -> list[tuple[str, str]]:
    """Return what is measured at a size, and which model is asked for it."""
    instant = [(KNOWN, "bench"), (UNKNOWN, "bench")]
    if size != MEGABYTE:
        return instant
    first = [(FIRST[measure], model) for measure, model in instant]
    return [*instant, *first, *((SLOW[measure], "bench-slow") for measure, _ in instant)]


def _sampler(
    session: aiohttp.ClientSession, url: str, size: int, *, numbers: range, known: bool, model: str, first: bool
) -> Callable[[], Awaitable[float]]:
    """Return what sends the next request of a conversation that is known so far, or the first of another each time."""
    seeds = iter(numbers)
    conversation = Conversation(size, seed=next(seeds), model=model)

    async def sample() -> float:
        nonlocal conversation
        if not known:
            conversation = Conversation(size, seed=next(seeds), model=model)
        return await _asked(session, url, conversation.next_body(), first=first)

    return sample


def _numbers(measure: str, size: int, *, seed: int) -> range:
    """Return the seeds of a measure's conversations: no other one may have made them, or a part of them, known before."""
    first = crc32(f"{seed} {size} {measure}".encode()) << 20
    return range(first, first + (1 << 20))


async def _asked(session: aiohttp.ClientSession, url: str, body: bytes, *, first: bool = False) -> float:
    """Return how long it took until the last byte of the answer, or, if `first`, until its first."""
    began = time.perf_counter_ns()
    async with session.post(url + PATH, data=body) as answer:
        opening = await answer.content.readany()
        first_at = time.perf_counter_ns()
        whole = opening + await answer.read()
    taken = ((first_at if first else time.perf_counter_ns()) - began) / 1e6
    if answer.status != 200 or not whole.rstrip().endswith(b"[DONE]"):
        raise Unhelpful(url, status=answer.status, body=whole)
    return taken


async def _rate(session: aiohttp.ClientSession, url: str, bodies: Sequence[bytes], *, seconds: float) -> float:
    """Return how many requests were answered a second while a client for each body asked for it, again and again."""
    began, until = time.monotonic(), time.monotonic() + seconds
    counts = await asyncio.gather(*(_keep_asking(partial(_asked, session, url, body), until=until) for body in bodies))
    return sum(counts) / (time.monotonic() - began)


async def _keep_asking(ask: Callable[[], Awaitable[float]], *, until: float) -> int:
    count = 0
    while time.monotonic() < until:
        await ask()
        count += 1
    return count


def _at_p99(samples: Sequence[float]) -> Summary:
    worst = statistics.quantiles(samples, n=100, method="inclusive")[98] if len(samples) > 1 else samples[0]
    return Summary(median=worst, low=worst, high=worst, samples=1)


def _hold(found: Found, plan: Plan) -> None:
    if MEGABYTE in plan.sizes:
        for measure, most in ((KNOWN, 5.0), (UNKNOWN, 25.0)):
            for which in (measure, FIRST[measure], SLOW[measure]):
                value = found.value(f"{which}: {ADDED}", size=MEGABYTE)
                found.hold_below(f"1 MB streamed, {which.partition(', ')[2]}: added", at_most=most, value=value, unit="ms")
    what = f"{RATE} beside LiteLLM's proxy, {RATE_BYTES:,} bytes each, known histories, in turns"
    ratio = found.value(BESIDE)
    if ratio is None:
        found.hold(what, bound="≥ 5 ×", found="not measured: not installed", met=None)
        return
    shown = f"{ratio.median:.1f} × ({ratio.low:.1f}–{ratio.high:.1f})"
    found.hold(what, bound="≥ 5 ×", found=shown, met=ratio.median >= 5)


def _session() -> aiohttp.ClientSession:
    headers = {"content-type": "application/json", "authorization": "Bearer none"}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=120), headers=headers
    )
